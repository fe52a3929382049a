"""Replays of stored decisions: all filters for all hosts, why not this host, what would fit, and today's result.

They use the hosts that the decision read, not today's, unless `now` is requested. Nothing is claimed or written.
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
from conductor.core.phrases import phrase
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.fits_if import fleet_remedies, request_remedies
from conductor.core.scheduling.replay import Replay, place_of, replay
from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import decision_log, hypotheses
from conductor.scheduler.decision_log import SeenHosts
from conductor.services.scheduling import decisions
from conductor.services.scheduling.types import Evaluation, HostExplained, Matrix, Remedies

THEN, NOW = "then", "now"
FLEETS = (THEN, NOW)


@dataclass(frozen=True)
class _StoredDecision:
    """A stored decision, ready for a replay of the recorded round."""

    row: SchedulingDecision
    seen: SeenHosts
    spec: RequestSpec
    pipeline: Pipeline

    @property
    def instance_uuids(self) -> list[str]:
        """Instances that had no host yet in that round."""
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
    """Return every filter's result for every host. For operators.

    `marker` is the last host and node of the page before ("host/node"). Raises Forbidden, and NotFound, also where the
    data were not stored.
    """
    requested = _stored_decision(decisions.operators_row(context, decision_uuid))
    again = requested.replay()
    order = [int(row) for row in again.order()]
    if marker:
        places = [index for index, row in enumerate(order) if key_of(again, row) == marker]
        if not places:
            raise NotFound(phrase("Marker %(marker)s could not be found.", marker=marker[:60]))
        order = order[places[0] + 1 :]
    return Matrix(
        filters=again.counts(),
        hosts=[asdict(again.row(row)) for row in order[:limit]],
        num_hosts=len(again.hosts),
        is_partial=requested.is_partial,
        is_same_plugins=requested.is_same_plugins,
        has_more=len(order) > limit,
    )


def key_of(again: Replay, row: int) -> str:
    """Return the marker of a host's node, as a host may have several nodes."""
    state = again.hosts.states[row]
    return f"{state.host}/{state.node}"


def explain_host(context: RequestContext, decision_uuid: UUID | str, host: str) -> HostExplained:
    """Explain why a host was or was not chosen; for operators.

    Raises NotFound for a host that the decision did not see.
    """
    row = decisions.operators_row(context, decision_uuid)
    requested = _stored_decision(row)
    again = requested.replay()
    rows = again.hosts.rows_of([host])
    if not rows:
        if requested.is_partial:
            raise NotFound(phrase("Host %(host)s is not among the recorded hosts of this decision.", host=host[:60]))
        raise NotFound(phrase("Host %(host)s did not exist when this was decided.", host=host[:60]))
    nodes = []
    for index in rows:
        place = place_of(again.hosts, requested.spec, requested.pipeline, index)
        nodes.append({**asdict(again.row(index)), "place": asdict(place) if place else None})
    return HostExplained(
        host=host,
        was_chosen=any(chosen[0]["host"] == host for chosen in row.selections),
        is_partial=requested.is_partial,
        is_same_plugins=requested.is_same_plugins,
        nodes=nodes,
    )


def remedies(context: RequestContext, decision_uuid: UUID | str) -> Remedies:
    """Return how near the request came to a fit, and the changes after which it would fit.

    Tenants see only changes of their request.
    """
    requested = _stored_decision(decisions.row_of(context, decision_uuid))
    again = requested.replay()
    fitting = hypotheses.fitting(requested.pipeline, len(requested.instance_uuids))
    found = [] if requested.row.is_successful else request_remedies(again.hosts, requested.spec, fitting)
    nearest: list[dict[str, Any]] = []
    if context.is_admin:
        nearest = [asdict(one) for one in again.nearest()]
        found += [] if requested.row.is_successful else fleet_remedies(again, fitting)
    return Remedies(nearest, [asdict(one) for one in found], requested.is_partial, requested.is_same_plugins)


def evaluate(context: RequestContext, decision_uuid: UUID | str, fleet: str = THEN) -> Evaluation:
    """Replay a decision with today's plugins. Raises Invalid for another fleet."""
    if fleet not in FLEETS:
        raise Invalid(
            phrase("Unknown fleet %(fleet)s. Use one of %(choices)s.", fleet=fleet[:60], choices=", ".join(FLEETS)),
            field="fleet",
        )
    row = decisions.row_of(context, decision_uuid)
    question = _current_input(row) if fleet == NOW else _stored_input(row)
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
class _ReplayInput:
    table: HostTable
    spec: RequestSpec
    instance_uuids: Sequence[str]
    missing_cells: Mapping[str, str]
    is_partial: bool


def _stored_input(row: SchedulingDecision) -> _ReplayInput:
    requested = _stored_decision(row)
    return _ReplayInput(
        requested.seen.table,
        requested.spec,
        requested.instance_uuids,
        row.summary["missing_cells"],
        requested.is_partial,
    )


def _current_input(row: SchedulingDecision) -> _ReplayInput:
    """Return the whole request for today's hosts; hosts that its instances already have count as used."""
    requested = hypotheses.now(_request_of(row))
    return _ReplayInput(requested.table, requested.spec, row.summary["instance_uuids"], requested.missing_cells, False)


def get_request(context: RequestContext, decision_uuid: UUID | str) -> tuple[RequestSpec, list[str]]:
    """Return the request of a stored decision, and its instances; for operators. Raises NotFound, Forbidden."""
    row = decisions.operators_row(context, decision_uuid)
    return _request_of(row), list(row.summary["instance_uuids"])


def _stored_decision(row: SchedulingDecision) -> _StoredDecision:
    """Return the decision for a replay. Raises NotFound where the data were not stored, or are pruned."""
    spec = hypotheses.derived(_request_of(row))
    return _StoredDecision(row, decision_log.seen(row), spec, hypotheses.pipeline())


def _request_of(row: SchedulingDecision) -> RequestSpec:
    if row.request is None:
        raise NotFound(phrase("The request of decision %(decision)s is no longer stored.", decision=row.uuid))
    return RequestSpec.from_json(row.request)
