"""Look-up of cells, hosts and instances."""

from __future__ import annotations

from django.conf import settings

CELL0 = "cell0"
API_ALIAS = "default"


def cell_aliases(*, with_cell0: bool = True) -> list[str]:
    """Return the aliases of all cells, cell0 first."""
    names = sorted(alias for alias in settings.DATABASES if alias not in (API_ALIAS, CELL0))
    return [CELL0, *names] if with_cell0 else names


def journal_aliases() -> list[str]:
    """Return every database that has a journal."""
    return [API_ALIAS, *cell_aliases()]


def queue_of(alias: str) -> str:
    """Return the conductor queue for the journal in `alias`. The API-level conductor also handles cell0."""
    return "conductor" if alias in (API_ALIAS, CELL0) else f"conductor.{alias}"
