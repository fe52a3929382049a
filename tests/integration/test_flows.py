"""Build and delete with each step failing in turn: what was taken is given back, and what was accepted has an end."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.cells.lookup import journal_aliases
from conductor.cells.targeting import target_cell
from conductor.core.states import LIVE_RUN_STATES, RunState, VmState
from conductor.image import seed as image_seed
from conductor.image.models import Image
from conductor.journal.models import LockWait, OutboxMessage, ResourceLock, WorkflowRun
from conductor.network import seed as network_seed
from conductor.network.models import AddressAllocation, Port
from conductor.placement.models import Allocation, Inventory
from conductor.rpc.messages import StepAnswered
from conductor.services import flavors, instances
from conductor.services.values import BuildWish
from conductor.transactions import database_now
from conductor.workflows import engine
from conductor.workflows.build_in_cell import BUILD_IN_CELL
from conductor.workflows.build_instances import BUILD_INSTANCES
from conductor.workflows.delete_instance import DELETE_INSTANCE
from conductor.workflows.flow import RemoteStep, Step, Work
from conductor.workflows.steps import hand_over
from tests.fleet import add_host
from tests.trouble import Trouble, trouble

ROUNDS = 60
assert trouble, "the fixture of that name"
BUILD_STEPS = [*BUILD_INSTANCES.steps, *BUILD_IN_CELL.steps]


@pytest.fixture
def ana(people: Any) -> Any:
    admin = people.admin.context()
    flavors.seed()
    image_seed.seed(admin.project_id, None)
    network_seed.seed(admin.project_id)
    for host in ("sim-1", "sim-2"):
        add_host(host, "cell1", size=(64, 65536, 1000))
    return people.ana.context()


def launch(context: Any) -> str:
    return launch_many(context, 1)[0]


def launch_many(context: Any, count: int) -> list[str]:
    image = Image.objects.get(name="simulated-linux")
    wish = BuildWish(name="web-1", flavor_ref="1", image_ref=str(image.uuid), min_count=count, max_count=count)
    return list(instances.create(context, wish).instance_uuids)


def run_to_the_end(*, refused: int = 0) -> None:
    """Take every run as far as it goes; hosts answer at once, the first `refused` builds with a failure."""
    for _ in range(ROUNDS):
        live = [
            (alias, run.uuid)
            for alias in journal_aliases()
            for run in WorkflowRun.objects.using(alias).filter(state__in=LIVE_RUN_STATES)
        ]
        if not live:
            return
        for alias, uuid in live:
            runs = WorkflowRun.objects.using(alias).filter(uuid=uuid)
            runs.filter(state=RunState.WAITING, waits_for__cause="timer").update(wake_at=database_now())
            engine.run(alias, uuid)
            for command in OutboxMessage.objects.using(alias).filter(run_uuid=uuid):
                fails = refused > 0 and command.body["message"] == "spawn_instance"
                refused -= fails
                engine.answer(alias, _answer(command, ok=not fails))
    pytest.fail("there are still live runs")


def _answer(command: OutboxMessage, *, ok: bool) -> StepAnswered:
    error = {"class": "DriverError", "message": "the disk is full", "is_reschedulable": True}
    return StepAnswered(
        step_key=command.step_key,
        run_uuid=str(command.run_uuid),
        fencing_token=1,
        host=command.host,
        ok=ok,
        result={},
        error=None if ok else error,
    )


def held() -> dict[str, int]:
    """What is taken: empty when everything was given back."""
    counts = {
        "allocations": Allocation.objects.count(),
        "used": Inventory.objects.filter(used__gt=0).count(),
        "ports": Port.objects.count(),
        "addresses": AddressAllocation.objects.count(),
        "requests": BuildRequest.objects.count(),
    }
    for alias in journal_aliases():
        for model in (ResourceLock, LockWait, OutboxMessage):
            counts[f"{alias} {model.__name__}"] = model.objects.using(alias).count()  # type: ignore[attr-defined]
    return {name: count for name, count in counts.items() if count}


def instance_of(uuid: str) -> Instance:
    mapping = InstanceMapping.objects.select_related("cell").get(instance_uuid=uuid)
    assert mapping.cell is not None
    with target_cell(mapping.cell.name):
        return Instance.objects.get(uuid=uuid)


def part_of(step: Step) -> str:
    return "apply" if step.is_local or isinstance(step, RemoteStep) else "execute"


def test_a_build_without_trouble_holds_one_of_each(ana: Any) -> None:
    uuid = launch(ana)
    run_to_the_end()
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert held() == {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}


@pytest.mark.parametrize("step", BUILD_STEPS, ids=lambda step: step.name)
def test_a_step_that_fails_for_ever_ends_the_build_and_all_is_given_back(
    step: Step, ana: Any, trouble: Trouble
) -> None:
    if step.name == "HandOver":
        trouble.strike(step, "execute", times=4)  # no way back from here: it goes on until it is done
        uuid = launch(ana)
        run_to_the_end()
        assert instance_of(uuid).vm_state == VmState.ACTIVE
        return
    trouble.strike(step, part_of(step), times=10_000)
    uuid = launch(ana)
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.ERROR, None)
    assert instance._state.db == ("cell0" if step in BUILD_INSTANCES.steps else "cell1")
    assert InstanceFault.objects.using(instance._state.db).get(instance_uuid=uuid).message == "RuntimeError"
    assert held() == {}


@pytest.mark.parametrize("step", BUILD_STEPS, ids=lambda step: step.name)
def test_what_fails_once_is_undone_or_done_again_and_never_left_half(step: Step, ana: Any, trouble: Trouble) -> None:
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
    calls: list[list[str]] = []
    honest = hand_over._open_children

    def fail_at_the_second(work: Work, cell: str, uuids: list[str]) -> None:
        calls.append(uuids)
        if len(calls) == 2:
            raise RuntimeError("the cell does not answer")
        honest(work, cell, uuids)

    monkeypatch.setattr(hand_over, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(hand_over, "_open_children", fail_at_the_second)
    uuids = launch_many(ana, 5)
    run_to_the_end()
    assert [len(some) for some in calls] == [2, 2, 2, 2, 1]
    children = WorkflowRun.objects.using("cell1").filter(flow=BUILD_IN_CELL.name)
    assert sorted(str(run.instance_uuid) for run in children) == sorted(uuids)
    assert {run.state for run in children} == {RunState.DONE}
    states = Instance.objects.using("cell1").filter(uuid__in=uuids).values_list("vm_state", flat=True)
    assert list(states) == [VmState.ACTIVE] * 5
