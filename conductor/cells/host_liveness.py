"""Liveness and fencing of compute hosts. Parked runs check both before they give up on a host."""

from __future__ import annotations

from django.conf import settings
from django.db import connections

from conductor.cell_db import statements


def is_unresponsive(alias: str, host: str) -> bool:
    """Whether the host has never reported, is forced down, or has not reported for `host_down_seconds`."""
    return not statements.has_reported_since(connections[alias], host, settings.NOVELLA_HOST_DOWN_SECONDS)


def is_fenced(alias: str, host: str) -> bool:
    """Whether an operator has fenced the host, so that it no longer carries out earlier commands."""
    return statements.is_forced_down(connections[alias], host)
