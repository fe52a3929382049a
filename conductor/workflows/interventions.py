"""What an operator has ordered, carried out by the next owner of the run before it goes on.

An order was checked, put on record and fenced by whoever accepted it (services.interventions); here its effect commits
together with the order's end, so that it is carried out once.

    reschedule   the step on a host has failed: undo this attempt and take the next alternate
    settle       the open or failed step is done ("forced") or is left out ("skipped"), with what was said for it
    undo         only these steps are undone, once more; the order stays until the run ends (see Turn)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.db import InterfaceError, OperationalError, connections

from conductor.core.context import RequestContext
from conductor.core.errors import StaleToken, is_cancel
from conductor.core.states import RunState, StepState
from conductor.journal import checkpoints
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.sql.dialect import NOW
from conductor.workflows import records
from conductor.workflows.flow import Flow, Step, Work

log = logging.getLogger(__name__)

Order = Mapping[str, Any]
NOT_THE_ORDERS_FAULT = (StaleToken, OperationalError, InterfaceError)


def carry_out(alias: str, run: WorkflowRun, flow: Flow) -> bool:
    """Do what was ordered for `run`, which this worker owns; False when that failed and an operator must look again.

    Raises StaleToken when another worker owns the run now.
    """
    order = run.orders or {}
    effect = _EFFECTS.get(order.get("kind", ""))
    if effect is None:
        return True
    work = Work(alias, run, RequestContext.from_json(run.context), "", run.fencing_token)
    try:
        with work.fenced(alias):
            effect(alias, run, flow, order)
    except NOT_THE_ORDERS_FAULT:
        raise
    except Exception as error:
        run.refresh_from_db(using=alias)
        _give_back(work, order, error)
        return False
    return True


def _reschedule(alias: str, run: WorkflowRun, flow: Flow, order: Order) -> None:
    record = records.current(alias, run, run.position)
    step = flow.steps[run.position]
    error = {
        "class": "Rescheduled",
        "message": order["reason"],
        "step": step.name,
        "attempt": run.attempt,
        "is_reschedulable": True,
        "is_ordered": True,
    }
    if record is not None and record.state in records.OPEN_STATES:
        _forget_command(alias, record)
        records.close_record(alias, run, record, StepState.FAILED, error=error)
    elif record is not None:
        marked = {**(record.error or {}), "is_reschedulable": True, "is_ordered": True}
        StepRecord.objects.using(alias).filter(pk=record.pk).update(error=marked)
    first = run.error or error
    _save(
        alias, run, orders=None, direction="undo", position=run.position + 1, error=first, state=str(RunState.UNDOING)
    )
    records.tell(alias, run, "run.undoing", error=error)


def _settle(alias: str, run: WorkflowRun, flow: Flow, order: Order) -> None:
    step, index = _current_step(run, flow)
    record = records.current(alias, run, index)
    assert record is not None, "only a step that was begun can be settled"
    _forget_command(alias, record)
    state = StepState(order["state"])
    work = Work(alias, run, RequestContext.from_json(run.context), record.step_key, run.fencing_token)
    if run.direction == "undo":
        _settle_undo(work, step, index, order)
    else:
        result = dict(order["result"])
        if state == StepState.FORCED:
            step.apply(work, result)
        run.variables[step.name] = result
        _save(alias, run, orders=None, position=run.position + 1, variables=run.variables)
    said = {"evidence": order["reason"], "said_by": order["by"], **dict(order["result"])}
    records.close_record(alias, run, record, state, result=said)


def _settle_undo(work: Work, step: Step, index: int, order: Order) -> None:
    run = work.run
    rest = {"kind": "undo", "only": order["only"]} if "only" in order else None
    if order["state"] == StepState.FORCED:
        step.apply_revert(work)
        run.variables.pop(step.name, None)
        _save(work.alias, run, orders=rest, position=index, variables=run.variables)
    else:
        left = f"{step.title}: left as it is by {order['by']}: {order['reason']}"
        _save(work.alias, run, orders=rest, position=index, leftovers=[*run.leftovers, left])


def _current_step(run: WorkflowRun, flow: Flow) -> tuple[Step, int]:
    if run.direction == "end":
        final = flow.on_cancel if is_cancel(run.error) else flow.on_failure
        assert final is not None, "a run ends with a step only where its flow has one"
        return final, len(flow.steps)
    index = run.position - (run.direction == "undo")
    return flow.steps[index], index


def _forget_command(alias: str, record: StepRecord) -> None:
    """A command that nobody waits for any more is not sent again; its host refuses it by the token from now on."""
    OutboxMessage.objects.using(alias).filter(step_key=record.step_key).delete()


def _give_back(work: Work, order: Order, error: Exception) -> None:
    """An order that cannot be carried out changes nothing but this: the run waits for an operator, locks and all."""
    log.warning("order failed: run=%s kind=%s", work.run.uuid, order.get("kind"), exc_info=error)
    told = {"class": type(error).__name__, "message": f"The order to {order.get('kind')} could not be carried out."}
    with work.fenced(work.alias):
        _save(
            work.alias,
            work.run,
            orders=None,
            state=str(RunState.NEEDS_OPERATOR),
            owner=None,
            lease_expires_at=None,
            finished_at=NOW,
        )
        records.tell(work.alias, work.run, "run.order_failed", error=told)


def _save(alias: str, run: WorkflowRun, **values: Any) -> None:
    checkpoints.save(connections[alias], run.pk, values)
    for name, value in values.items():
        setattr(run, name, value)


_EFFECTS: Mapping[str, Callable[[str, WorkflowRun, Flow, Order], None]] = {
    "reschedule": _reschedule,
    "settle": _settle,
}
