"""Images and backups of servers, with each step failing in turn: an image is complete or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import ComputeNode, Instance, InstanceFault
from conductor.core.errors import Conflict, NotFound, NotSupported, ResourceLocked
from conductor.core.states import RunState, TaskState, VmState
from conductor.image import operations
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.images import images
from conductor.services.servers import instances, server_images
from conductor.services.servers.server_images import CreatedImage, ServerImageCreate
from conductor.workflows.flow import Step
from conductor.workflows.flows.server_images import CREATE_BACKUP, CREATE_IMAGE
from tests.integration.flows.moving import CELL, RUNNING, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import (
    DISK,
    StorageHosts,
    assert_nothing_under_way,
    part_of,
    run_of,
    stored_images,
    taken,
    times_of,
)


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path
    return StorageHosts()


def image_of(made: CreatedImage) -> Image:
    return Image.objects.get(uuid=made.image_id)


def backup(ana: Any, uuid: str, name: str, rotation: int) -> CreatedImage:
    return server_images.create_backup(ana, uuid, ServerImageCreate(name), backup_type="daily", rotation=rotation)


def test_an_image_is_there_at_once_and_active_when_its_data_are(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    before = taken()
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold", {"colour": "blue"}))
    assert instance_of(uuid).task_state == TaskState.IMAGE_SNAPSHOT_PENDING
    assert image_of(made).status == "queued"
    run_to_the_end(hosts)
    image = image_of(made)
    assert (image.name, image.status, image.size, image.disk_format) == ("gold", "active", len(DISK), "qcow2")
    assert (image.project_id, image.visibility, image.is_simulated) == (ana.project_id, "private", True)
    assert image.min_disk_gb == 1
    fields = {"image_type": "snapshot", "instance_uuid": uuid, "user_id": ana.user_id, "colour": "blue"}
    fields["img_hv_type"] = "fake"  # as the image that the server was made of
    assert {name: image.properties.get(name) for name in fields} == fields
    assert image.properties["base_image_ref"] == instance_of(uuid).image["image_id"]
    assert (instance_of(uuid).vm_state, hosts.has(uuid)) == (VmState.ACTIVE, {instance_of(uuid).host: RUNNING})
    assert taken() == before
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", CREATE_BACKUP.steps, ids=lambda step: step.name)
def test_a_step_that_fails_leaves_an_image_whole_or_none(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    flow = CREATE_IMAGE if step.name in [one.name for one in CREATE_IMAGE.steps] else CREATE_BACKUP
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    uuid = launch()
    before, files = taken(), stored_images()
    if flow is CREATE_IMAGE:
        made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    else:
        made = backup(ana, uuid, "gold", 1)
    run_to_the_end(hosts)
    run, image = run_of(uuid, flow.name), image_of(made)
    if run.state == RunState.DONE:
        assert image.status == "active"
        assert not is_for_ever
    else:
        assert (run.state, image.status) == (RunState.FAILED_UNDONE, "deleted")
        assert stored_images() == files
        assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
    assert (instance_of(uuid).vm_state, taken()) == (VmState.ACTIVE, before)
    assert_nothing_under_way(uuid)


def test_a_host_that_cannot_copy_leaves_no_image(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    hosts.fails = lambda message, host: "late DriverError" if message == "snapshot_instance" else None
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    run_to_the_end(hosts)
    assert image_of(made).status == "deleted"
    assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "snapshot_instance failed"
    assert_nothing_under_way(uuid)


def test_a_delete_in_the_middle_takes_the_half_made_image_along(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, image_of(made).status) == (VmState.DELETED, "deleted")
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_an_image_deleted_while_it_is_made_leaves_nothing(
    turns: int, hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    uuid = launch()
    before, files = taken(), stored_images()
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    for _ in range(turns):
        step_on(hosts)
    operations.delete(ana, made.image_id)
    run_to_the_end(hosts)
    assert image_of(made).status == "deleted"
    assert stored_images() == files
    assert (instance_of(uuid).vm_state, taken()) == (VmState.ACTIVE, before)
    assert_nothing_under_way(uuid)


def test_an_image_may_go_as_soon_as_it_is_whole_but_not_while_a_server_is_shelved_in_it(
    hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    uuid = launch()
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    lock = ResourceLock.objects.filter(resource=f"image:{made.image_id}")
    Image.objects.filter(uuid=made.image_id).update(status="active")
    lock.update(holder_action="shelve")
    with pytest.raises(ResourceLocked):
        images.delete(ana, made.image_id)
    lock.update(holder_action="createImage")
    images.delete(ana, made.image_id)
    run_to_the_end(hosts)
    assert image_of(made).status == "deleted"
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize(("rotation", "kept"), [(0, []), (1, ["third"]), (2, ["second", "third"])])
def test_backups_rotate(rotation: int, kept: list[str], hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    server_images.create_backup(ana, uuid, ServerImageCreate("weekly"), backup_type="weekly", rotation=1)
    run_to_the_end(hosts)
    for name in ("first", "second", "third"):
        backup(ana, uuid, name, rotation)
        run_to_the_end(hosts)
    names = Image.objects.filter(status="active", properties__backup_type="daily").order_by("pk")
    assert list(names.values_list("name", flat=True)) == kept
    assert Image.objects.get(name="weekly").status == "active"
    assert_nothing_under_way(uuid)


def test_refused_requests_change_nothing(hosts: StorageHosts, ana: Any, people: Any, launch: Any) -> None:
    uuid = launch()
    images, runs = Image.objects.count(), WorkflowRun.objects.using(CELL).count()
    with pytest.raises(NotFound):
        server_images.create_image(people.chi.context(), uuid, ServerImageCreate("gold"))
    _change(uuid, vm_state=VmState.RESCUED)
    with pytest.raises(Conflict, match="while it is in vm_state rescued"):
        server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    _change(uuid, vm_state=VmState.ACTIVE, task_state=TaskState.REBOOTING)
    with pytest.raises(Conflict, match="while it is in task_state rebooting"):
        server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    _change(uuid, task_state=None)
    ComputeNode.objects.using(CELL).update(report={})
    with pytest.raises(NotSupported):
        server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    assert (Image.objects.count(), WorkflowRun.objects.using(CELL).count()) == (images, runs)
    assert_nothing_under_way(uuid)


def test_an_image_of_a_dead_process_is_deleted_and_one_of_a_workflow_stays(
    hosts: StorageHosts, ana: Any, launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_images, "ABANDONED_SECONDS", -1.0)
    uuid = launch()
    made = server_images.create_image(ana, uuid, ServerImageCreate("gold"))
    hosts.mute = {instance_of(uuid).host or ""}
    step_on(hosts)
    assert (server_images.settle_abandoned(), image_of(made).status) == (0, "queued")
    hosts.mute = set()
    run_to_the_end(hosts)
    Image.objects.filter(uuid=made.image_id).update(status="queued")
    assert (server_images.settle_abandoned(), image_of(made).status) == (1, "deleted")


def _change(uuid: str, **values: Any) -> None:
    Instance.objects.using(CELL).filter(uuid=uuid).update(**values)


def test_a_backup_requested_twice_by_one_uuid_is_one_and_keeps_what_it_holds(
    hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    uuid, run_uuid = launch(), uuid4()
    requested = {"backup_type": "daily", "rotation": 1, "run_uuid": run_uuid}
    server_images.create_backup(ana, uuid, ServerImageCreate("gold"), **requested)
    locked = sorted(ResourceLock.objects.values_list("resource", "holder_uuid"))
    assert {kind.partition(":")[0] for kind, _ in locked} == {"image", "port"}
    with pytest.raises(Conflict):
        server_images.create_backup(ana, uuid, ServerImageCreate("gold"), **requested)
    assert sorted(ResourceLock.objects.values_list("resource", "holder_uuid")) == locked
    run_to_the_end(hosts)
    assert Image.objects.filter(name="gold", status="active").count() == 1
    assert_nothing_under_way(uuid)
