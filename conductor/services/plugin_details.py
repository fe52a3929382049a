"""One plugin in full: beside what the catalogue says of it, its last errors, its own log lines, and what one in the
shadow would have decided otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from conductor.api_db.models import PluginNote
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.plugins.notes import AT_MOST, DIFFERENCE, FAULT, LINE
from conductor.services import plugin_views
from conductor.services.plugin_views import PluginView


@dataclass(frozen=True)
class FaultView:
    """An error: what, where in the plugin's code, how often since when. Of foreign errors only the kind is kept."""

    error: str
    place: str
    times: int
    began_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class LineView:
    """A line of the plugin's own logger, without what looks like a secret."""

    at: datetime
    level: str
    text: str
    times: int


@dataclass(frozen=True)
class DifferenceView:
    """A decision that one in the shadow would have made otherwise, and the workflow in which it was made."""

    at: datetime
    text: str
    run_uuid: str


@dataclass(frozen=True)
class PluginDetail:
    """Each list begins with the newest, and has fifty at most."""

    plugin: PluginView
    faults: tuple[FaultView, ...]
    lines: tuple[LineView, ...]
    differences: tuple[DifferenceView, ...]


def detail(context: RequestContext, kind: str, name: str) -> PluginDetail:
    """Raises NotFound for a kind or a name that is not in the catalogue, Forbidden for others than operators."""
    found = plugin_views.catalogue(context)
    view = next((one for one in found.plugins if (one.kind, one.name) == (kind, name)), None)
    if view is None:
        raise NotFound(f"There is no {kind[:40]} {name[:60]} in the catalogue.")
    rows = _notes(kind, name)
    return PluginDetail(
        view,
        faults=tuple(FaultView(row.text, row.place, row.times, row.began_at, row.last_at) for row in rows[FAULT]),
        lines=tuple(LineView(row.last_at, row.level, row.text, row.times) for row in rows[LINE]),
        differences=tuple(DifferenceView(row.last_at, row.text, _uuid(row.place)) for row in rows[DIFFERENCE]),
    )


def _notes(kind: str, name: str) -> Mapping[str, list[PluginNote]]:
    rows: dict[str, list[PluginNote]] = {FAULT: [], LINE: [], DIFFERENCE: []}
    for row in PluginNote.objects.filter(kind=kind, name=name).order_by("-last_at", "-id")[: len(rows) * AT_MOST]:
        rows[row.source].append(row)
    return rows


def _uuid(text: Any) -> str:
    """A workflow that there is no page for has none."""
    try:
        return str(UUID(text))
    except ValueError:
        return ""
