"""Answers the scheduler's question: look at all hosts, decide, claim, and keep why."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import IntegrityError

from conductor.api_db.models import InstanceGroup, SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import ConcurrentUpdate, NoValidHost
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import Decision, explain
from conductor.core.scheduling.group_rules import HARD
from conductor.core.scheduling.select import Outcome, decide
from conductor.core.scheduling.shadows import differences
from conductor.core.scheduling.watching import IN_QUARANTINE, NO_TIME_LEFT
from conductor.core.selection import Selection
from conductor.placement.allocations import ConsumerHolds, ProviderFull, newest_holder
from conductor.plugins.notes import notes
from conductor.scheduler import allocation_claims, alternates, decision_log, moving, request_completion, second_best
from conductor.scheduler.crowd import crowd, widened
from conductor.scheduler.host_manager import host_manager
from conductor.scheduler.plugin_watch import plugin_watch
from conductor.scheduler.plugins_in_force import pipeline as pipeline
from conductor.scheduler.snapshot_store import snapshot_store
from conductor.transactions import write_tx

log = logging.getLogger(__name__)

ALIAS = "default"
PASSES = 10
SLOW_SECONDS = 0.2
LONGEST_MESSAGE = 250
NOT_ITS_OWN = frozenset({IN_QUARANTINE, NO_TIME_LEFT})  # why a plugin was not asked that did nothing wrong now
TAKEN = "Others took the room while this was decided, again and again."
Transaction = Callable[[str], AbstractContextManager[None]]

claim_alternate = alternates.claim_alternate
mark_alternate = alternates.mark_alternate
release = allocation_claims.release


class GroupMoved(ConcurrentUpdate):
    """A member of the server group was placed elsewhere meanwhile."""


@dataclass(frozen=True)
class _Seen:
    """What the pass under way has decided on, in which database's life, and the digest of the plugins."""

    outcome: Outcome
    epoch: str
    plugins: str


@dataclass
class _Question:
    """One step's question, and the claims that it has lost so far."""

    spec: RequestSpec
    instance_uuids: Sequence[str]
    step_key: str
    run_uuid: str
    transaction: Transaction
    lost_races: list[dict[str, Any]] = field(default_factory=list)
    seen: _Seen | None = None


def select_destinations(
    context: RequestContext,
    spec: RequestSpec,
    instance_uuids: Sequence[str],
    *,
    step_key: str,
    run_uuid: str,
    transaction: Transaction = write_tx,
) -> list[list[Selection]]:
    """Per instance the host that is claimed for it, and its alternates; for all of them or for none.

    The same `step_key` gets the same answer, whoever asks and however often. `transaction(alias)` is the write
    transaction in which claims and decision are stored; what an instance that moves holds goes to its migration there.
    Raises NoValidHost with `decision_uuid` in its details.
    """
    question = _Question(spec, list(instance_uuids), step_key, run_uuid, transaction)
    for is_last in [False] * (PASSES - 1) + [True]:
        row = decision_log.find(step_key) or _one_pass(question, is_last=is_last)
        if row is not None:
            return _answer(row)
    raise ConcurrentUpdate("The step's decision appears and vanishes.")


def _one_pass(question: _Question, *, is_last: bool) -> SchedulingDecision | None:
    """Decide on a fresh snapshot and store the decision with its claims; None when another was faster."""
    spec = request_completion.complete(question.spec)
    chain = pipeline()
    snapshot = host_manager.snapshot(counts_images=chain.counts_images)
    num_lost = len(question.lost_races)
    chain = widened(chain, epoch=snapshot.epoch, is_batch=len(question.instance_uuids) > 1, lost=num_lost)
    table = moving.with_room_given_back(snapshot.table, spec.move)
    began = time.perf_counter()
    outcome = decide(table, spec, question.instance_uuids, pipeline=chain, seed=secrets.randbits(32))
    _report(outcome)
    otherwise = differences(outcome, chain)
    for key, text in otherwise.items():
        notes.difference(key, text, question.run_uuid)
    plugin_watch.note(outcome.uses, otherwise)
    decision = replace(
        explain(outcome, snapshot.missing_cells),
        milliseconds=round((time.perf_counter() - began) * 1000, 3),
        drawn_among=chain.host_subset_size,
    )
    question.seen = _Seen(outcome, snapshot.epoch, chain.rules.digest)
    return _claimed(question, spec, decision, is_last=is_last)


