"""Doing something to a run by order: cancel, retry, resume, reschedule, skip, force, take over, undo again.

Each is one transaction of the run's database: the rule is asked again on the row that is held, the token rises so that
a worker in the middle of a step is fenced out, the order is put on record, and a conductor is rung. A refusal changes
nothing but the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from conductor import events
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision
from conductor.core.interventions import AGREE, BY_ID, DECLINE, Facts, Intervention
from conductor.core.server_actions import ACTIONS
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState, WaitCause
from conductor.journal import foreign_locks, locks
from conductor.journal.models import LeaseGrant, WorkflowRun
from conductor.rpc import outbox
from conductor.services import agreements, audit, flow_actions, flows, forced_ends
from conductor.transactions import database_now, write_tx

LONGEST_REASON = 255
MARKS = (StepState.FORCED, StepState.SKIPPED)
CONFIRM_LENGTH = 8


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What comes with an intervention.

    `confirm` is typed by hand: the step's name, or the first eight digits of the run's uuid. `revision` is the one
    that the asker has seen; empty when it does not matter. `result` is what a step that is marked as done would
    have returned.
    """

    reason: str
    step: str = ""
    confirm: str = ""
    mark: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""


@dataclass(frozen=True)
class _Case:
    """One intervention on one run whose row is held."""

    context: RequestContext
    alias: str
    run: WorkflowRun
    facts: Facts
    asked: Asked

    def save(self, **values: Any) -> None:
        WorkflowRun.objects.using(self.alias).filter(pk=self.run.pk).update(**values)

    def tell(self, kind: str, **data: Any) -> None:
        events.append(self.alias, events.about_run(self.run), kind, data)


def intervene(context: RequestContext, run_uuid: UUID | str, name: str, asked: Asked) -> None:
    """Do `name` (a row of core.interventions) to a run, or where it takes two, ask another operator to agree.

    Raises NotFound, Invalid for a field that is missing or wrong, Forbidden, StaleRevision when the run has moved
    since the asker saw it, and Conflict with the reason when it is not allowed now.
    """
    one = BY_ID.get(name)
    if one is None:
        raise NotFound(f"There is no intervention {name}; there are {', '.join(BY_ID)}.")
    _check_fields(one, asked)
    alias, run = flows.locate(context, run_uuid)
    children = flows.live_children(run) if one.id == "cancel" else []
    _on_record(context, alias, run, one, asked, len(children))
    for place, child in children:
        try:
            _on_record(context, place, child, one, replace(asked, revision=""), 0)
        except Conflict:  # on record; the others are cancelled all the same
            continue


def _check_fields(one: Intervention, asked: Asked) -> None:
    if not asked.reason.strip():
        raise Invalid("Give a reason: it is kept in the audit log.", field="reason")
    if len(asked.reason) > LONGEST_REASON:
        raise Invalid(f"The reason is longer than {LONGEST_REASON} characters.", field="reason")
    if "step" in one.needs and not asked.step:
        raise Invalid("Name the step.", field="step")
    if "mark" in one.needs and asked.mark not in MARKS:
        raise Invalid(f"Mark the step as one of {', '.join(MARKS)}.", field="mark")
    if one.id == "skip" and asked.confirm != asked.step:
        raise Invalid(f"Type the step's name, {asked.step[:64]}, to confirm.", field="confirm")


def _on_record(
    context: RequestContext, alias: str, run: WorkflowRun, one: Intervention, asked: Asked, live_children: int
) -> None:
    try:
        with _locks_abroad(alias, run, one), write_tx(alias):
            held = WorkflowRun.objects.using(alias).select_for_update().get(pk=run.pk)
            facts = flow_actions.facts_of(alias, held, live_children=live_children)
            _do(_Case(context, alias, held, facts, asked), one)
    except (Conflict, Forbidden) as error:
        details = {"step": asked.step} if asked.step else {}
        refused = audit.of_run(run, one.id, asked.reason, details, error)
        with write_tx(alias):
            audit.record(alias, context, refused)
        raise


@contextmanager
def _locks_abroad(alias: str, run: WorkflowRun, one: Intervention) -> Iterator[None]:
    """Locks that live in the API database are taken before those of the run's own, and freed when it is refused.

    A run that has not ended has them still, also while it needs an operator.
    """
    abroad = foreign_locks.foreign(alias, run.resources or ()) if one.id in _TAKES_LOCKS else []
    if not abroad or run.state not in FINAL_RUN_STATES:
        yield
        return
    foreign_locks.take(abroad, holder_uuid=run.uuid, holder_alias=alias, action=run.action)
    try:
        yield
    except BaseException:
        foreign_locks.free(run.uuid)
        raise


