"""Build and delete with each step failing in turn: claimed resources are freed, and accepted requests end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.core.states import RunState, VmState
from conductor.journal.models import WorkflowRun
from conductor.services.servers import instances
from conductor.workflows.flow import Step, StepContext
from conductor.workflows.flows import build
from conductor.workflows.flows.build import BUILD_IN_CELL, BUILD_INSTANCES
from conductor.workflows.flows.delete import DELETE_INSTANCE
from tests.fixtures.builds import ana, held, instance_of, launch, launch_many, part_of, run_to_the_end
from tests.integration.flows.moving import report_checks
from tests.trouble import Trouble, trouble

__all__ = ["ana"]

assert trouble, "the fixture of that name"
BUILD_STEPS = [*BUILD_INSTANCES.steps, *BUILD_IN_CELL.steps]


def test_a_successful_build_uses_one_of_each_resource(ana: Any) -> None:
    uuid = launch(ana)
    run_to_the_end()
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert held() == {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}


@pytest.mark.parametrize("step", BUILD_STEPS, ids=lambda step: step.name)
def test_a_step_that_always_fails_ends_the_build_and_all_resources_are_released(
    step: Step, ana: Any, trouble: Trouble
) -> None:
    if step.name == "HandOver":
        trouble.strike(step, "execute", times=4)  # no way back from here: it goes on until it is done
        uuid = launch(ana)
        run_to_the_end()
        assert instance_of(uuid).vm_state == VmState.ACTIVE
        return
    report_checks()
    trouble.strike(step, part_of(step), times=10_000)
    uuid = launch(ana)
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.ERROR, None)
    assert instance._state.db == ("cell0" if step in BUILD_INSTANCES.steps else "cell1")
    assert InstanceFault.objects.using(instance._state.db).get(instance_uuid=uuid).message == "RuntimeError"
    assert held() == {}


@pytest.mark.parametrize("step", BUILD_STEPS, ids=lambda step: step.name)
def test_a_step_that_fails_once_is_compensated_or_repeated(step: Step, ana: Any, trouble: Trouble) -> None:
    report_checks()
    trouble.strike(step, part_of(step), times=1)
    uuid = launch(ana)
    run_to_the_end()
    instance = instance_of(uuid)
    if instance.vm_state == VmState.ACTIVE:
        assert held() == {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}
    else:
        assert instance.vm_state == VmState.ERROR
        assert InstanceFault.objects.using(instance._state.db).get(instance_uuid=uuid).message == "RuntimeError"
        assert held() == {}


def test_refused_by_one_host_it_runs_on_the_other(ana: Any) -> None:
    uuid = launch(ana)
    run_to_the_end(refused=1)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    run = WorkflowRun.objects.using("cell1").get(flow="build_in_cell")
    assert (run.attempt, run.state, run.error) == (2, RunState.DONE, None)
    assert held() == {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}


@pytest.mark.parametrize("step", DELETE_INSTANCE.steps, ids=lambda step: step.name)
def test_a_delete_goes_on_until_it_is_done(step: Step, ana: Any, trouble: Trouble) -> None:
    uuid = launch(ana)
    run_to_the_end()
    if not step.is_local:
        trouble.strike(step, part_of(step), times=5)
    instances.delete(ana, uuid)
    run_to_the_end()
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert held() == {}


@pytest.mark.parametrize("step", [BUILD_INSTANCES.steps[0], BUILD_INSTANCES.steps[1]], ids=lambda step: step.name)
def test_a_delete_between_the_steps_of_a_launch_wins(step: Step, ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = type(step).execute
    launched: list[str] = []

    def then_deleted(self: Step, work: Any) -> Any:
        result = whole(self, work)
        instances.delete(ana, launched[0])
        return result

    monkeypatch.setattr(type(step), "execute", then_deleted)
    launched.append(launch(ana))
    run_to_the_end()
    assert InstanceMapping.objects.get().is_deleted
    assert not Instance.objects.using("cell1").exists()
    assert held() == {}


def test_many_builds_are_handed_over_a_few_at_a_time_and_each_once(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when what hands them over fails after the first few."""
    calls: list[Sequence[tuple[StepContext, str]]] = []
    original = build._open_children

    def fail_at_the_second(cell: str, pairs: Sequence[tuple[StepContext, str]]) -> dict[UUID, Exception]:
        calls.append(pairs)
        if len(calls) == 2:
            raise RuntimeError("the cell does not answer")
        return original(cell, pairs)

    monkeypatch.setattr(build, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(build, "_open_children", fail_at_the_second)
    uuids = launch_many(ana, 5)
    run_to_the_end()
    assert [len(some) for some in calls] == [2, 2, 2, 2, 1]
    children = WorkflowRun.objects.using("cell1").filter(flow=BUILD_IN_CELL.name)
    assert sorted(str(run.instance_uuid) for run in children) == sorted(uuids)
    assert {run.state for run in children} == {RunState.DONE}
    states = Instance.objects.using("cell1").filter(uuid__in=uuids).values_list("vm_state", flat=True)
    assert list(states) == [VmState.ACTIVE] * 5
