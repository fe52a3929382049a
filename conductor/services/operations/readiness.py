"""Readiness of this process: every database responds, and has the schema of this code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from conductor.services.plugins import catalog

UNRESPONSIVE = "doesn't respond"


@cache
def _wanted() -> frozenset[tuple[str, str]]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    return frozenset(loader.disk_migrations or ())


def missing(aliases: Iterable[str] | None = None) -> dict[str, str]:
    """Return the reason why each of these databases, or of all, is not ready; without details that help an attacker."""
    found: dict[str, str] = {}
    for alias in connections if aliases is None else aliases:
        reason = _why_not(alias)
        if reason:
            found[alias] = reason
    return found


def remarks() -> dict[str, Any]:
    """Return hints for operators although all is ready: `{"remarks": {"plugins": "1 in quarantine"}}`."""
    try:
        shut_out = len(catalog.in_quarantine())
    except DatabaseError:
        return {}
    return {"remarks": {"plugins": f"{shut_out} in quarantine"}} if shut_out else {}


def _why_not(alias: str) -> str:
    try:
        applied = MigrationRecorder(connections[alias]).applied_migrations()
    except DatabaseError:
        return UNRESPONSIVE
    behind = len(_wanted() - applied.keys())
    return f"{behind} schema migrations are not applied" if behind else ""
