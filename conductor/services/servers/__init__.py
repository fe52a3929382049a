"""Servers: launch, lookup, actions and deletion, with their flavors, keys, ports and volumes.

Moves belong to `server_migrations`, consoles to `consoles`; volumes without a server to `volumes`.
"""
