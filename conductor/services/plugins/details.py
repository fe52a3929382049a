"""Details of one plugin: its catalog entry, last errors, log lines, and differing decisions in shadow mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from conductor.api_db.models import PluginNote, SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.phrases import phrase
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.db.transactions import database_now
from conductor.plugins.log import AT_MOST, DIFFERENCE, FAULT, LINE
from conductor.services.plugins import catalog
from conductor.services.plugins.catalog import PluginView
from conductor.services.plugins.plugins import require_operator


@dataclass(frozen=True)
class FaultView:
    """An error: its text, the place in the plugin's code, and its count. Of foreign errors only the kind is stored."""

    error: str
    place: str
    times: int
    began_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class LineView:
    """A line of the plugin's own logger, with likely secrets masked."""

    at: datetime
    level: str
    text: str
    times: int


@dataclass(frozen=True)
class DifferenceView:
    """A decision that a plugin in shadow mode would have changed, and its workflow."""

    at: datetime
    text: str
    run_uuid: str


@dataclass(frozen=True)
class PluginDetail:
    """A plugin with its newest errors, log lines and differences, fifty of each at most."""

    plugin: PluginView
    faults: tuple[FaultView, ...]
    lines: tuple[LineView, ...]
    differences: tuple[DifferenceView, ...]


def detail(context: RequestContext, kind: str, name: str) -> PluginDetail:
    """Return a plugin's details.

    Raises NotFound for an unknown kind or name, Forbidden for callers other than operators.
    """
    found = catalog.catalogue(context)
    view = next((one for one in found.plugins if (one.kind, one.name) == (kind, name)), None)
    if view is None:
        raise NotFound(phrase("There is no %(kind)s %(name)s in the catalogue.", kind=kind[:40], name=name[:60]))
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
    """Return a workflow's uuid. Empty for text that is not a uuid."""
    try:
        return str(UUID(text))
    except ValueError:
        return ""


LAST_HOUR = timedelta(hours=1)
MOST_READ = 1000  # the newest only, as a page waits for it


@dataclass(frozen=True)
class Effect:
    """Influence of a plugin: it determined `decisive` of the `decisions` of the last hour.

    A filter determines a decision by rejecting the last remaining hosts. A weigher does so if without it another host
    would have the highest weight.
    """

    decisions: int
    decisive: int


def effect(context: RequestContext, kind: str, name: str) -> Effect | None:
    """Return a filter's or weigher's influence. None for other kinds.

    Raises Forbidden for callers other than operators.
    """
    require_operator(context)
    if kind not in (FILTER, WEIGHER):
        return None
    rows = SchedulingDecision.objects.filter(created_at__gte=database_now() - LAST_HOUR).order_by("-pk")
    if kind == FILTER:
        summaries = list(rows.values_list("summary", flat=True)[:MOST_READ])
        return Effect(len(summaries), sum(_took_the_last(one.get("funnel", ()), name) for one in summaries))
    details = list(rows.values_list("details", flat=True)[:MOST_READ])
    return Effect(len(details), sum(_tipped(one.get("weights", ()), name) for one in details))


def _took_the_last(funnel: Sequence[Mapping[str, Any]], name: str) -> bool:
    last = next((stage for stage in funnel if stage["before"] and not stage["after"]), None)
    return last is not None and bool(last["filter"] == name)


def _tipped(weights: Sequence[Mapping[str, Any]], name: str) -> bool:
    if len(weights) < 2:
        return False
    own = [sum(part["weight"] for part in one["parts"] if part["weigher"] == name) for one in weights]
    totals = [one["total"] for one in weights]
    without = [total - part for total, part in zip(totals, own, strict=True)]
    return bool(without[totals.index(max(totals))] < max(without))
