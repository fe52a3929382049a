"""Volumes that servers share, and images that list snapshots of a server's volumes."""

# Fixtures are known by their names here and where they are used.

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import BlockDevice
from conductor.core.errors import Invalid, NotFound
from conductor.core.states import VmState
from conductor.image import operations as images
from conductor.image.models import Image
from conductor.services.server_migrations import resizes
from conductor.services.servers import actions, instances, server_images, server_volumes
from conductor.services.servers.server_images import ServerImageCreate
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.volumes import creation, snapshots, volumes
from conductor.services.volumes.creation import VolumeAsk
from conductor.services.volumes.types import DeviceRequest
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume import types
from conductor.volume.models import Snapshot, Volume, VolumeAttachment
from conductor.volume.snapshots import SnapshotCreate
from tests.fixtures.boot_volumes import (
    BLANK,
    DATA,
    first_bytes,
    hosts,
    image,
    launched,
    of_image,
    requested,
    statuses,
    system,
)
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way

__all__ = ["hosts", "image", "system"]


def test_a_volume_that_can_be_shared_is_attached_to_two_servers(
    hosts: StorageHosts, ana: Any, image: str, system: str
) -> None:
    Volume.objects.filter(uuid=system).update(is_multiattach=True)
    first, second = (launched(hosts, ana, of_image(image)) for _ in range(2))
    for uuid in (first, second):
        with pytest.raises(Invalid, match=r"2\.60"):
            server_volumes.attach(ana, uuid, AttachmentCreate(system, may_share=False))
        server_volumes.attach(ana, uuid, AttachmentCreate(system))
        run_to_the_end(hosts)
    assert VolumeAttachment.objects.filter(volume__uuid=system, status="in-use").count() == 2
    server_volumes.detach(ana, first, system)
    actions.begin(ana, second, "stop")  # neither waits for the other
    run_to_the_end(hosts)
    assert statuses()[system] == "in-use"
    server_volumes.detach(ana, second, system)
    run_to_the_end(hosts)
    assert statuses()[system] == "available"
    assert_nothing_under_way(second)


def test_a_shared_volume_survives_a_resize_and_is_let_go_one_by_one(
    hosts: StorageHosts, ana: Any, image: str, system: str
) -> None:
    Volume.objects.filter(uuid=system).update(is_multiattach=True)
    first, second = (launched(hosts, ana, of_image(image)) for _ in range(2))
    for uuid in (first, second):
        server_volumes.attach(ana, uuid, AttachmentCreate(system))
        run_to_the_end(hosts)
    devices = BlockDevice.objects.using(CELL).filter(volume_uuid=system)
    assert [device.connection["is_shared"] for device in devices] == [True, True]
    resizes.resize(ana, first, "2")
    run_to_the_end(hosts)
    resizes.confirm(ana, first)
    run_to_the_end(hosts)
    assert (instance_of(first).vm_state, instance_of(first).flavor["flavor_id"]) == (VmState.ACTIVE, "2")
    for uuid, left in ((first, {second}), (second, set())):
        assert system in {one.volume_id for one in server_volumes.list_attachments(ana, uuid)}
        server_volumes.detach(ana, uuid, system)
        run_to_the_end(hosts)
        rows = VolumeAttachment.objects.filter(volume__uuid=system)
        assert {str(row.instance_uuid) for row in rows} == left
        assert statuses()[system] == ("in-use" if left else "available")


def test_an_image_of_a_root_volume_is_a_list_of_snapshots_that_boots(hosts: StorageHosts, ana: Any, image: str) -> None:
    first = launched(hosts, ana, of_image(image), BLANK)
    made = server_images.create_image(ana, first, ServerImageCreate("kept", {"a": "b"}))
    row = images.get_visible(ana, made.image_id)
    assert (row.status, row.properties["a"], row.properties["instance_uuid"]) == ("queued", "b", first)
    run_to_the_end(hosts)
    row = images.get_visible(ana, made.image_id)
    assert (row.status, row.size) == ("active", 0)
    assert set(Snapshot.objects.values_list("name", "status")) == {("snapshot for kept", "available")}
    second = launched(hosts, ana, image_ref=made.image_id)
    devices = BlockDevice.objects.using(CELL).filter(instance_uuid=second)
    root = devices.get(boot_index=0)
    assert {device.tag for device in devices} == {None, "scratch"}
    assert first_bytes(str(root.volume_uuid), len(DATA)) == DATA
    assert (instance_of(second).vm_state, instance_of(second).image["image_id"]) == (VmState.ACTIVE, "")
    assert_nothing_under_way(first)


@pytest.mark.parametrize("listed", ["x", "[" * 5000], ids=["no JSON", "too deep"])
def test_devices_of_an_image_that_cannot_be_read_are_refused(
    hosts: StorageHosts, ana: Any, image: str, listed: str
) -> None:
    odd = images.create(
        ana, {"name": "o", "disk_format": "raw", "container_format": "bare", "block_device_mapping": listed}
    )
    Image.objects.filter(uuid=odd.uuid).update(status="active")
    with pytest.raises(Invalid, match="cannot be read"):
        instances.create(ana, requested(image_ref=str(odd.uuid)))


def snapshot_of(hosts: StorageHosts, ana: Any, volume: str) -> str:
    row = snapshots.create(ana, volume, SnapshotCreate(name="kept"), may_be_in_use=True)
    run_to_the_end(hosts)
    return str(row.uuid)


