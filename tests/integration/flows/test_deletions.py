"""Deletion in any state: during any workflow, with unresponsive cells and hosts, and with undo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault, Migration
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict
from conductor.core.states import MigrationStatus, RunState, TaskState, VmState
from conductor.db.transactions import database_now, write_tx
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.placement.allocations import move
from conductor.rpc import deletes
from conductor.rpc.messages import StepAnswered
from conductor.services.servers import actions, deletions, instances
from conductor.workflows.engine import executor
from tests.fixtures.builds import ana, held, instance_of, launch, run_to_the_end
from tests.fleet import silence

__all__ = ["ana"]
LIVING = {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}


def built(context: Any, **values: Any) -> str:
    uuid = launch(context)
    run_to_the_end()
    if values:
        Instance.objects.using("cell1").filter(uuid=uuid).update(**values)
    return uuid


def commands() -> list[tuple[str, str]]:
    rows = OutboxMessage.objects.using("cell1").order_by("pk")
    return [(row.body["message"], row.host) for row in rows]


@contextmanager
def cell_down(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the cell's database unreachable for deletions."""

    def down(*args: Any, **more: Any) -> Any:
        raise OperationalError("the database does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(deletes, "open_delete", down)
        yield


@pytest.mark.parametrize("state", [state for state in VmState if state != VmState.DELETED])
def test_a_server_is_deleted_from_every_state(state: str, ana: Any) -> None:
    uuid = built(ana, vm_state=state)
    instances.delete(ana, uuid)
    assert instance_of(uuid).task_state == TaskState.DELETING
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})


def test_a_locked_server_stays_for_all_but_administrators(ana: Any, people: Any) -> None:
    uuid = built(ana, is_locked=True)
    with pytest.raises(Conflict, match=f"Instance {uuid} is locked"):
        instances.delete(ana, uuid)
    assert (instance_of(uuid).task_state, held()) == (None, LIVING)
    instances.delete(people.admin.context(), uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})


def test_an_unresponsive_host_has_a_deferred_destroy(ana: Any) -> None:
    uuid = built(ana)
    host = instance_of(uuid).host or ""
    silence(host)
    instances.delete(ana, uuid)
    run = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    executor.run("cell1", run.uuid)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert commands() == [("destroy_instance", host)]
    assert OutboxMessage.objects.using("cell1").get().is_deferred
    assert held() == {"cell1 OutboxMessage": 1}


def test_a_delete_that_fails_again_and_again_shows_its_first_cause_and_goes_on(ana: Any) -> None:
    uuid = built(ana)
    instances.delete(ana, uuid)
    run = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    for number in range(1, 7):
        assert instance_of(uuid).vm_state == (VmState.ERROR if number > 5 else VmState.ACTIVE)
        executor.run("cell1", run.uuid)
        command = OutboxMessage.objects.using("cell1").get()
        error = {"class": "DriverError", "message": f"The disk is busy for the {number}. time."}
        answered = StepAnswered(
            step_key=command.step_key, run_uuid=str(run.uuid), fencing_token=1, host=command.host, ok=False, result={},
            error=error | {"is_reschedulable": True},
        )  # fmt: skip
        executor.answer("cell1", answered)
        WorkflowRun.objects.using("cell1").filter(pk=run.pk).update(wake_at=database_now())
    fault = InstanceFault.objects.using("cell1").get(instance_uuid=uuid)
    assert fault.message == "This fails repeatedly: The disk is busy for the 1. time."
    assert instance_of(uuid).task_state == TaskState.DELETING
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})


def test_a_resized_server_leaves_nothing_at_its_source(ana: Any) -> None:
    uuid = built(ana, vm_state=VmState.RESIZED)
    instance = instance_of(uuid)
    source = next(host for host in ("sim-1", "sim-2") if host != instance.host)
    migration = Migration.objects.using("cell1").create(
        instance_uuid=uuid, migration_type="resize", status=MigrationStatus.FINISHED, source_host=source,
        destination_host=instance.host, project_id=ana.project_id, user_id=ana.user_id, created_at=database_now(),
        updated_at=database_now(),
    )  # fmt: skip
    move(uuid, migration.uuid)  # as if only the source had been claimed
    instances.delete(ana, uuid)
    run = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    executor.run("cell1", run.uuid)
    assert commands() == [("confirm_migration", source)]
    run_to_the_end()
    migration.refresh_from_db(using="cell1")
    assert (migration.status, instance_of(uuid).vm_state) == (MigrationStatus.CONFIRMED, VmState.DELETED)
    assert held() == {}


@pytest.mark.parametrize("is_protected", [False, True])
def test_a_shelved_server_takes_its_image_along_unless_that_is_protected(is_protected: bool, ana: Any) -> None:
    uuid = built(ana, vm_state=VmState.SHELVED_OFFLOADED)
    image = Image.objects.get(name="simulated-linux")
    image.pk, image.uuid, image.is_protected = None, uuid4(), is_protected
    image.save()
    Instance.objects.using("cell1").filter(uuid=uuid).update(shelved_image_id=str(image.uuid))
    instances.delete(ana, uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})
    assert (Image.objects.get(uuid=image.uuid).deleted_at is None) is is_protected
    assert Image.objects.filter(name="simulated-linux", deleted_at=None).exists()


