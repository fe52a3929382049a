"""How often a plugin was decisive lately: read from the decisions that are kept, not from a count of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from conductor.api_db.models import SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.services.plugins import require_operator
from conductor.transactions import database_now

LAST_HOUR = timedelta(hours=1)
MOST_READ = 1000  # the newest: the page of one plugin is waited for


@dataclass(frozen=True)
class Effect:
    """Of `decisions` of the last hour the plugin settled `decisive`.

    A filter settles a decision when it turns away the last hosts that were left; a weigher when without it another
    host would have been the heaviest.
    """

    decisions: int
    decisive: int


def effect(context: RequestContext, kind: str, name: str) -> Effect | None:
    """For filters and weighers; None for others. Raises Forbidden for others than operators."""
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
