"""Interventions of operators and users in runs: cancel, retry, resume, reschedule, skip, force, take over, undo.

Each is one transaction of the run's database: it checks the rule on the locked row, raises the fencing token so that a
worker in the middle of a step is fenced out, audits the intervention, and notifies a conductor. A refusal changes
nothing but the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from conductor import events
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision
from conductor.core.interventions import AGREE, BY_ID, DECLINE, OPEN_STEP_STATES, Intervention, InterventionFacts
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.core.server_actions import ACTIONS
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState, VmState, WaitCause
from conductor.db.transactions import database_now, write_tx
from conductor.journal import locks
from conductor.journal.models import LeaseGrant, OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.services.audit import audit
from conductor.services.workflows import actions, approvals, workflows

LONGEST_REASON = 255
MARKS = (StepState.FORCED, StepState.SKIPPED)
CONFIRM_LENGTH = 8


@dataclass(frozen=True, kw_only=True)
class InterventionRequest:
    """Arguments of an intervention.

    `confirm` is typed by hand: the step's name, or the first eight digits of the run's uuid. `revision` is the one that
    the caller saw; "" for any. `result` is the return value of a step that is marked as done.
    """

    reason: str
    step: str = ""
    confirm: str = ""
    mark: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""


@dataclass(frozen=True)
class _Case:
    """One intervention in one run whose row is locked."""

    context: RequestContext
    alias: str
    run: WorkflowRun
    facts: InterventionFacts
    asked: InterventionRequest

    def save(self, **values: Any) -> None:
        WorkflowRun.objects.using(self.alias).filter(pk=self.run.pk).update(**values)

    def emit(self, kind: str, **data: Any) -> None:
        events.append(self.alias, events.about_run(self.run), kind, data)


def intervene(
    context: RequestContext, run_uuid: UUID | str, name: str, intervention_request: InterventionRequest
) -> None:
    """Execute the intervention `name` (a row of core.interventions), or request another operator's approval if needed.

    Raises NotFound, Invalid for a missing or wrong field, Forbidden, StaleRevision when the run has moved since the
    caller saw it, and Conflict with the reason when it is not allowed now.
    """
    one = BY_ID.get(name)
    if one is None:
        raise NotFound(
            phrase("There is no intervention %(name)s. Use one of %(choices)s.", name=name, choices=", ".join(BY_ID))
        )
    _check_fields(one, intervention_request)
    alias, run = workflows.locate(context, run_uuid)
    children = workflows.live_children(run) if one.id == "cancel" else []
    _on_record(context, alias, run, one, intervention_request, len(children))
    for place, child in children:
        try:
            _on_record(context, place, child, one, replace(intervention_request, revision=""), 0)
        except Conflict:  # the refusal is audited, and the other runs are cancelled all the same
            continue


def _check_fields(one: Intervention, intervention_request: InterventionRequest) -> None:
    if not intervention_request.reason.strip():
        raise Invalid(phrase("Enter a reason. It is recorded in the audit log."), field="reason")
    if len(intervention_request.reason) > LONGEST_REASON:
        raise Invalid(
            phrase("Enter a reason of at most %(longest)s characters.", longest=LONGEST_REASON), field="reason"
        )
    if "step" in one.needs and not intervention_request.step:
        raise Invalid(phrase("Select a step."), field="step")
    if "mark" in one.needs and intervention_request.mark not in MARKS:
        raise Invalid(phrase("Mark the step as one of %(choices)s.", choices=", ".join(MARKS)), field="mark")
    if one.id == "skip" and intervention_request.confirm != intervention_request.step:
        raise Invalid(
            phrase("Type the name of the step, %(step)s, to confirm.", step=intervention_request.step[:64]),
            field="confirm",
        )


def _on_record(
    context: RequestContext,
    alias: str,
    run: WorkflowRun,
    one: Intervention,
    intervention_request: InterventionRequest,
    live_children: int,
) -> None:
    try:
        with _cross_database_locks(alias, run, one), write_tx(alias):
            held = WorkflowRun.objects.using(alias).select_for_update().get(pk=run.pk)
            facts = actions.facts_of(alias, held, live_children=live_children)
            _do(_Case(context, alias, held, facts, intervention_request), one)
    except (Conflict, Forbidden) as error:
        details = {"step": intervention_request.step} if intervention_request.step else {}
        refused = audit.of_run(run, one.id, intervention_request.reason, details, error)
        with write_tx(alias):
            audit.record(alias, context, refused)
        raise


def finish_undo(alias: str, run_uuid: UUID | str, reason: str) -> None:
    """Resume the rollback of a run that only waited for a host. Called by the system when the host has done its part.

    It needs no approval. Later workflows on the server do not matter, as only this run's own volume or port is left.
    Raises Conflict when it is not possible now, such as ResourceLocked.
    """
    one, run = BY_ID["undo"], WorkflowRun.objects.using(alias).get(uuid=run_uuid)
    with _cross_database_locks(alias, run, one), write_tx(alias):
        held = WorkflowRun.objects.using(alias).select_for_update().get(pk=run.pk)
        facts = replace(actions.facts_of(alias, held), later_run="")
        why_not = one.why_not(facts)
        if why_not:
            raise Conflict(message("workflow.refused", action=one.id, run=str(run.uuid), reason=why_not))
        _carry_out(_Case(system_context(), alias, held, facts, InterventionRequest(reason=reason)), one)


@contextmanager
def _cross_database_locks(alias: str, run: WorkflowRun, one: Intervention) -> Iterator[None]:
    """Take locks in the API database before the run's own, and release them when the intervention is refused.

    A run that has not ended still has them, also while it needs an operator.
    """
    foreign_keys = locks.cross_database(alias, run.resources or ()) if one.id in _TAKES_LOCKS else []
    if not foreign_keys or run.state not in FINAL_RUN_STATES:
        yield
        return
    locks.take_cross_database(foreign_keys, holder_uuid=run.uuid, holder_alias=alias, action=run.action)
    try:
        yield
    except BaseException:
        locks.free_cross_database(run.uuid)
        raise


def _do(case: _Case, one: Intervention) -> None:
    if not actions.may(case.context, one, case.run.project_id):
        raise Forbidden(
            message("workflow.needs_role", role=one.role, action=one.id), rule=f"novella:workflows:{one.id}"
        )
    if case.asked.revision and case.asked.revision != actions.revision_of(case.run):
        raise StaleRevision(message("workflow.moved_on"))
    why_not = one.why_not(case.facts)
    if why_not:
        raise Conflict(message("workflow.refused", action=one.id, run=str(case.run.uuid), reason=why_not))
    if one.id == "force" and case.asked.confirm != str(case.run.uuid)[:CONFIRM_LENGTH]:
        raise Invalid(phrase("Type %(name)s to confirm.", name=str(case.run.uuid)[:CONFIRM_LENGTH]), field="confirm")
    refused = approvals.why_not_for(case.context, one, case.facts.asked_by)
    if refused:
        raise Forbidden(refused, rule=f"novella:workflows:{one.id}")
    if approvals.is_needed(one):
        _ask(case, one)
    elif one.id == AGREE:
        _agree(case)
    elif one.id == DECLINE:
        _decline(case)
    else:
        _carry_out(case, one)


def _carry_out(case: _Case, one: Intervention, **more: str) -> None:
    fields = {"step": case.asked.step, "mark": case.asked.mark, **more}
    details = {name: value for name, value in fields.items() if value}
    reported = {"intervention": one.id, "by": case.context.user_name, "reason": case.asked.reason, **details}
    case.emit("run.intervention", **reported)
    tokens = {"token_before": case.run.fencing_token, "token_after": _fence(case, one)}
    _EFFECTS[one.id](case)
    if case.run.approval:  # the approval was requested for the run's earlier state
        case.save(approval=None)
    outbox.notify_after_commit(case.alias, case.run.uuid)
    entry = audit.of_run(case.run, one.id, case.asked.reason, {**details, **tokens}, None)
    audit.record(case.alias, case.context, entry)


def _ask(case: _Case, one: Intervention) -> None:
    """Store an approval request; the run shows it as pending."""
    if one.id == "skip":
        _check_step(case)
    requested = {name: getattr(case.asked, name) for name in ("reason", "step", "confirm", "mark")}
    requested["result"] = dict(case.asked.result)
    case.save(approval=approvals.asked(case.alias, case.context, one, requested))
    _answered(case, "ask", {"asked_for": one.id, "step": case.asked.step, "mark": case.asked.mark})


def _agree(case: _Case) -> None:
    """Execute the approved intervention as requested; request and approval are audited."""
    kept = case.run.approval or {}
    _answered(case, AGREE, {"asked_for": kept["intervention"], "asked_by": kept["by"]})
    _carry_out(
        replace(case, asked=InterventionRequest(**kept["request"])), BY_ID[kept["intervention"]], asked_by=kept["by"]
    )


def _decline(case: _Case) -> None:
    kept = case.run.approval or {}
    case.save(approval=None)
    _answered(case, DECLINE, {"asked_for": kept["intervention"], "asked_by": kept["by"]})


def _answered(case: _Case, what: str, details: Mapping[str, str]) -> None:
    details = {name: value for name, value in details.items() if value}
    reported = {"intervention": what, "by": case.context.user_name, "reason": case.asked.reason, **details}
    case.emit("run.intervention", **reported)
    audit.record(case.alias, case.context, audit.of_run(case.run, what, case.asked.reason, dict(details), None))


def _fence(case: _Case, one: Intervention) -> int:
    """Raise the fencing token, so that the run's worker is refused from now on, in all databases and on its hosts."""
    if case.run.state == RunState.DONE:
        return case.run.fencing_token  # a cancel for its children only
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
    case.emit("run.cancel_requested", reason=reason)
    if run.state == RunState.QUEUED and case.facts.wait_cause == WaitCause.LOCK:
        _end_unbegun(case)  # nothing was executed, and another run has the lock
    else:
        case.save(wake_at=database_now())


