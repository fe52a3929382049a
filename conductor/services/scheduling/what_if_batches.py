"""Replays of recent requests, each by itself: on today's fleet and plugins, and with hypothetical changes.

Nothing is claimed or written, and no request takes capacity from the next. Moves are left out, as others use the
capacity that they released.
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
from conductor.core.phrases import phrase
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.what_if import SEED
from conductor.scheduler import hypotheses
from conductor.services.scheduling.what_if_comparisons import WhatIfChanges, hypothetical_pipeline, hypothetical_table

BATCHES = (10, 100, 1000)
MOST_SECONDS = 10.0
MOST_NAMED = 20


@dataclass(frozen=True)
class ChangedRequest:
    """A request whose result changes: it fits on one side only."""

    decision_uuid: str
    project_id: str
    num_instances: int
    flavor: str
    asked_at: datetime


@dataclass(frozen=True)
class BatchResult:
    """Result of a batch: `asked` of `wanted` requests were replayed; `is_cut` when time ran out.

    Without hypothetical changes both sides are equal.
    """

    wanted: int
    asked: int
    fit_now: int
    fit_then: int
    lost: list[ChangedRequest]
    won: list[ChangedRequest]
    num_lost: int
    num_won: int
    elsewhere: int
    is_hypothetical: bool
    is_cut: bool


def replay(context: RequestContext, count: int, what_if_changes: WhatIfChanges) -> BatchResult:
    """Replay the newest requests.

    Raises Forbidden for callers other than operators, and Invalid naming an impossible change.
    """
    if not context.is_admin:
        raise Forbidden(phrase("Only administrators can simulate changes."))
    if count not in BATCHES:
        raise Invalid(
            phrase("Select a number of requests to replay: %(choices)s.", choices=", ".join(map(str, BATCHES))),
            field="replay",
        )
    table = hypotheses.fleet().table
    tally = _Tally(
        _Side(table, hypotheses.pipeline()),
        None
        if what_if_changes.is_none
        else _Side(hypothetical_table(table, what_if_changes), hypothetical_pipeline(context, what_if_changes)),
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
        """Return the hosts for all instances; none where not all fit."""
        try:
            outcome = decide(self.table, spec, uuids, pipeline=self.pipeline, seed=SEED)
        except Invalid:  # something in the request does not exist any more
            return []
        return [self.table.states[row].host for row in outcome.picks] if outcome.is_successful else []


class _Tally:
    def __init__(self, now: _Side, then: _Side | None) -> None:
        self._now, self._then = now, then
        self._asked = self._fit_now = self._fit_then = self._elsewhere = 0
        self._lost: list[ChangedRequest] = []
        self._won: list[ChangedRequest] = []

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
            turned = ChangedRequest(
                str(row["uuid"]), row["project_id"], len(uuids), spec.flavor.name, row["created_at"]
            )
            (self._lost if before else self._won).append(turned)

    def batch(self, wanted: int, *, is_cut: bool) -> BatchResult:
        return BatchResult(
            wanted=wanted,
            asked=self._asked,
            fit_now=self._fit_now,
            fit_then=self._fit_then,
            lost=self._lost[:MOST_NAMED],
            won=self._won[:MOST_NAMED],
            num_lost=len(self._lost),
            num_won=len(self._won),
            elsewhere=self._elsewhere,
            is_hypothetical=self._then is not None,
            is_cut=is_cut,
        )
