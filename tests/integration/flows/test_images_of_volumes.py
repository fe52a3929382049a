"""Images of servers whose root disk is a volume: a workflow like all others, with each step failing in turn."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Instance, InstanceFault
from conductor.core.errors import Conflict, Invalid, QuotaExceeded, ResourceLocked
from conductor.core.states import RunState, TaskState, VmState
from conductor.db.transactions import write_tx
from conductor.image import operations as image_operations
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.quotas import volume_quotas
from conductor.services.servers import actions, instances, server_images, server_volumes
from conductor.services.servers.server_images import ServerImageCreate
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume import operations, store
from conductor.volume.models import Snapshot, Volume
from conductor.volume.states import SNAPSHOT
from conductor.workflows.flow import Step
from conductor.workflows.flows.server_images import CREATE_IMAGE_OF_VOLUMES, ActivateListImage, GiveSnapshotsUp
from tests.fixtures.boot_volumes import BLANK, hosts, image, launched, of_image, requested, statuses
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, taken, times_of

__all__ = ["hosts", "image"]


@pytest.fixture
def server(hosts: StorageHosts, ana: Any, image: str) -> str:
    """A server with two volumes."""
    return launched(hosts, ana, of_image(image), BLANK)


def left() -> tuple[int, int, list[str]]:
    """Images that are there beside the seeded ones, snapshots, and files of snapshots."""
    folder = store.snapshot_path_of("x").parent
    images = Image.objects.filter(deleted_at=None, properties__has_key="instance_uuid")
    return images.count(), Snapshot.objects.count(), sorted(path.name for path in folder.glob("*"))


NOTHING: tuple[int, int, list[str]] = (0, 0, [])


def test_an_image_locks_the_server_and_its_volumes_until_it_is_complete(
    hosts: StorageHosts, ana: Any, server: str
) -> None:
    made = server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert instance_of(server).task_state == TaskState.IMAGE_SNAPSHOT_PENDING
    assert Image.objects.get(uuid=made.image_id).status == "queued"
    assert set(Snapshot.objects.values_list("status", flat=True)) == {"creating"}
    held = set(ResourceLock.objects.using("default").values_list("resource", flat=True))
    assert {f"image:{made.image_id}", *(f"volume:{uuid}" for uuid in statuses())} <= held
    for action in ("pause", "reboot", "stop", "shelve", "migrate"):
        with pytest.raises(Conflict):
            actions.begin(ana, server, action)
    with pytest.raises(Conflict):
        server_images.create_image(ana, server, ServerImageCreate("again"))
    with pytest.raises(Invalid, match="not active"):
        instances.create(ana, requested(image_ref=made.image_id))
    run_to_the_end(hosts)
    row = Image.objects.get(uuid=made.image_id)
    assert (row.status, row.size, row.disk_format) == ("active", 0, "raw")
    assert set(Snapshot.objects.values_list("status", flat=True)) == {"available"}
    assert len(left()[2]) == 2
    assert instance_of(server).vm_state == VmState.ACTIVE
    assert_nothing_under_way(server)


@pytest.mark.parametrize("action", ["pause", "reboot", "stop", "shelve", "migrate"])
def test_an_image_is_refused_during_another_action_and_leaves_nothing(
    action: str, hosts: StorageHosts, ana: Any, server: str
) -> None:
    actions.begin(ana, server, action)
    runs = WorkflowRun.objects.using(CELL).count()
    with pytest.raises(Conflict):
        server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert (left(), WorkflowRun.objects.using(CELL).count()) == (NOTHING, runs)


def test_an_image_is_refused_during_an_action_without_a_task_state_and_leaves_nothing(
    hosts: StorageHosts, ana: Any, server: str
) -> None:
    data = str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    attachment = server_volumes.attach(ana, server, AttachmentCreate(data))
    with pytest.raises((Invalid, ResourceLocked)):  # the volume that comes is not in use yet
        server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert left() == NOTHING
    run_to_the_end(hosts)
    volume = BlockDevice.objects.using(CELL).get(uuid=attachment.attachment_id).volume_uuid
    server_volumes.detach(ana, server, str(volume))
    with pytest.raises(ResourceLocked):
        server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert left() == NOTHING


def test_a_quota_that_has_room_for_one_of_two_snapshots_leaves_none(hosts: StorageHosts, ana: Any, server: str) -> None:
    volume_quotas.update(ana.project_id, {"snapshots": 1})
    with pytest.raises(QuotaExceeded):
        server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert left() == NOTHING
    assert_nothing_under_way(server)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", CREATE_IMAGE_OF_VOLUMES.steps, ids=lambda step: step.name)
def test_a_step_that_fails_leaves_an_image_with_all_its_snapshots_or_none(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, server: str, trouble: Any
) -> None:
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    before = taken()
    made = server_images.create_image(ana, server, ServerImageCreate("kept"))
    run_to_the_end(hosts)
    state = run_of(server, "create_image_of_volumes").state
    if state == RunState.DONE:
        assert left()[:2] == (1, 2)
        assert not is_for_ever
    else:
        assert (state, left()) == (RunState.FAILED_UNDONE, NOTHING)
        assert Image.objects.get(uuid=made.image_id).status == "deleted"
        assert InstanceFault.objects.using(CELL).get(instance_uuid=server).message == "RuntimeError"
    assert (instance_of(server).vm_state, taken()) == (VmState.ACTIVE, before)
    assert_nothing_under_way(server)


def test_an_image_in_use_keeps_its_snapshots_until_it_goes_with_them(
    hosts: StorageHosts, ana: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume is made from the image as soon as it is active, and the step that activated it fails afterwards."""
    activate, give_up = ActivateListImage.execute, GiveSnapshotsUp.execute
    volume: list[Volume] = []
    seen: list[tuple[int, int, int]] = []

    def then_fail(self: ActivateListImage, work: Any) -> Any:
        activate(self, work)
        source = Snapshot.objects.order_by("pk").first()
        assert source is not None
        made_of = {"size_gb": 1, "source_kind": SNAPSHOT, "source_uuid": str(source.uuid)}
        volume.append(operations.insert(ana, operations.VolumeCreate(**made_of)))  # type: ignore[arg-type]
        raise RuntimeError("the database was gone")

    def while_copied(self: GiveSnapshotsUp, work: Any) -> Any:
        images, snapshots, files = left()
        seen.append((images, snapshots, len(files)))
        if len(seen) == 2:
            Volume.objects.filter(pk__in=[one.pk for one in volume]).update(status="available")
        return give_up(self, work)

    monkeypatch.setattr(ActivateListImage, "execute", then_fail)
    monkeypatch.setattr(GiveSnapshotsUp, "execute", while_copied)
    server_images.create_image(ana, server, ServerImageCreate("kept"))
    run_to_the_end(hosts)
    assert seen == [(1, 2, 2), (1, 2, 2)]
    assert (run_of(server, "create_image_of_volumes").state, left()) == (RunState.FAILED_UNDONE, NOTHING)