def _end_unbegun(case: _Case) -> None:
    error = {"class": "Cancelled", "message": case.asked.reason}
    case.save(state=RunState.CANCELLED, error=error, waits_for=None, finished_at=database_now())
    case.emit("run.ended", state=RunState.CANCELLED, error=error)
    outbox.close_run(case.alias, case.run)


def _retry(case: _Case) -> None:
    run, names = case.run, [planned["name"] for planned in case.run.plan]
    if case.asked.step not in case.facts.retry_steps:
        allowed = ", ".join(case.facts.retry_steps)
        raise Invalid(
            phrase("A retry can start at %(allowed)s. The steps before it must be done first.", allowed=allowed),
            field="step",
        )
    _take_locks(case)
    first = names.index(case.asked.step)
    forgotten = {*names[first:], "tried_hosts"}  # a host that was repaired meanwhile may be tried again
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
    """Show the action's task state on the server again, as when the action was accepted."""
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
        raise Invalid(phrase("Only step %(step)s can be skipped now.", step=case.facts.step_name), field="step")


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
    end(case.alias, case.run, case.facts, case.asked.reason)


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
        uncompensated=[],
        finished_at=None,
        wake_at=database_now(),
    )


def _go_on(case: _Case) -> None:
    """Wake a conductor for a run that was suspended or needed an operator, at any position."""
    state = RunState.UNDOING if case.run.direction == "undo" else RunState.QUEUED
    case.save(state=state, waits_for=None, finished_at=None, wake_at=database_now())