def test_a_server_boots_from_a_snapshot(hosts: StorageHosts, ana: Any, image: str) -> None:
    launched(hosts, ana, of_image(image))
    snapshot = snapshot_of(hosts, ana, str(BlockDevice.objects.using(CELL).get().volume_uuid))
    second = launched(hosts, ana, DeviceRequest("snapshot", "volume", uuid=snapshot, boot_index=0))
    root = BlockDevice.objects.using(CELL).get(instance_uuid=second)
    volume = Volume.objects.get(uuid=root.volume_uuid)
    assert (volume.size_gb, volume.is_bootable, volume.image_metadata["image_id"]) == (1, True, image)
    assert first_bytes(str(root.volume_uuid), len(DATA)) == DATA
    assert instance_of(second).vm_state == VmState.ACTIVE
    assert_nothing_under_way(second)


@pytest.mark.parametrize(("size_gb", "says"), [(1, "needs 2 GB"), (None, "not bootable")])
def test_a_snapshot_that_cannot_be_booted_is_refused(
    size_gb: int | None, says: str, hosts: StorageHosts, ana: Any
) -> None:
    plain = str(volumes.create(ana, VolumeCreate(size_gb=2)).uuid)
    snapshot = snapshot_of(hosts, ana, plain)
    with pytest.raises(Invalid, match=says):
        instances.create(
            ana, requested(DeviceRequest("snapshot", "volume", uuid=snapshot, size_gb=size_gb, boot_index=0))
        )
    assert not BuildRequest.objects.exists()


def test_volumes_are_made_of_the_type_that_was_requested(hosts: StorageHosts, ana: Any, image: str) -> None:
    types.create({"name": "shared", "extra_specs": {"multiattach": "<is> True"}})
    with pytest.raises(Invalid, match="Volume type fast"):
        instances.create(ana, requested(of_image(image, volume_type="fast")))
    launched(hosts, ana, of_image(image, volume_type="shared"))
    volume = Volume.objects.get()
    assert (volume.volume_type is not None and volume.volume_type.name, volume.is_multiattach) == ("shared", True)


def test_no_backup_is_made_of_a_root_volume(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image))
    with pytest.raises(Invalid, match="not supported for volume-backed"):
        server_images.create_backup(ana, uuid, ServerImageCreate("daily"), backup_type="daily", rotation=1)
    assert_nothing_under_way(uuid)


def test_a_volume_is_made_of_the_snapshot_that_an_image_without_data_lists(
    hosts: StorageHosts, ana: Any, image: str
) -> None:
    """As a volume by itself, and as a root disk that names the image as its source."""
    first = launched(hosts, ana, of_image(image))
    made = server_images.create_image(ana, first, ServerImageCreate("kept"))
    run_to_the_end(hosts)
    volume = creation.create(ana, VolumeAsk(image_id=made.image_id))
    second = launched(hosts, ana, of_image(made.image_id, size_gb=2))
    root = BlockDevice.objects.using(CELL).get(instance_uuid=second).volume_uuid
    for uuid, size_gb in ((volume.uuid, 1), (root, 2)):
        row = Volume.objects.get(uuid=uuid)
        assert (row.size_gb, row.source_kind, row.is_bootable) == (size_gb, "snapshot", True)
        assert row.image_metadata["image_id"] == image
        assert first_bytes(str(uuid), len(DATA)) == DATA
    assert (Volume.objects.get(uuid=volume.uuid).status, instance_of(second).vm_state) == ("available", VmState.ACTIVE)


def test_an_image_that_its_owner_described_is_refused_once_the_snapshot_is_gone(
    hosts: StorageHosts, ana: Any, image: str
) -> None:
    first = launched(hosts, ana, of_image(image))
    snapshot = snapshot_of(hosts, ana, str(BlockDevice.objects.using(CELL).get(instance_uuid=first).volume_uuid))
    device = {"source_type": "snapshot", "destination_type": "volume", "snapshot_id": snapshot, "boot_index": 0}
    properties = {"block_device_mapping": json.dumps([device])}
    described = str(
        images.create(ana, {"name": "o", "disk_format": "raw", "container_format": "bare", **properties}).uuid
    )
    Image.objects.filter(uuid=described).update(status="active")
    snapshots.delete(ana, snapshot)
    before = statuses()
    with pytest.raises(NotFound, match=f"boot volume snapshot id:{snapshot} not found"):
        creation.create(ana, VolumeAsk(image_id=described, size_gb=1))
    for query in (requested(image_ref=described), requested(of_image(described))):
        with pytest.raises(Invalid, match=f"failed to get snapshot {snapshot}"):
            instances.create(ana, query)
    assert statuses() == before


@pytest.mark.parametrize("kind", ["server", "volume"])
def test_a_snapshot_that_is_deleted_at_the_same_moment_makes_no_volume_in_error(
    kind: str, hosts: StorageHosts, ana: Any, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(hosts, ana, of_image(image))
    snapshot = snapshot_of(hosts, ana, str(BlockDevice.objects.using(CELL).get().volume_uuid))
    checks = {"server": (instances.quotas, "check_launch"), "volume": (creation.volumes, "check_metadata")}
    place, name = checks[kind]
    original = getattr(place, name)

    def deleting(*words: Any, **more: Any) -> Any:
        Snapshot.objects.filter(uuid=snapshot).update(status="deleting")
        return original(*words, **more)

    monkeypatch.setattr(place, name, deleting)
    before = statuses()
    query: dict[str, Callable[[], Any]] = {
        "server": lambda: instances.create(
            ana, requested(DeviceRequest("snapshot", "volume", uuid=snapshot, boot_index=0))
        ),
        "volume": lambda: creation.create(ana, VolumeAsk(snapshot_id=snapshot)),
    }
    with pytest.raises(Invalid, match="has just been deleted"):
        query[kind]()
    assert (statuses(), BuildRequest.objects.count()) == (before, 0)