def test_an_image_that_is_active_is_not_taken_back_by_a_delete(
    hosts: StorageHosts, ana: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate = ActivateListImage.execute

    def then_deleted(self: ActivateListImage, work: Any) -> Any:
        result = activate(self, work)
        instances.delete(ana, server)
        return result

    monkeypatch.setattr(ActivateListImage, "execute", then_deleted)
    server_images.create_image(ana, server, ServerImageCreate("kept"))
    run_to_the_end(hosts)
    assert run_of(server, "create_image_of_volumes").state == RunState.DONE
    assert instance_of(server).vm_state == VmState.DELETED
    assert (left()[:2], len(left()[2])) == ((1, 2), 2)


def test_a_delete_before_the_copy_takes_all_of_it_along(hosts: StorageHosts, ana: Any, server: str) -> None:
    server_images.create_image(ana, server, ServerImageCreate("kept"))
    instances.delete(ana, server)
    run_to_the_end(hosts)
    assert left() == NOTHING
    assert instance_of(server).vm_state == VmState.DELETED


def test_an_image_of_volumes_deleted_while_it_is_made_leaves_no_snapshot(
    hosts: StorageHosts, ana: Any, server: str
) -> None:
    made = server_images.create_image(ana, server, ServerImageCreate("kept"))
    image_operations.delete(ana, made.image_id)
    run_to_the_end(hosts)
    assert left() == NOTHING
    assert_nothing_under_way(server)


def test_only_reservations_of_a_dead_process_are_deleted(
    hosts: StorageHosts, ana: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_images, "ABANDONED_SECONDS", -1.0)
    server_images.create_image(ana, server, ServerImageCreate("kept"))
    assert server_images.settle_abandoned() == 0, "its workflow holds it"
    run_to_the_end(hosts)
    whole = left()
    second = server_images.create_image(ana, server, ServerImageCreate("lost"))
    with write_tx(CELL):
        WorkflowRun.objects.using(CELL).filter(uuid=second.run_uuid).delete()
        Instance.objects.using(CELL).update(task_state=None)
    ResourceLock.objects.using("default").all().delete()
    copied = {"name": "described by its owner", "disk_format": "raw", "container_format": "bare"}
    row = Image.objects.get(properties__has_key="block_device_mapping", status="active")
    own = image_operations.create(ana, copied | row.properties)
    assert own.status == "queued"
    assert server_images.settle_abandoned() == 2
    assert left() == whole
