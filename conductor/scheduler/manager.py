"""The scheduler: takes a snapshot of all hosts, decides, claims, and stores the decision."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from django.conf import settings
from django.db import IntegrityError
from django.utils.module_loading import import_string

from conductor.api_db.models import InstanceGroup, SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import ConcurrentUpdate, NoValidHost, NovellaError, StaleToken
from conductor.core.messages import message, sentences, shortened, unpack
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import Decision, explain
from conductor.core.scheduling.group_rules import HARD
from conductor.core.scheduling.pipeline import Pipeline
from conductor.core.scheduling.select import SelectionResult, after, decide
from conductor.core.scheduling.shadows import differences
from conductor.core.scheduling.watching import IN_QUARANTINE, NO_TIME_LEFT
from conductor.core.selection import Selection
from conductor.db.transactions import each_in_turn, write_tx
from conductor.journal.models import WorkflowRun
from conductor.placement.allocations import ConsumerHolds, ProviderFull, hold_providers, newest_holder
from conductor.plugins.log import notes
from conductor.scheduler import claims, decision_log, request_specs
from conductor.scheduler.active_plugins import pipeline as pipeline
from conductor.scheduler.contention import tracker, widened
from conductor.scheduler.decision_log import snapshot_store
from conductor.scheduler.host_manager import FleetSnapshot, host_manager
from conductor.scheduler.plugin_health import plugin_watch

log = logging.getLogger(__name__)

ALIAS = "default"
PASSES = 10
SLOW_SECONDS = 0.2
LONGEST_MESSAGE = 250
# reasons why a plugin did not run that are not a new fault of it
NOT_ITS_OWN = frozenset({IN_QUARANTINE, NO_TIME_LEFT})
TAKEN = message("scheduling.taken")
Transaction = Callable[[str], AbstractContextManager[None]]

claim_alternate = claims.claim_alternate
mark_alternate = claims.mark_alternate
mark_refused = claims.mark_refused
release = claims.release


class GroupMoved(ConcurrentUpdate):
    """A member of the server group was placed elsewhere meanwhile."""


@dataclass(frozen=True)
class _DecisionContext:
    """The current decision, the epoch of its database, and the digest of the plugins."""

    outcome: SelectionResult
    epoch: str
    plugins: str


class CallingStep(Protocol):
    """The attempt of a step that calls the scheduler."""

    @property
    def alias(self) -> str: ...
    @property
    def run(self) -> WorkflowRun: ...
    @property
    def step_key(self) -> str: ...
    @property
    def token(self) -> int: ...

    def fenced(self, alias: str) -> AbstractContextManager[None]: ...


@dataclass
class DestinationRequest:
    """The arguments of `select_destinations` for one step, and the claims that it has lost so far.

    `caller` is the step; a scheduler in another process gets its run and fencing token.
    """

    spec: RequestSpec
    instance_uuids: Sequence[str]
    step_key: str
    run_uuid: str
    transaction: Transaction
    caller: CallingStep | None = None
    lost_races: list[dict[str, Any]] = field(default_factory=list)
    seen: _DecisionContext | None = None

    @classmethod
    def of(cls, caller: CallingStep, spec: RequestSpec, instance_uuids: Sequence[str]) -> DestinationRequest:
        """Return the request of a step. Its writes are fenced: a stale owner must not claim capacity that is never
        released.
        """
        return cls(spec, instance_uuids, caller.step_key, str(caller.run.uuid), caller.fenced, caller)


Selections = list[list[Selection]]
SchedulerClient = Callable[[Sequence[DestinationRequest]], list[Selections | Exception]]


def call(requests: Sequence[DestinationRequest]) -> list[Selections | Exception]:
    """Call the scheduler that the settings choose: `select_for_many` in this process, or one that is its own service.

    An answer may be a `Suspend`: the step suspends, is executed again once the reply is there, and calls again.
    """
    client: SchedulerClient = import_string(settings.NOVELLA_SCHEDULER_CLIENT)
    return client(requests)


def call_one(request: DestinationRequest) -> Selections:
    """Call the scheduler for one request. Raises the error of its answer."""
    (answer,) = call([request])
    if isinstance(answer, Exception):
        raise answer
    return answer


def select_destinations(
    context: RequestContext,
    spec: RequestSpec,
    instance_uuids: Sequence[str],
    *,
    step_key: str,
    run_uuid: str,
    transaction: Transaction = write_tx,
) -> Selections:
    """Return the claimed host and its alternates for each instance: for all of them or for none.

    For a rebuild nothing is claimed: the decision is whether the server's host can run the new image. The same
    `step_key` gets the same result, for every caller and call.

    Args:
        transaction: `transaction(alias)` is the write transaction that stores claims and decision. An instance that
            moves hands its allocations to its migration there.

    Raises:
        NoValidHost: no host was found; `decision_uuid` is in its details.
    """
    return _answered(DestinationRequest(spec, list(instance_uuids), step_key, run_uuid, transaction))


def select_for_many(requests: Sequence[DestinationRequest]) -> list[Selections | Exception]:
    """Answer several requests, each as `select_destinations` does, or with the error that it raises.

    One snapshot serves all of them, each decision counts with the decisions before it, and one transaction stores them.
    A request that loses its claim there is decided again by itself. None of the instances may be one that moves or is
    rebuilt.

    Raises:
        OperationalError: the database does not answer. Each request may then be tried by itself.
    """
    rows = _decided_together(requests) if len(requests) > 1 else {}
    return each_in_turn(requests, lambda request: _answered(request, rows.get(request.step_key)))


def _answered(request: DestinationRequest, row: SchedulingDecision | None = None) -> Selections:
    for is_last in [False] * (PASSES - 1) + [True]:
        row = row or decision_log.find(request.step_key) or _one_pass(request, is_last=is_last)
        if row is not None:
            return answer_of(row)
    raise ConcurrentUpdate("The step's decision appears and vanishes.")


def _decided_together(requests: Sequence[DestinationRequest]) -> dict[str, SchedulingDecision]:
    """Decide about all requests together. Store the decisions that found a host and could be claimed; return them by
    step.
    """
    rows = decision_log.find_all(request.step_key for request in requests)
    chain = pipeline()
    snapshot = host_manager.snapshot(counts_images=chain.counts_images)
    chain = widened(chain, epoch=snapshot.epoch, is_batch=True, lost=0)
    reading = chain.reading_cache
    decided: list[tuple[DestinationRequest, RequestSpec, Decision, Mapping[str, Any]]] = []
    for request in requests:
        if request.step_key in rows:
            continue
        try:
            spec = request_specs.complete(request.spec)
        except NovellaError:
            continue  # it is raised again when this request is decided by itself
        outcome, decision = _decide(request, spec, chain, snapshot)
        if decision.is_successful:
            decided.append((request, spec, decision, _kept(request, decision)))
            snapshot = replace(snapshot, table=after(snapshot.table, outcome))
            chain = reading
    stored: dict[str, SchedulingDecision] = {}
    with write_tx(ALIAS):
        picked = [chosen[0] for _, _, decision, _ in decided for chosen in decision.selections]
        hold_providers(provider for selection in picked for provider in selection.parts)
        for request, spec, decision, kept in decided:
            try:
                stored[request.step_key] = _settle(request, spec, decision, kept)
                tracker.won()
            except (ProviderFull, GroupMoved) as error:
                _note_loss(request, decision, error)
            except (ConsumerHolds, IntegrityError, StaleToken):
                pass  # the step has another owner
    return rows | stored


def _one_pass(request: DestinationRequest, *, is_last: bool) -> SchedulingDecision | None:
    """Decide on a fresh snapshot and store the decision with its claims; None when another claim was faster."""
    spec = request_specs.complete(request.spec)
    chain = pipeline()
    snapshot = host_manager.snapshot(counts_images=chain.counts_images)
    num_lost = len(request.lost_races)
    chain = widened(chain, epoch=snapshot.epoch, is_batch=len(request.instance_uuids) > 1, lost=num_lost)
    table = claims.with_room_given_back(snapshot.table, spec.move)
    _, decision = _decide(request, spec, chain, replace(snapshot, table=table))
    return _claimed(request, spec, decision, is_last=is_last)


def _decide(
    request: DestinationRequest, spec: RequestSpec, chain: Pipeline, snapshot: FleetSnapshot
) -> tuple[SelectionResult, Decision]:
    began = time.perf_counter()
    outcome = decide(snapshot.table, spec, request.instance_uuids, pipeline=chain, seed=secrets.randbits(32))
    _report(outcome)
    otherwise = differences(outcome, chain)
    for key, text in otherwise.items():
        notes.difference(key, text, request.run_uuid)
    plugin_watch.note(outcome.uses, otherwise)
    decision = replace(
        explain(outcome, snapshot.missing_cells),
        milliseconds=round((time.perf_counter() - began) * 1000, 3),
        drawn_among=chain.host_subset_size,
    )
    request.seen = _DecisionContext(outcome, snapshot.epoch, chain.rules.digest)
    return outcome, decision


def _claimed(
    request: DestinationRequest, spec: RequestSpec, decision: Decision, *, is_last: bool
) -> SchedulingDecision | None:
    """Claim the decided hosts, or their alternates. None when other claims were faster everywhere."""
    following: Decision | None = decision
    while following is not None:
        decision = following
        try:
            row = _settle(request, spec, decision, _kept(request, decision))
            tracker.won()
            return row
        except (ProviderFull, GroupMoved) as error:
            _note_loss(request, decision, error)
            following = claims.after(decision, error) if _is_worth_it(request, decision) else None
        except (IntegrityError, ConsumerHolds):
            if decision_log.find(request.step_key) is None:
                raise  # the other owner of the step would have stored an answer
            return None
    if not is_last:
        return None
    decision = _without_room(decision)
    return _settle(request, spec, decision, _kept(request, decision))


def _note_loss(request: DestinationRequest, decision: Decision, error: ConcurrentUpdate) -> None:
    log.info("claim lost: run=%s reason=%s", request.run_uuid, error.message)
    request.lost_races.append(_race(decision, error))
    tracker.lost()


def _is_worth_it(request: DestinationRequest, decision: Decision) -> bool:
    """Whether to try the next best host. After a second lost claim on the best one, other schedulers do the same."""
    return decision.drawn_among > 1 or len(request.lost_races) < 2


def _settle(
    request: DestinationRequest, spec: RequestSpec, decision: Decision, kept: Mapping[str, Any]
) -> SchedulingDecision:
    """Claim the decided hosts, and store the decision. `kept` is what the sample stores of the hosts."""
    with request.transaction(ALIAS):
        if decision.is_successful and not spec.is_rebuild:  # a server that stays has its resources
            _refuse_moved_group(spec)
            chosen = {uuid: picked[0] for uuid, picked in zip(request.instance_uuids, decision.selections, strict=True)}
            if spec.move is not None:
                claims.step_aside(request.instance_uuids[0], spec.move.migration_uuid, *chosen.values())
            claims.claim(chosen, project_id=spec.project_id, user_id=spec.user_id)
        return decision_log.keep(
            decision if kept else decision.abridged(),
            step_key=request.step_key,
            run_uuid=request.run_uuid,
            project_id=spec.project_id,
            instance_uuids=request.instance_uuids,
            context={
                **_plugins(request),
                **kept,
                "lost_races": request.lost_races,
                "is_rebuild": spec.is_rebuild,
            },
        )


def _plugins(request: DestinationRequest) -> dict[str, Any]:
    """Return the digest of the plugins, and the record of each."""
    seen = request.seen
    return {"plugins": seen.plugins if seen else "", "uses": seen.outcome.uses if seen else ()}


def _kept(request: DestinationRequest, decision: Decision) -> dict[str, Any]:
    """Return the request and the hosts of the round that is shown, where the decision is in the sample."""
    if request.seen is None or not decision.is_in_sample(settings.NOVELLA_DECISION_SAMPLE):
        return {}
    shown = request.seen.outcome.shown
    seen = snapshot_store.keep(shown.hosts, decision.named_hosts(), epoch=request.seen.epoch)
    return {"request": shown.spec.to_json(), "seen": seen}


def _refuse_moved_group(spec: RequestSpec) -> None:
    """Raise where a hard policy of the group fails by current claims, which may be newer than the snapshot."""
    if spec.group is None or spec.group.policy not in HARD:
        return
    group = InstanceGroup.objects.select_for_update().filter(uuid=spec.group.group_uuid).first()
    if group is not None and request_specs.group_spec(group).member_hosts != spec.group.member_hosts:
        raise GroupMoved()


def answer_of(row: SchedulingDecision) -> Selections:
    """Return the answer of a stored decision. Raises NoValidHost."""
    if row.is_successful:
        return decision_log.selections_of(row)
    first = unpack(row.summary["advice"][0]) if row.summary["advice"] else ""
    text = sentences(message("scheduling.no_valid_host"), first)
    raise NoValidHost(shortened(text, LONGEST_MESSAGE), decision_uuid=str(row.uuid))


def _without_room(decision: Decision) -> Decision:
    return replace(decision, selections=(), advice=(TAKEN, *decision.advice))


def _race(decision: Decision, error: ConcurrentUpdate) -> dict[str, Any]:
    """Describe a lost claim for operators: the host that was full, the faster request, the decision."""
    provider, kind = error.details.get("provider_uuid", ""), error.details.get("resource_class", "")
    chosen = {part: picked[0].host for picked in decision.selections for part in picked[0].parts}
    return {
        "host": chosen.get(provider, ""),
        "reason": error.message,
        "resource_class": kind,
        "taken_by": newest_holder(provider, kind) if kind else "",
        **decision.attempt(),
    }


def _report(outcome: SelectionResult) -> None:
    """Log the plugins that failed or were slow. The decision itself went on."""
    for fault in outcome.faults:
        if fault.error not in NOT_ITS_OWN:
            notes.fault((fault.kind, fault.plugin), f"{fault.error}; {fault.consequence}", fault.exception)
        log.error(
            "plugin failed: kind=%s name=%s hosts=%d error=%s consequence=%s",
            fault.kind,
            fault.plugin,
            fault.count,
            fault.error,
            fault.consequence,
            exc_info=fault.exception,
        )
    for stage in outcome.shown.filtering.stages:
        if stage.seconds > SLOW_SECONDS:
            log.warning("plugin slow: kind=filter name=%s seconds=%.3f", stage.filter.name, stage.seconds)