def _do(case: _Case, one: Intervention) -> None:
    if not flow_actions.may(case.context, one, case.run.project_id):
        raise Forbidden(f"It takes the role {one.role} to {one.id} a workflow.", rule=f"novella:workflows:{one.id}")
    if case.asked.revision and case.asked.revision != flow_actions.revision_of(case.run):
        raise StaleRevision("The workflow has moved since you saw it; look again.")
    why_not = one.why_not(case.facts)
    if why_not:
        raise Conflict(f"Cannot {one.id} workflow {case.run.uuid}: {why_not}")
    if one.id == "force" and case.asked.confirm != str(case.run.uuid)[:CONFIRM_LENGTH]:
        raise Invalid(f"Type {str(case.run.uuid)[:CONFIRM_LENGTH]} to confirm.", field="confirm")
    refused = agreements.why_not_for(case.context, one, case.facts.asked_by)
    if refused:
        raise Forbidden(refused, rule=f"novella:workflows:{one.id}")
    if agreements.is_needed(one):
        _ask(case, one)
    elif one.id == AGREE:
        _agree(case)
    elif one.id == DECLINE:
        _decline(case)
    else:
        _carry_out(case, one)


def _carry_out(case: _Case, one: Intervention, **more: str) -> None:
    said = {"step": case.asked.step, "mark": case.asked.mark, **more}
    details = {name: value for name, value in said.items() if value}
    told = {"intervention": one.id, "by": case.context.user_name, "reason": case.asked.reason, **details}
    case.tell("run.intervention", **told)
    tokens = {"token_before": case.run.fencing_token, "token_after": _fence(case, one)}
    _EFFECTS[one.id](case)
    if case.run.agreement:  # what was asked for was about the run as it stood
        case.save(agreement=None)
    outbox.ring_after_commit(case.alias, case.run.uuid)
    entry = audit.of_run(case.run, one.id, case.asked.reason, {**details, **tokens}, None)
    audit.record(case.alias, case.context, entry)


def _ask(case: _Case, one: Intervention) -> None:
    """Nothing is done yet: the run shows who waits for whom."""
    if one.id == "skip":
        _check_step(case)
    wish = {name: getattr(case.asked, name) for name in ("reason", "step", "confirm", "mark")}
    wish["result"] = dict(case.asked.result)
    case.save(agreement=agreements.asked(case.alias, case.context, one, wish))
    _answered(case, "ask", {"asked_for": one.id, "step": case.asked.step, "mark": case.asked.mark})


def _agree(case: _Case) -> None:
    """As it was asked for, by who agrees; both are on record."""
    kept = case.run.agreement or {}
    _answered(case, AGREE, {"asked_for": kept["intervention"], "asked_by": kept["by"]})
    _carry_out(replace(case, asked=Asked(**kept["wish"])), BY_ID[kept["intervention"]], asked_by=kept["by"])


def _decline(case: _Case) -> None:
    kept = case.run.agreement or {}
    case.save(agreement=None)
    _answered(case, DECLINE, {"asked_for": kept["intervention"], "asked_by": kept["by"]})


def _answered(case: _Case, what: str, details: Mapping[str, str]) -> None:
    details = {name: value for name, value in details.items() if value}
    told = {"intervention": what, "by": case.context.user_name, "reason": case.asked.reason, **details}
    case.tell("run.intervention", **told)
    audit.record(case.alias, case.context, audit.of_run(case.run, what, case.asked.reason, dict(details), None))


def _fence(case: _Case, one: Intervention) -> int:
    """Raise the token: whoever works on the run is refused from now on, here, abroad and on its hosts."""
    if case.run.state == RunState.DONE:
        return case.run.fencing_token  # a cancel that is for its children
    grant = LeaseGrant.objects.using(case.alias).create(
        run=case.run,
        owner=f"operator {case.context.user_name}"[:64],
        reason=f"{one.id}: {case.asked.reason}"[:64],
        granted_at=database_now(),
    )
    case.save(fencing_token=grant.pk, owner=None, lease_expires_at=None)
    return int(grant.pk)


