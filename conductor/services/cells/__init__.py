"""Cells as operators see them: health, and actions such as disabling one.

Routing of queries to cells belongs to `conductor/cells`.
"""
