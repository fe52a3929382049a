"""Copies of volumes, with each step failing in turn: the data are complete, or the volume is in error with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.core.errors import Invalid, QuotaExceeded, ResourceLocked
from conductor.core.states import RunState
from conductor.image import operations as images
from conductor.image import store as image_store
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.quotas import volume_quotas
from conductor.services.volumes import backups, creation, reimaging, uploads, volumes
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes.backups import BackupAsk
from conductor.services.volumes.creation import VolumeAsk
from conductor.services.volumes.uploads import UploadAsk
from conductor.volume import backup_store, snapshots, store, types
from conductor.volume.backups import BackupCreate
from conductor.volume.models import Snapshot, Volume, VolumeMessage
from conductor.volume.snapshots import SnapshotCreate
from conductor.workflows.flow import Flow, Step
from conductor.workflows.flows.volumes import (
    BACKUP_VOLUME,
    CREATE_SNAPSHOT,
    CREATE_VOLUME,
    REIMAGE_VOLUME,
    RESTORE_BACKUP,
    REVERT_VOLUME,
    UPLOAD_VOLUME,
)
from tests.integration.flows.moving import run_to_the_end
from tests.integration.flows.storing import StorageHosts, part_of, times_of

DATA = b"the first bytes of a system" * 1000
CASES = [
    (flow, step)
    for flow in (
        *(CREATE_VOLUME, CREATE_SNAPSHOT, REVERT_VOLUME, REIMAGE_VOLUME, UPLOAD_VOLUME),
        *(BACKUP_VOLUME, RESTORE_BACKUP),
    )
    for step in flow.steps
]


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path  # where volumes are
    return StorageHosts()


@pytest.fixture
def volume(hosts: Any, ana: Any) -> str:
    """A volume of 1 GB that begins with DATA."""
    row = creation.create(ana, VolumeAsk(size_gb=1, name="data"))
    with store.path_of(row.uuid).open("r+b") as file:
        file.write(DATA)
    return str(row.uuid)


@pytest.fixture
def image(hosts: Any, ana: Any) -> str:
    return image_of_data(ana)


def image_of_data(ana: Any) -> str:
    row = images.create(ana, {"name": "system", "disk_format": "raw", "container_format": "bare", "os_type": "linux"})
    images.upload(ana, str(row.uuid), [DATA])
    return str(row.uuid)


def begins_with_data(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(DATA)) == DATA


def status_of(uuid: Any) -> str:
    return Volume.objects.get(uuid=uuid).status


def snapshot_of(hosts: StorageHosts, ana: Any, volume: str) -> Snapshot:
    row = volume_snapshots.create(ana, volume, SnapshotCreate(name="before"))
    assert (row.status, Snapshot.objects.get().status) == ("creating", "creating")
    run_to_the_end(hosts)
    return Snapshot.objects.get(uuid=row.uuid)


def begin(flow: Flow, hosts: StorageHosts, ana: Any, volume: str) -> Any:
    """Ask for what the flow does; what is made or changed."""
    if flow is CREATE_VOLUME:
        return creation.create(ana, VolumeAsk(source_volid=volume))
    if flow is CREATE_SNAPSHOT:
        return volume_snapshots.create(ana, volume, SnapshotCreate())
    if flow is UPLOAD_VOLUME:
        return uploads.upload(ana, volume, UploadAsk("gold", "qcow2"))[1]  # raw would be a gigabyte to read
    if flow is REIMAGE_VOLUME:
        reimaging.reimage(ana, volume, image_of_data(ana))
        return Volume.objects.get(uuid=volume)
    if flow is BACKUP_VOLUME:
        return backups.create(ana, BackupAsk(volume, BackupCreate()))
    if flow is RESTORE_BACKUP:
        kept = backups.create(ana, BackupAsk(volume, BackupCreate()))
        run_to_the_end(hosts)
        backups.restore(ana, str(kept.uuid), volume_id=volume, name=None)
        return Volume.objects.get(uuid=volume)
    row = snapshot_of(hosts, ana, volume)
    volume_snapshots.revert(ana, volume, str(row.uuid))
    return Volume.objects.get(uuid=volume)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name} {case[1].name}")
def test_a_step_that_fails_leaves_a_whole_copy_or_an_error_that_is_explained(
    case: tuple[Flow, Step], is_for_ever: bool, hosts: StorageHosts, volume: str, trouble: Any, people: Any
) -> None:
    flow, step = case
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    made = begin(flow, hosts, people.ana.context(), volume)
    run_to_the_end(hosts)
    run = WorkflowRun.objects.get(flow=flow.name)
    is_done = run.state == RunState.DONE
    assert not (is_done and is_for_ever)
    made = type(made).objects.get(pk=made.pk)
    if flow is UPLOAD_VOLUME:
        assert made.status == ("active" if is_done else "deleted")
        assert status_of(volume) == "available"
    else:
        assert made.status == ("available" if is_done else "error_restoring" if flow is RESTORE_BACKUP else "error")
    if flow is BACKUP_VOLUME:
        assert status_of(volume) == "available"
        assert (made.fail_reason is None, backup_store.is_whole(made.data_uuid)) == (is_done, is_done)
    assert VolumeMessage.objects.count() == (0 if is_done else 1)
    assert begins_with_data(store.path_of(volume))  # whatever was copied, it is not the worse for it
    assert not ResourceLock.objects.exists()


def test_a_volume_of_an_image_remembers_it(hosts: StorageHosts, ana: Any, image: str) -> None:
    row = creation.create(ana, VolumeAsk(size_gb=2, image_id=image))
    assert (row.status, row.is_bootable) == ("creating", True)
    with pytest.raises(ResourceLocked):
        volumes.delete(ana, str(row.uuid))
    run_to_the_end(hosts)
    row = Volume.objects.get()
    assert (row.status, row.image_metadata["os_type"], row.image_metadata["image_name"]) == (
        "available",
        "linux",
        "system",
    )
    assert begins_with_data(store.path_of(row.uuid))
    assert store.path_of(row.uuid).stat().st_size == 2 * store.GIB


def test_a_copy_waits_for_the_holder_of_its_source(hosts: StorageHosts, ana: Any, volume: str) -> None:
    first = creation.create(ana, VolumeAsk(source_volid=volume))
    second = creation.create(ana, VolumeAsk(source_volid=volume, size_gb=3))
    with pytest.raises(ResourceLocked):
        volumes.delete(ana, volume)
    run_to_the_end(hosts)
    for row in (first, second):
        assert status_of(row.uuid) == "available"
        assert begins_with_data(store.path_of(row.uuid))
    assert store.path_of(second.uuid).stat().st_size == 3 * store.GIB


def test_a_volume_goes_back_to_its_newest_snapshot(hosts: StorageHosts, ana: Any, volume: str) -> None:
    row = snapshot_of(hosts, ana, volume)
    assert row.status == "available"
    with store.path_of(volume).open("r+b") as file:
        file.write(b"x" * len(DATA))
    volume_snapshots.revert(ana, volume, str(row.uuid))
    assert status_of(volume) == "reverting"
    run_to_the_end(hosts)
    assert status_of(volume) == "available"
    assert begins_with_data(store.path_of(volume))
    volumes.extend(ana, volume, 2)
    with pytest.raises(Invalid, match="as large as its volume"):
        volume_snapshots.revert(ana, volume, str(row.uuid))
    assert status_of(volume) == "available"


def test_a_volume_gets_the_data_of_an_image_and_is_as_free_as_before(
    hosts: StorageHosts, ana: Any, volume: str, image: str
) -> None:
    for before, after in (("available", "available"), ("error", "available"), ("reserved", "reserved")):
        with store.path_of(volume).open("r+b") as file:
            file.write(b"other" * len(DATA))
        Volume.objects.filter(uuid=volume).update(status=before, is_bootable=False, image_metadata={})
        reimaging.reimage(ana, volume, image, may_be_reserved=True)
        assert status_of(volume) == "downloading"
        run_to_the_end(hosts)
        row = Volume.objects.get(uuid=volume)
        assert (row.status, row.is_bootable, row.image_metadata["image_id"]) == (after, True, image)
        assert begins_with_data(store.path_of(volume))
        assert store.path_of(volume).stat().st_size == 1 << 30


def test_volumes_that_cannot_be_reimaged_are_unchanged(hosts: StorageHosts, ana: Any, volume: str, image: str) -> None:
    for status in ("reserved", "in-use"):
        Volume.objects.filter(uuid=volume).update(status=status)
        with pytest.raises(Invalid, match=f"but is {status}"):
            reimaging.reimage(ana, volume, image)
        assert status_of(volume) == status
    Volume.objects.filter(uuid=volume).update(status="available")
    Image.objects.filter(uuid=image).update(min_disk_gb=2)
    with pytest.raises(Invalid, match="needs 2 GB"):
        reimaging.reimage(ana, volume, image)
    Image.objects.filter(uuid=image).update(min_disk_gb=0, status="deactivated")
    with pytest.raises(Invalid, match="not active"):
        reimaging.reimage(ana, volume, image)
    assert (status_of(volume), WorkflowRun.objects.count()) == ("available", 0)


def test_a_volume_with_snapshots_is_deleted_only_with_cascade(hosts: StorageHosts, ana: Any, volume: str) -> None:
    row = snapshot_of(hosts, ana, volume)
    with pytest.raises(Invalid, match="dependent snapshots"):
        volumes.delete(ana, volume)
    assert (status_of(volume), store.snapshot_path_of(row.uuid).exists()) == ("available", True)
    volumes.delete(ana, volume, takes_snapshots=True)
    assert not Volume.objects.exists()
    assert not Snapshot.objects.exists()
    assert not store.snapshot_path_of(row.uuid).exists()
    assert not store.path_of(volume).exists()


@pytest.mark.parametrize("disk_format", ["raw", "qcow2"])
def test_an_image_of_a_volume_has_its_data(disk_format: str, hosts: StorageHosts, ana: Any, volume: str) -> None:
    _, image = uploads.upload(ana, volume, UploadAsk("gold", disk_format))
    assert status_of(volume) == "uploading"
    run_to_the_end(hosts)
    row = Image.objects.get(uuid=image.uuid)
    assert (row.status, row.disk_format, row.visibility, status_of(volume)) == (
        "active", disk_format, "private", "available",
    )  # fmt: skip
    again = creation.create(ana, VolumeAsk(size_gb=1, image_id=str(row.uuid)))
    run_to_the_end(hosts)
    assert begins_with_data(store.path_of(again.uuid))
    assert image_store.path_of(str(row.uuid)).stat().st_blocks * 512 < store.GIB / 100  # holes stay holes


def test_a_type_that_no_storage_serves_ends_in_error_with_a_message(hosts: StorageHosts, ana: Any) -> None:
    wanted = types.create({"name": "fast", "extra_specs": {"storage_protocol": "NVMe-oF"}})
    row = creation.create(ana, VolumeAsk(size_gb=1, type_ref="fast"))
    assert status_of(row.uuid) == "error"
    assert "storage_protocol=NVMe-oF" in VolumeMessage.objects.get(resource_uuid=row.uuid).text
    volumes.delete(ana, str(row.uuid))
    types.delete(ana, str(wanted.uuid))


def test_an_encrypted_type_is_refused(hosts: StorageHosts, ana: Any, admin: Any) -> None:
    wanted = types.create({"name": "secret"})
    types.set_encryption(admin, str(wanted.uuid), {"provider": "luks", "control_location": "front-end"})
    with pytest.raises(Invalid, match="does not offer"):
        creation.create(ana, VolumeAsk(size_gb=1, type_ref="secret"))
    assert not Volume.objects.exists()


def test_snapshots_and_types_count(hosts: StorageHosts, ana: Any, volume: str) -> None:
    volume_quotas.update(ana.project_id, {"snapshots": 1, "gigabytes": 3})
    snapshot_of(hosts, ana, volume)
    with pytest.raises(QuotaExceeded, match="snapshots"):
        volume_snapshots.create(ana, volume, SnapshotCreate())
    with pytest.raises(QuotaExceeded, match="gigabytes"):
        creation.create(ana, VolumeAsk(size_gb=2))
    volume_quotas.update(ana.project_id, {"gigabytes": -1, "volumes_files": 1})
    with pytest.raises(QuotaExceeded, match="volumes_files"):
        creation.create(ana, VolumeAsk(size_gb=1))
    in_use = {view.resource: view.in_use for view in volume_quotas.show(ana.project_id)}
    assert (in_use["gigabytes"], in_use["snapshots"], in_use["volumes_files"]) == (2, 1, 1)
    assert (Volume.objects.count(), Snapshot.objects.count()) == (1, 1)


def test_deletes_that_died_are_finished(hosts: StorageHosts, ana: Any, volume: str) -> None:
    row = snapshot_of(hosts, ana, volume)
    Snapshot.objects.update(status="deleting")
    assert (snapshots.settle_all(), snapshots.settle_all()) == (1, 0)
    assert not store.snapshot_path_of(row.uuid).exists()
    volumes.reset_status(ana, volume, "deleting")  # set by an operator: no action follows
    assert volumes.settle_all() == 0
    assert store.path_of(volume).exists()