def _cancel(case: _Case) -> None:
    run, reason = case.run, case.asked.reason
    if run.state not in LIVE_RUN_STATES:
        return
    case.save(is_cancel_requested=True, cancel_reason=reason)
    case.tell("run.cancel_requested", reason=reason)
    if run.state == RunState.QUEUED and case.facts.wait_cause == WaitCause.LOCK:
        _end_unbegun(case)  # nothing was done, and the lock is somebody else's
    else:
        case.save(wake_at=database_now())


def _end_unbegun(case: _Case) -> None:
    error = {"class": "Cancelled", "message": case.asked.reason}
    case.save(state=RunState.CANCELLED, error=error, waits_for=None, finished_at=database_now())
    case.tell("run.ended", state=RunState.CANCELLED, error=error)
    outbox.close_run(case.alias, case.run)


def _retry(case: _Case) -> None:
    run, names = case.run, [planned["name"] for planned in case.run.plan]
    if case.asked.step not in case.facts.retry_steps:
        allowed = ", ".join(case.facts.retry_steps)
        raise Invalid(f"A retry can begin at {allowed}; what comes before has to be done first.", field="step")
    _take_locks(case)
    first = names.index(case.asked.step)
    forgotten = {*names[first:], "tried_hosts"}  # a host that was mended meanwhile may be tried again
    case.save(
        variables={name: value for name, value in run.variables.items() if name not in forgotten},
        position=first,
        direction="do",
        attempt=run.attempt + 1,
        state=RunState.QUEUED,
        is_cancel_requested=False,
        cancel_reason="",
        error=None,
        **_ALIVE_AGAIN,
        wake_at=database_now(),
    )
    _show_task(case)


def _show_task(case: _Case) -> None:
    """The server shows the action's task again, as when it was first accepted."""
    action, instance_uuid = ACTIONS.get(case.run.action), case.run.instance_uuid
    if action is None or action.task_state is None or case.alias == API_ALIAS or instance_uuid is None:
        return
    rows = Instance.objects.using(case.alias).alive().filter(uuid=instance_uuid)
    rows.update(task_state=action.task_state, updated_at=database_now())


def _resume(case: _Case) -> None:
    _go_on(case)


def _reschedule(case: _Case) -> None:
    order = {"kind": "reschedule", "reason": case.asked.reason, "by": case.context.user_name}
    case.save(orders=order, wake_at=database_now())


def _check_step(case: _Case) -> None:
    if case.asked.step != case.facts.step_name:
        raise Invalid(f"The step that can be skipped now is {case.facts.step_name}.", field="step")


def _skip(case: _Case) -> None:
    _check_step(case)
    before = case.run.orders or {}
    order = {
        "kind": "settle",
        "state": case.asked.mark,
        "result": dict(case.asked.result),
        "reason": case.asked.reason,
        "by": case.context.user_name,
        **({"only": before["only"]} if "only" in before else {}),
    }
    case.save(orders=order)
    _go_on(case)


def _force(case: _Case) -> None:
    forced_ends.end(case.alias, case.run, case.facts, case.asked.reason)


def _take_over(case: _Case) -> None:
    case.save(wake_at=database_now())


def _undo(case: _Case) -> None:
    _take_locks(case)
    places = case.facts.to_undo
    case.save(
        orders={"kind": "undo", "only": places},
        direction="undo",
        position=max(places) + 1,
        state=RunState.UNDOING,
        leftovers=[],
        finished_at=None,
        wake_at=database_now(),
    )


def _go_on(case: _Case) -> None:
    """Have a conductor look at a run that was parked or needed an operator, wherever it stood."""
    state = RunState.UNDOING if case.run.direction == "undo" else RunState.QUEUED
    case.save(state=state, waits_for=None, finished_at=None, wake_at=database_now())


def _take_locks(case: _Case) -> None:
    """All of the run's locks again, or none. Raises ResourceLocked, naming the holder."""
    locks.take(case.alias, case.run, case.run.resources or ())


_ALIVE_AGAIN: Mapping[str, Any] = {"orders": None, "waits_for": None, "finished_at": None, "leftovers": []}
_TAKES_LOCKS = frozenset({"retry", "undo"})
_EFFECTS: Mapping[str, Callable[[_Case], None]] = {
    "cancel": _cancel,
    "retry": _retry,
    "resume": _resume,
    "reschedule": _reschedule,
    "skip": _skip,
    "force": _force,
    "take-over": _take_over,
    "undo": _undo,
}
