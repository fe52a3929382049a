"""Volumes, snapshots, backups and groups, and the volume proxy of the Compute API.

Volumes of a server belong to `servers`; rows and files to `conductor/volume`.
"""