def test_while_the_cell_is_unresponsive_the_request_is_stored_and_carried_out_later(
    ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = built(ana)
    with cell_down(monkeypatch):
        instances.delete(ana, uuid)
        instances.delete(ana, uuid)  # asking again changes nothing
        run = WorkflowRun.objects.using("default").get(flow="delete_when_cell_is_back")
        for _ in range(3):
            WorkflowRun.objects.using("default").filter(pk=run.pk).update(wake_at=database_now())
            executor.run("default", run.uuid)
        run.refresh_from_db(using="default")
        assert (run.state, run.action, run.waits_for["cause"]) == (RunState.WAITING, "delete", "timer")
        assert run.steps.using("default").order_by("-pk").first().error["message"] == "The cell cell1 does not answer."
    assert instance_of(uuid).task_state is None
    run_to_the_end()
    run.refresh_from_db(using="default")
    assert run.state == RunState.DONE
    assert WorkflowRun.objects.using("cell1").get(flow="delete_instance").parent_uuid == run.uuid
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})
    assert InstanceMapping.objects.get().is_deleted


def test_a_server_locked_in_an_unresponsive_cell_stays_and_the_request_fails(
    ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = built(ana)
    with cell_down(monkeypatch):
        instances.delete(ana, uuid)
    Instance.objects.using("cell1").filter(uuid=uuid).update(is_locked=True)
    run_to_the_end()
    run = WorkflowRun.objects.using("default").get(flow="delete_when_cell_is_back")
    assert (run.state, run.error["message"]) == (RunState.FAILED_UNDONE, f"Instance {uuid} is locked")
    assert not WorkflowRun.objects.using("default").live().exists()
    assert (instance_of(uuid).vm_state, held()) == (VmState.ACTIVE, LIVING)


# -- deletions that can be undone


@pytest.fixture
def kept(settings: Any) -> None:
    settings.NOVELLA_RECLAIM_SECONDS = 3600.0


@pytest.mark.usefixtures("kept")
def test_a_soft_deleted_server_is_kept_and_can_be_restored(ana: Any) -> None:
    uuid = built(ana)
    instances.delete(ana, uuid)
    assert instance_of(uuid).task_state == TaskState.SOFT_DELETING
    instances.delete(ana, uuid)
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state, held()) == (VmState.SOFT_DELETED, None, LIVING)
    assert instance.soft_deleted_at is not None
    instances.delete(ana, uuid)  # deleted already: nothing new
    assert not WorkflowRun.objects.using("cell1").filter(flow="delete_instance").exists()
    actions.begin(ana, uuid, "restore")
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.soft_deleted_at, held()) == (VmState.ACTIVE, None, LIVING)


@pytest.mark.usefixtures("kept")
def test_a_forced_delete_is_immediate(ana: Any) -> None:
    uuid = built(ana)
    instances.delete(ana, uuid)
    run_to_the_end()
    instances.delete(ana, uuid, is_forced=True)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})


@pytest.mark.usefixtures("kept")
def test_a_server_that_never_ran_is_not_soft_deleted(ana: Any) -> None:
    uuid = launch(ana)
    run_to_the_end(refused=2)
    instances.delete(ana, uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})


@pytest.mark.usefixtures("kept")
def test_a_soft_delete_on_an_unresponsive_host_sends_no_command(ana: Any) -> None:
    uuid = built(ana)
    silence(instance_of(uuid).host or "")
    instances.delete(ana, uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, commands(), held()) == (VmState.SOFT_DELETED, [], LIVING)


@pytest.mark.usefixtures("kept")
def test_a_running_delete_does_not_become_a_soft_delete(ana: Any) -> None:
    uuid = built(ana)
    instances.delete(ana, uuid, is_forced=True)
    instances.delete(ana, uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})
    assert not WorkflowRun.objects.using("cell1").filter(flow="soft_delete_instance").exists()


@pytest.mark.usefixtures("kept")
def test_a_soft_deleted_server_is_reclaimed_when_its_time_is_over(ana: Any) -> None:
    old, young = built(ana), built(ana)
    for uuid in (old, young):
        instances.delete(ana, uuid)
    run_to_the_end()
    assert deletions.reclaim("cell1") == 0
    Instance.objects.using("cell1").filter(uuid=old).update(soft_deleted_at=database_now(-3700))
    assert deletions.reclaim("cell1") == 1
    assert deletions.reclaim("cell1") == 0  # it goes already
    run = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    assert (run.user_name, run.project_id) == ("system", ana.project_id)
    run_to_the_end()
    assert (instance_of(old).vm_state, instance_of(young).vm_state) == (VmState.DELETED, VmState.SOFT_DELETED)
    assert held() == LIVING


def test_without_the_setting_nothing_is_reclaimed(ana: Any) -> None:
    built(ana, vm_state=VmState.SOFT_DELETED, soft_deleted_at=database_now(-1e6))
    assert deletions.reclaim("cell1") == 0


@pytest.mark.usefixtures("kept")
def test_a_server_restored_at_the_last_moment_stays(ana: Any) -> None:
    uuid = built(ana, vm_state=VmState.SOFT_DELETED, soft_deleted_at=database_now(-3700))
    actions.begin(ana, uuid, "restore")
    assert deletions.reclaim("cell1") == 0
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.ACTIVE, LIVING)


def test_deleting_a_missing_server_raises_not_found(ana: RequestContext) -> None:
    with write_tx("cell1"):
        assert deletes.open_delete("cell1", ana, uuid4()) is False
