"""The newest requests asked again, each by itself: of the fleet and the plugins as they are, and as supposed.

Nothing is claimed or written, and no answer takes room from the next question. Moves are left out: what they gave back
where they came from is long taken.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conductor.api_db.models import SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.core.host_state import HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.what_if import SEED
from conductor.scheduler import hypotheses
from conductor.services.what_if_comparisons import Supposition, supposed_pipeline, supposed_table

BATCHES = (10, 100, 1000)
MOST_SECONDS = 10.0
MOST_NAMED = 20


@dataclass(frozen=True)
class Turned:
    """A request whose answer is another one: it fits on one side only."""

    decision_uuid: str
    project_id: str
    num_instances: int
    flavor: str
    asked_at: datetime


@dataclass(frozen=True)
class Batch:
    """`asked` of `wanted` requests were asked again; `is_cut` when time ran out. Without a supposition both agree."""

    wanted: int
    asked: int
    fit_now: int
    fit_then: int
    lost: list[Turned]
    won: list[Turned]
    num_lost: int
    num_won: int
    elsewhere: int
    is_supposed: bool
    is_cut: bool


def replay(context: RequestContext, count: int, supposition: Supposition) -> Batch:
    """Raises Forbidden for others than operators, and Invalid naming what cannot be supposed."""
    if not context.is_admin:
        raise Forbidden("Only administrators ask what would be.")
    if count not in BATCHES:
        raise Invalid(f"Replay {', '.join(map(str, BATCHES))} requests.", field="replay")
    table = hypotheses.fleet().table
    tally = _Tally(
        _Side(table, hypotheses.pipeline()),
        None
        if supposition.is_none
        else _Side(supposed_table(table, supposition), supposed_pipeline(context, supposition)),
    )
    is_cut = False
    end = time.monotonic() + MOST_SECONDS
    rows = SchedulingDecision.objects.exclude(request=None).order_by("-pk")
    fields = ("uuid", "project_id", "request", "summary", "created_at")
    for row in rows.values(*fields)[:count].iterator(chunk_size=100):
        if time.monotonic() > end:
            is_cut = True
            break
        tally.add(row)
    return tally.batch(count, is_cut=is_cut)


@dataclass(frozen=True)
class _Side:
    table: HostTable
    pipeline: Pipeline

    def hosts_for(self, spec: RequestSpec, uuids: list[str]) -> list[str]:
        """The hosts that all of them would go to; none where not all fit."""
        try:
            outcome = decide(self.table, spec, uuids, pipeline=self.pipeline, seed=SEED)
        except Invalid:  # what it asked for is not there any more
            return []
        return [self.table.states[row].host for row in outcome.picks] if outcome.is_successful else []


class _Tally:
    def __init__(self, now: _Side, then: _Side | None) -> None:
        self._now, self._then = now, then
        self._asked = self._fit_now = self._fit_then = self._elsewhere = 0
        self._lost: list[Turned] = []
        self._won: list[Turned] = []

    def add(self, row: dict[str, Any]) -> None:
        spec = hypotheses.derived(RequestSpec.from_json(row["request"]))
        uuids = list(row["summary"].get("instance_uuids", ()))
        if spec.move is not None or not uuids:
            return
        before = self._now.hosts_for(spec, uuids)
        after = before if self._then is None else self._then.hosts_for(spec, uuids)
        self._asked += 1
        self._fit_now += bool(before)
        self._fit_then += bool(after)
        self._elsewhere += bool(before and after and before != after)
        if bool(before) != bool(after):
            turned = Turned(str(row["uuid"]), row["project_id"], len(uuids), spec.flavor.name, row["created_at"])
            (self._lost if before else self._won).append(turned)

    def batch(self, wanted: int, *, is_cut: bool) -> Batch:
        return Batch(
            wanted=wanted,
            asked=self._asked,
            fit_now=self._fit_now,
            fit_then=self._fit_then,
            lost=self._lost[:MOST_NAMED],
            won=self._won[:MOST_NAMED],
            num_lost=len(self._lost),
            num_won=len(self._won),
            elsewhere=self._elsewhere,
            is_supposed=self._then is not None,
            is_cut=is_cut,
        )