def _claimed(question: _Question, spec: RequestSpec, decision: Decision, *, is_last: bool) -> SchedulingDecision | None:
    """Claim what was decided, or what comes next after it; None when others were faster everywhere."""
    following: Decision | None = decision
    while following is not None:
        decision = following
        try:
            row = _settle(question, spec, decision)
            crowd.won()
            return row
        except (ProviderFull, GroupMoved) as error:
            log.info("claim lost: run=%s reason=%s", question.run_uuid, error.message)
            question.lost_races.append(_race(decision, error))
            crowd.lost()
            following = second_best.after(decision, error) if _is_worth_it(question, decision) else None
        except (IntegrityError, ConsumerHolds):
            if decision_log.find(question.step_key) is None:
                raise  # not the step's other owner, who would have stored an answer
            return None
    return _settle(question, spec, _without_room(decision)) if is_last else None


def _is_worth_it(question: _Question, decision: Decision) -> bool:
    """Whether its next best host is tried: who took the best one twice over where all take it goes there again."""
    return decision.drawn_among > 1 or len(question.lost_races) < 2


def _settle(question: _Question, spec: RequestSpec, decision: Decision) -> SchedulingDecision:
    kept = _kept(question, decision)
    with question.transaction(ALIAS):
        if decision.is_successful:
            _refuse_moved_group(spec)
            chosen = {
                uuid: picked[0] for uuid, picked in zip(question.instance_uuids, decision.selections, strict=True)
            }
            if spec.move is not None:
                moving.step_aside(question.instance_uuids[0], spec.move.migration_uuid, *chosen.values())
            allocation_claims.claim(chosen, project_id=spec.project_id, user_id=spec.user_id)
        return decision_log.keep(
            decision if kept else decision.abridged(),
            step_key=question.step_key,
            run_uuid=question.run_uuid,
            project_id=spec.project_id,
            instance_uuids=question.instance_uuids,
            context={**_plugins(question), "lost_races": question.lost_races, **kept},
        )


def _plugins(question: _Question) -> dict[str, Any]:
    """Which plugins decided, and what each of them did."""
    seen = question.seen
    return {"plugins": seen.plugins if seen else "", "uses": seen.outcome.uses if seen else ()}


def _kept(question: _Question, decision: Decision) -> dict[str, Any]:
    """The request and the hosts as the round that is shown saw them, where the decision is in the sample."""
    if question.seen is None or not decision.is_in_sample(settings.NOVELLA_DECISION_SAMPLE):
        return {}
    shown = question.seen.outcome.shown
    seen = snapshot_store.keep(shown.hosts, decision.named_hosts(), epoch=question.seen.epoch)
    return {"request": shown.spec.to_json(), "seen": seen}


def _refuse_moved_group(spec: RequestSpec) -> None:
    """A hard policy holds against what is claimed by now, not against what was when the hosts were looked at."""
    if spec.group is None or spec.group.policy not in HARD:
        return
    group = InstanceGroup.objects.select_for_update().filter(uuid=spec.group.group_uuid).first()
    if group is not None and request_completion.group_spec(group).member_hosts != spec.group.member_hosts:
        raise GroupMoved()


def _answer(row: SchedulingDecision) -> list[list[Selection]]:
    if row.is_successful:
        return decision_log.selections_of(row)
    advice = row.summary["advice"][0] if row.summary["advice"] else ""
    raise NoValidHost(f"No valid host was found. {advice}"[:LONGEST_MESSAGE].strip(), decision_uuid=str(row.uuid))


def _without_room(decision: Decision) -> Decision:
    return replace(decision, selections=(), advice=(TAKEN, *decision.advice))


def _race(decision: Decision, error: ConcurrentUpdate) -> dict[str, Any]:
    """A pass that was in vain, for operators: the host that was full by then, who was faster, what had been decided."""
    provider, kind = error.details.get("provider_uuid", ""), error.details.get("resource_class", "")
    chosen = {part: picked[0].host for picked in decision.selections for part in picked[0].parts}
    return {
        "host": chosen.get(provider, ""),
        "reason": error.message,
        "resource_class": kind,
        "taken_by": newest_holder(provider, kind) if kind else "",
        **decision.attempt(),
    }


def _report(outcome: Outcome) -> None:
    """Tell the log which plugins failed or were slow; the decision itself went on."""
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
