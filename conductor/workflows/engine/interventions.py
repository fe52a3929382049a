"""Execution of interventions that change a run, before its next owner continues.

An order was checked, audited and fenced when it was accepted (services.workflows.interventions); here its effect
commits together with the order's end, so that it is executed once.

    reschedule   the step on a host has failed: undo this attempt and take the next alternate
    settle       the open or failed step is done ("forced") or is left out ("skipped"), with a given result
    undo         only these steps are undone, once more; the order stays until the run ends (see Transitions)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from conductor.core.states import StepState
from conductor.journal.models import StepRecord
from conductor.workflows.engine import records
from conductor.workflows.engine.transitions import NOT_THE_STEPS_FAULT, Transitions
from conductor.workflows.flow import RESCHEDULED

log = logging.getLogger(__name__)

Order = Mapping[str, Any]


def carry_out(transitions: Transitions) -> bool:
    """Execute the intervention of a run that this worker owns. False when it failed and an operator must decide again.

    Raises StaleToken when another worker owns the run now.
    """
    order = transitions.run.orders or {}
    effect = _EFFECTS.get(order.get("kind", ""))
    if effect is None:
        return True
    try:
        with transitions.transaction():
            effect(transitions, order)
    except NOT_THE_STEPS_FAULT:
        raise
    except Exception as error:
        log.warning("order failed: run=%s kind=%s", transitions.run.uuid, order.get("kind"), exc_info=error)
        message = f"The order to {order.get('kind')} could not be carried out."
        transitions.reread()
        with transitions.transaction():  # a failed intervention changes nothing but this
            transitions.need_operator("run.order_failed", {"class": type(error).__name__, "message": message})
        return False
    return True


def _reschedule(transitions: Transitions, order: Order) -> None:
    run = transitions.run
    record = transitions.current_record(run.position)
    error = {
        "class": RESCHEDULED,
        "message": order["reason"],
        "step": transitions.flow.steps[run.position].name,
        "attempt": run.attempt,
        "is_reschedulable": True,
        "is_ordered": True,
    }
    if record is not None and record.state in records.OPEN_STATES:
        transitions.forget_command(record)
        transitions.unit.close(record, StepState.FAILED, error=error)
    elif record is not None:
        marked = {**(record.error or {}), "is_reschedulable": True, "is_ordered": True}
        StepRecord.objects.using(transitions.alias).filter(pk=record.pk).update(error=marked)
    transitions.unit.save(orders=None)
    transitions.compensate(error)


def _settle(transitions: Transitions, order: Order) -> None:
    is_undo = transitions.run.direction == "undo"
    rest = {"kind": "undo", "only": order["only"]} if is_undo and "only" in order else None
    transitions.unit.save(orders=rest)
    evidence = {"evidence": order["reason"], "confirmed_by": order["by"]}
    transitions.settle(StepState(order["state"]), dict(order["result"]), evidence=evidence)


_EFFECTS: Mapping[str, Callable[[Transitions, Order], None]] = {"reschedule": _reschedule, "settle": _settle}
