"""Where things are: cells, hosts and instances."""

from __future__ import annotations

from django.conf import settings

CELL0 = "cell0"
API_ALIAS = "default"


def cell_aliases(*, with_cell0: bool = True) -> list[str]:
    """Aliases of all cells, cell0 first."""
    names = sorted(alias for alias in settings.DATABASES if alias not in (API_ALIAS, CELL0))
    return [CELL0, *names] if with_cell0 else names


def journal_aliases() -> list[str]:
    """Every database that has a journal."""
    return [API_ALIAS, *cell_aliases()]


def queue_of(alias: str) -> str:
    """The conductor queue that works on the journal in `alias`. The API-level conductor also looks after cell0."""
    return "conductor" if alias in (API_ALIAS, CELL0) else f"conductor.{alias}"
