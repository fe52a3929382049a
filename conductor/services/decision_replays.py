"""Decisions asked again: all filters about all hosts, why not this one, what would make it fit, and how it ends now.

The hosts are those that the decision saw, not those of now, unless `now` is asked for. Nothing is claimed or written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from conductor.api_db.models import SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.host_state import HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.fits_if import fleet_remedies, request_remedies
from conductor.core.scheduling.replay import Replay, place_of, replay
from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import hypotheses, snapshot_store
from conductor.scheduler.snapshot_store import Seen
from conductor.services import decisions
from conductor.services.decision_values import Evaluation, HostExplained, Matrix, Remedies

THEN, NOW = "then", "now"
FLEETS = (THEN, NOW)


@dataclass(frozen=True)
class _Asked:
    """A stored decision, ready to be asked again in the round that was kept."""

    row: SchedulingDecision
    seen: Seen
    spec: RequestSpec
    pipeline: Pipeline

    @property
    def instance_uuids(self) -> list[str]:
        """The instances that had no host yet in that round."""
        uuids: list[str] = self.row.summary["instance_uuids"]
        return uuids[self.row.summary.get("round", 0) :]

    @property
    def is_partial(self) -> bool:
        return self.seen.is_partial

    @property
    def is_same_plugins(self) -> bool:
        return bool(self.row.summary.get("plugins") == hypotheses.plugins_digest())

    def replay(self) -> Replay:
        return replay(self.seen.table, self.spec, self.pipeline)


def matrix(context: RequestContext, decision_uuid: UUID | str, *, limit: int, marker: str = "") -> Matrix:
    """Every filter about every host; `marker` is the last host and node of the page before ("host/node").

    For operators. Raises NotFound, also for what was not kept, Forbidden.
    """
    asked = _asked(decisions.operators_row(context, decision_uuid))
    again = asked.replay()
    order = [int(row) for row in again.order()]
    if marker:
        places = [index for index, row in enumerate(order) if key_of(again, row) == marker]
        if not places:
            raise NotFound(f"Marker {marker[:60]} could not be found.")
        order = order[places[0] + 1 :]
    return Matrix(
        filters=again.counts(),
        hosts=[asdict(again.row(row)) for row in order[:limit]],
        num_hosts=len(again.hosts),
        is_partial=asked.is_partial,
        is_same_plugins=asked.is_same_plugins,
        has_more=len(order) > limit,
    )


def key_of(again: Replay, row: int) -> str:
    """The marker of a host: a host may have several nodes."""
    state = again.hosts.states[row]
    return f"{state.host}/{state.node}"


def explain_host(context: RequestContext, decision_uuid: UUID | str, host: str) -> HostExplained:
    """Why this host, or why not; for operators. Raises NotFound for a host that the decision did not see."""
    row = decisions.operators_row(context, decision_uuid)
    asked = _asked(row)
    again = asked.replay()
    rows = again.hosts.rows_of([host])
    if not rows:
        why = "is not among the hosts that were kept" if asked.is_partial else "was not there"
        raise NotFound(f"Host {host[:60]} {why} when this was decided.")
    nodes = []
    for index in rows:
        place = place_of(again.hosts, asked.spec, asked.pipeline, index)
        nodes.append({**asdict(again.row(index)), "place": asdict(place) if place else None})
    return HostExplained(
        host=host,
        was_chosen=any(chosen[0]["host"] == host for chosen in row.selections),
        is_partial=asked.is_partial,
        is_same_plugins=asked.is_same_plugins,
        nodes=nodes,
    )


def remedies(context: RequestContext, decision_uuid: UUID | str) -> Remedies:
    """How near the request came, and what would have made it fit. Tenants see changes of their request only."""
    asked = _asked(decisions.row_of(context, decision_uuid))
    again = asked.replay()
    fitting = hypotheses.fitting(asked.pipeline, len(asked.instance_uuids))
    found = [] if asked.row.is_successful else request_remedies(again.hosts, asked.spec, fitting)
    nearest: list[dict[str, Any]] = []
    if context.is_admin:
        nearest = [asdict(one) for one in again.nearest()]
        found += [] if asked.row.is_successful else fleet_remedies(again, fitting)
    return Remedies(nearest, [asdict(one) for one in found], asked.is_partial, asked.is_same_plugins)


def evaluate(context: RequestContext, decision_uuid: UUID | str, fleet: str = THEN) -> Evaluation:
    """How it would end if it were decided again, by today's plugins. Raises Invalid for another fleet."""
    if fleet not in FLEETS:
        raise Invalid(f"Unknown fleet {fleet[:60]}; it is one of {', '.join(FLEETS)}.", field="fleet")
    row = decisions.row_of(context, decision_uuid)
    question = _question_now(row) if fleet == NOW else _question_then(row)
    trial = what_if.launch(
        question.table,
        question.spec,
        question.instance_uuids,
        pipeline=hypotheses.pipeline(),
        missing_cells=question.missing_cells,
        seed=row.summary["seed"],
    )
    decision = trial.decision
    before = [chosen[0]["host"] for chosen in row.selections]
    return Evaluation(
        fleet=fleet,
        is_partial=question.is_partial,
        is_same_plugins=row.summary.get("plugins") == hypotheses.plugins_digest(),
        is_successful=decision.is_successful,
        num_instances=len(question.instance_uuids),
        placed=trial.placed,
        num_hosts=decision.num_hosts,
        funnel=[stage._asdict() for stage in decision.funnel],
        advice=list(decision.advice),
        differs=decision.is_successful != row.is_successful or (row.is_successful and list(trial.hosts) != before),
        chosen=list(trial.hosts) if context.is_admin else [],
    )


@dataclass(frozen=True)
class _Question:
    table: HostTable
    spec: RequestSpec
    instance_uuids: Sequence[str]
    missing_cells: Mapping[str, str]
    is_partial: bool


def _question_then(row: SchedulingDecision) -> _Question:
    asked = _asked(row)
    return _Question(asked.seen.table, asked.spec, asked.instance_uuids, row.summary["missing_cells"], asked.is_partial)


def _question_now(row: SchedulingDecision) -> _Question:
    """The whole request, for today's hosts: what it has been given meanwhile is taken there."""
    asked = hypotheses.now(_request_of(row))
    return _Question(asked.table, asked.spec, row.summary["instance_uuids"], asked.missing_cells, False)


def question_of(context: RequestContext, decision_uuid: UUID | str) -> tuple[RequestSpec, list[str]]:
    """What a stored decision was asked, and for which instances; for operators. Raises NotFound, Forbidden."""
    row = decisions.operators_row(context, decision_uuid)
    return _request_of(row), list(row.summary["instance_uuids"])


def _asked(row: SchedulingDecision) -> _Asked:
    """Raises NotFound for what was not kept, or is not any more."""
    spec = hypotheses.derived(_request_of(row))
    return _Asked(row, snapshot_store.seen(row), spec, hypotheses.pipeline())


def _request_of(row: SchedulingDecision) -> RequestSpec:
    if row.request is None:
        raise NotFound(f"What decision {row.uuid} was asked was not kept.")
    return RequestSpec.from_json(row.request)
