"""Consoles of servers: access, connections, shares, logs and diagnostics.

The WebSocket itself belongs to `portal/live`, the host's side to `conductor/compute`.
"""
