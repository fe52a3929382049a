"""Guests whose power state differs from their servers': a recorded action of the product reconciles both."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Instance
from conductor.core.server_actions import ACTIONS
from conductor.core.states import PowerState, RunState, TaskState, VmState
from conductor.db.transactions import write_tx
from conductor.journal.models import ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import StepAnswered
from conductor.services.fleet import reports
from conductor.workflows.engine import executor
from tests.fixtures.host_reports import CELL, _cells, make_instance, report

__all__ = ["_cells"]
pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def runs() -> list[WorkflowRun]:
    return list(WorkflowRun.objects.using(CELL).exclude(flow="reap").order_by("pk"))


def seen(instance: Instance, state: PowerState, *numbers: int) -> None:
    for number in numbers:
        reports.record(CELL, report(number, {str(instance.uuid): int(state)}))


def now(instance: Instance) -> Instance:
    return Instance.objects.using(CELL).get(pk=instance.pk)


def answer(run: WorkflowRun, *, ok: bool = True) -> None:
    executor.run(CELL, run.uuid)
    step = StepRecord.objects.using(CELL).filter(run=run).order_by("-pk").first()
    assert step is not None
    error = None if ok else {"class": "DriverError", "message": "no", "is_reschedulable": False}
    executor.answer(
        CELL,
        StepAnswered(
            step_key=step.step_key,
            run_uuid=str(run.uuid),
            fencing_token=1,
            host="host-1",
            ok=ok,
            result={},
            error=error,
        ),
    )


@pytest.mark.parametrize(
    ("vm_state", "found", "flow", "ends"),
    [
        (VmState.ACTIVE, PowerState.SHUTDOWN, "stop_instance", VmState.STOPPED),
        (VmState.ACTIVE, PowerState.CRASHED, "stop_instance", VmState.STOPPED),
        (VmState.ACTIVE, PowerState.SUSPENDED, "stop_instance", VmState.STOPPED),
        (VmState.STOPPED, PowerState.RUNNING, "stop_instance", VmState.STOPPED),
        (VmState.PAUSED, PowerState.SHUTDOWN, "stop_instance", VmState.STOPPED),
        (VmState.SOFT_DELETED, PowerState.RUNNING, "soft_delete_instance", VmState.SOFT_DELETED),
    ],
)
def test_a_power_state_is_adopted_at_the_second_report(vm_state: str, found: PowerState, flow: str, ends: str) -> None:
    power = PowerState.SHUTDOWN if found == PowerState.RUNNING else PowerState.RUNNING
    action = next(one for one in ACTIONS.values() if one.flow == flow)
    instance = make_instance(vm_state=vm_state, power_state=power)
    seen(instance, found, 1)
    assert (runs(), now(instance).task_state) == ([], None)
    seen(instance, found, 2)
    (run,) = runs()
    assert (run.flow, run.user_name, run.project_id) == (flow, "system", instance.project_id)
    assert run.inputs["reason"] == f"its guest was found {found.name.lower()}"
    assert now(instance).task_state == action.task_state
    seen(instance, found, 3, 4)  # under work: nothing more
    assert len(runs()) == 1
    answer(run)
    assert (now(instance).vm_state, now(instance).task_state) == (ends, None)
    assert runs()[0].state == RunState.DONE
    assert not ResourceLock.objects.using(CELL).exists()


@pytest.mark.parametrize(
    ("vm_state", "found"),
    [
        (VmState.ACTIVE, PowerState.PAUSED),
        (VmState.ACTIVE, PowerState.NOSTATE),
        (VmState.RESCUED, PowerState.SHUTDOWN),
        (VmState.SUSPENDED, PowerState.SHUTDOWN),
        (VmState.ERROR, PowerState.SHUTDOWN),
        (VmState.BUILDING, PowerState.SHUTDOWN),
    ],
)
def test_other_differences_of_power_states_are_only_shown(vm_state: str, found: PowerState) -> None:
    instance = make_instance(vm_state=vm_state)
    seen(instance, found, 1, 2, 3)
    assert (runs(), now(instance).power_state) == ([], found)


def test_a_report_that_is_older_than_a_start_does_no_harm() -> None:
    instance = make_instance(power_state=PowerState.RUNNING)
    seen(instance, PowerState.SHUTDOWN, 1)
    seen(instance, PowerState.RUNNING, 2)
    seen(instance, PowerState.SHUTDOWN, 3)
    assert runs() == []


def test_an_instance_under_work_is_left_to_its_workflow() -> None:
    instance = make_instance(task_state=TaskState.REBOOTING)
    seen(instance, PowerState.SHUTDOWN, 1, 2, 3, 4)
    assert (runs(), now(instance).task_state) == ([], TaskState.REBOOTING)


def test_an_action_without_a_task_state_is_not_disturbed_either(people: Any) -> None:
    instance = make_instance()
    wanted = outbox.NewRun(
        flow="trigger_crash_dump", action="trigger_crash_dump", context=people.ana.context(),
        resources=[f"instance:{instance.uuid}"], instance_uuid=instance.uuid,
    )  # fmt: skip
    with write_tx(CELL):
        outbox.open_run(CELL, wanted)
    seen(instance, PowerState.CRASHED, 1, 2, 3)
    assert [run.action for run in runs()] == ["trigger_crash_dump"]
    assert now(instance).task_state is None


def test_failed_synchronizations_are_repeated_with_backoff() -> None:
    instance = make_instance()
    opened = []
    for number in range(1, 10):
        seen(instance, PowerState.SHUTDOWN, number)
        fresh = [run for run in runs() if run.state == RunState.QUEUED]
        if fresh:
            opened.append(number)
            answer(fresh[0], ok=False)
    assert opened == [2, 4, 8]
    assert (now(instance).vm_state, now(instance).task_state) == (VmState.ACTIVE, None)