def _take_locks(case: _Case) -> None:
    """Take all of the run's locks again, or none. Raises ResourceLocked, naming the holder."""
    locks.take(case.alias, case.run, case.run.resources or ())


_ALIVE_AGAIN: Mapping[str, Any] = {"orders": None, "waits_for": None, "finished_at": None, "uncompensated": []}
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


def end(alias: str, run: WorkflowRun, facts: InterventionFacts, reason: str) -> None:
    """End `run` at once. Call it inside the fenced transaction of the intervention."""
    left = uncompensated_effects(run, facts)
    error = run.error or {"class": "ForcedToEnd", "message": reason}
    state = RunState.FAILED_NOT_CLEAN if left else RunState.FAILED_UNDONE
    values: dict[str, Any] = {"state": state, "error": error, "uncompensated": left, "orders": None, "waits_for": None}
    WorkflowRun.objects.using(alias).filter(pk=run.pk).update(**values, finished_at=database_now())
    _close_open_steps(alias, run, reason)
    OutboxMessage.objects.using(alias).filter(run_uuid=run.uuid, is_deferred=False).delete()
    if alias != API_ALIAS and run.instance_uuid is not None:
        _show_on_instance(alias, run, reason, left)
    events.append(alias, events.about_run(run), events.kind_of_end(run, state), {"state": state, "error": error})
    outbox.close_run(alias, run)


def uncompensated_effects(run: WorkflowRun, facts: InterventionFacts) -> list[str]:
    """Return the run's possible uncompensated effects: steps that were not undone, and the current step."""
    left = list(run.uncompensated)
    for index in facts.to_undo:
        title = run.plan[index]["title"]
        if not any(line.startswith(f"{title}:") for line in left):
            left.append(f"{title}: done, and not undone")
    is_open = facts.step_state in (*OPEN_STEP_STATES, StepState.FAILED, StepState.UNDO_FAILED)
    if is_open and facts.direction != "end" and not any(line.startswith(f"{facts.step_title}:") for line in left):
        where = f" on {facts.step_host}" if facts.step_host else ""
        left.append(f"{facts.step_title}: may have done a part{where}")
    return left


def _close_open_steps(alias: str, run: WorkflowRun, reason: str) -> None:
    error = {"class": "ForcedToEnd", "message": reason}
    open_steps = StepRecord.objects.using(alias).filter(run=run, state__in=OPEN_STEP_STATES)
    open_steps.update(state=StepState.CANCELLED, error=error, finished_at=database_now())


def _show_on_instance(alias: str, run: WorkflowRun, reason: str, left: list[str]) -> None:
    """Set the server to the error state without a task: no task state outlives its workflow."""
    assert run.instance_uuid is not None
    changed = (
        Instance.objects.using(alias)
        .filter(uuid=run.instance_uuid, deleted_at__isnull=True)
        .update(vm_state=VmState.ERROR, task_state=None, updated_at=database_now())
    )
    if not changed:
        return
    InstanceFault.objects.using(alias).create(
        instance_uuid=run.instance_uuid,
        message=f"{run.action} was forced to its end: {reason}"[:255],
        details="; ".join(left),
        created_at=database_now(),
    )
    events.append(alias, events.about_instance(run.instance_uuid, run.project_id, run.uuid), "instance.updated")
