"""Whether a compute host is heard, or known to be off: asked by parked runs before they give up on it."""

from __future__ import annotations

from django.conf import settings
from django.db import connections

from conductor.sql import dialect

_HEARD = (
    "SELECT 1 FROM cell_db_service WHERE \"binary\" = 'nova-compute' AND host = %s AND NOT is_forced_down "
    "AND last_seen_at > {later}"
)
_FENCED = "SELECT 1 FROM cell_db_service WHERE \"binary\" = 'nova-compute' AND host = %s AND is_forced_down"


def is_silent(alias: str, host: str) -> bool:
    """True when the host was never heard, is forced down, or was not heard for `host_down_seconds`."""
    return not dialect.run(connections[alias], _HEARD, (host, -settings.NOVELLA_HOST_DOWN_SECONDS))


def is_fenced(alias: str, host: str) -> bool:
    """True when an operator has said that the host is off: what it was told before, it does not do now."""
    return bool(dialect.run(connections[alias], _FENCED, (host,)))
