"""Interventions on built-in flows: resources are released, and the server's state is right."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from conductor.cell_db.models import InstanceFault, Service
from conductor.core.errors import Conflict
from conductor.core.states import RunState, VmState
from conductor.db.transactions import database_now
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.network import ports
from conductor.services.servers import instances
from conductor.services.workflows import interventions
from conductor.services.workflows.interventions import InterventionRequest
from conductor.workflows.engine import executor
from conductor.workflows.flows.build import ClaimDestination, MarkFailed
from tests.fixtures.builds import held, instance_of, launch, run_to_the_end
from tests.integration.workflows import test_flows as flows
from tests.trouble import Trouble

ONE_OF_EACH = {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}
ana, trouble = flows.ana, flows.trouble  # the same cloud, and the same trouble


def order(context: Any, run: WorkflowRun, name: str, **requested: Any) -> None:
    interventions.intervene(context, run.uuid, name, InterventionRequest(**{"reason": "because", **requested}))


def on_its_host(context: Any) -> tuple[str, WorkflowRun]:
    """Return a launch whose command is under way on the first host."""
    uuid = launch(context)
    executor.run("default", WorkflowRun.objects.get().uuid)
    run = WorkflowRun.objects.using("cell1").get()
    executor.run("cell1", run.uuid)
    assert OutboxMessage.objects.using("cell1").filter(run_uuid=run.uuid).exists()
    return uuid, run


def failed_build(context: Any) -> tuple[str, WorkflowRun]:
    uuid = launch(context)
    run_to_the_end(refused=9)
    run = WorkflowRun.objects.using("cell1").get()
    assert run.state == RunState.FAILED_UNDONE
    assert held() == {}
    return uuid, run


def state_of(uuid: str) -> tuple[str, str | None]:
    instance = instance_of(uuid)
    return instance.vm_state, instance.task_state


def test_a_build_on_its_host_is_cancelled_and_its_resources_released(ana: Any) -> None:
    uuid, run = on_its_host(ana)
    order(ana, run, "cancel", reason="not wanted")
    run_to_the_end()
    assert WorkflowRun.objects.using("cell1").get().state == RunState.CANCELLED
    assert state_of(uuid) == (VmState.ERROR, None)
    assert InstanceFault.objects.using("cell1").get(instance_uuid=uuid).message == "not wanted"
    assert held() == {}


def test_a_build_that_has_no_host_yet_is_cancelled_and_kept_for_its_owner(ana: Any) -> None:
    uuid = launch(ana)
    order(ana, WorkflowRun.objects.get(), "cancel", reason="not wanted")
    run_to_the_end()
    assert WorkflowRun.objects.get().state == RunState.CANCELLED
    assert instance_of(uuid)._state.db == "cell0"
    assert state_of(uuid) == (VmState.ERROR, None)
    assert held() == {}


def test_a_failed_build_is_retried_on_a_host_that_was_mended(ana: Any, people: Any) -> None:
    uuid, run = failed_build(ana)
    order(people.admin.context(), run, "retry", step="ClaimDestination")
    run_to_the_end()
    assert state_of(uuid) == (VmState.ACTIVE, None)
    assert held() == ONE_OF_EACH
    assert WorkflowRun.objects.using("cell1").get().state == RunState.DONE


def test_a_build_is_not_retried_once_its_server_is_deleted(ana: Any, people: Any) -> None:
    uuid, run = failed_build(ana)
    instances.delete(ana, uuid)
    run_to_the_end()
    with pytest.raises(Conflict, match="since"):
        order(people.admin.context(), run, "retry", step="ClaimDestination")
    assert held() == {}


def test_a_build_is_rescheduled_by_hand(ana: Any, people: Any) -> None:
    uuid, run = on_its_host(ana)
    first = instance_of(uuid).host
    order(people.admin.context(), run, "reschedule", reason="that host is slow")
    run_to_the_end()
    assert state_of(uuid) == (VmState.ACTIVE, None)
    assert instance_of(uuid).host != first
    assert held() == ONE_OF_EACH


def test_a_spawn_marked_as_done_on_an_unresponsive_host(ana: Any, people: Any) -> None:
    uuid, run = on_its_host(ana)
    requested = {"step": "SpawnOnHost", "confirm": "SpawnOnHost", "mark": "forced"}
    with pytest.raises(Conflict, match="which is up"):
        order(people.admin.context(), run, "skip", **requested)
    Service.objects.using("cell1").update(last_seen_at=database_now(-3600))
    order(people.admin.context(), run, "skip", **requested)
    run_to_the_end()
    assert state_of(uuid) == (VmState.ACTIVE, None)
    assert held() == ONE_OF_EACH


def test_resources_that_could_not_be_released_are_released_later(ana: Any, people: Any, trouble: Trouble) -> None:
    trouble.strike(ClaimDestination(), "revert", times=5)  # as often as an undo is tried
    uuid = launch(ana)
    run_to_the_end(refused=9)
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.state, run.uncompensated) == (RunState.FAILED_NOT_CLEAN, ["Claim host: RuntimeError"])
    order(people.admin.context(), run, "undo")
    run_to_the_end()
    ended = WorkflowRun.objects.using("cell1").get()
    assert (ended.state, ended.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert state_of(uuid) == (VmState.ERROR, None)
    assert held() == {}


def test_a_delete_waits_for_a_build_that_needs_an_operator_and_then_wins(
    ana: Any, people: Any, trouble: Trouble
) -> None:
    trouble.strike(MarkFailed(), "commit", times=1)
    uuid = launch(ana)
    run_to_the_end(refused=9)
    run = WorkflowRun.objects.using("cell1").get()
    assert run.state == RunState.NEEDS_OPERATOR
    instances.delete(ana, uuid)
    waiter = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    assert waiter.waits_for["cause"] == "lock"
    order(people.admin.context(), run, "resume")
    run_to_the_end()
    assert state_of(uuid)[0] == VmState.DELETED
    assert held() == {}


def test_a_build_forced_to_its_end_leaves_a_server_that_can_be_deleted(ana: Any, people: Any, trouble: Trouble) -> None:
    trouble.strike(MarkFailed(), "commit", times=9)
    uuid = launch(ana)
    run_to_the_end(refused=9)
    run = WorkflowRun.objects.using("cell1").get()
    order(people.admin.context(), run, "force", confirm=str(run.uuid)[:8])
    assert WorkflowRun.objects.using("cell1").get().state == RunState.FAILED_UNDONE
    assert state_of(uuid) == (VmState.ERROR, None)
    assert held() == {}
    instances.delete(ana, uuid)
    run_to_the_end()
    assert state_of(uuid)[0] == VmState.DELETED


def test_ports_that_could_not_be_released_are_released_later(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, failures = ports.unplug, iter([RuntimeError("the network is away")] * 3)

    def unplug(instance_uuid: str) -> None:
        error = next(failures, None)
        if error is not None:
            raise error
        whole(instance_uuid)

    monkeypatch.setattr(ports, "unplug", unplug)
    uuid, _ = failed_build(ana)
    assert state_of(uuid) == (VmState.ERROR, None)
    assert next(failures, None) is None


def test_the_end_of_a_build_is_tried_again_while_the_ports_database_is_away(
    ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unplug, has_plugged = ports.unplug, ports.has_plugged
    failures = [RuntimeError("the network is away")] * 2
    is_away: list[bool] = []

    def failing_unplug(instance_uuid: str) -> None:
        if failures:
            is_away.append(True)
            raise failures.pop()
        unplug(instance_uuid)

    def failing_has_plugged(instance_uuid: str) -> bool:
        if is_away:
            is_away.pop()
            raise OperationalError("the database is away")
        return has_plugged(instance_uuid)

    monkeypatch.setattr(ports, "unplug", failing_unplug)
    monkeypatch.setattr(ports, "has_plugged", failing_has_plugged)
    uuid, _ = failed_build(ana)
    assert state_of(uuid) == (VmState.ERROR, None)
    assert (failures, is_away) == ([], [])
