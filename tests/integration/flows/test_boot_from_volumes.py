"""Servers that boot from volumes, with each step failing in turn: each resource is in use, free again, or gone."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.errors import Conflict, Invalid, QuotaExceeded, ResourceLocked
from conductor.core.states import RunState, VmState
from conductor.image import operations as images
from conductor.journal.models import OutboxMessage, ResourceLock, WorkflowRun
from conductor.services.quotas import volume_quotas
from conductor.services.servers import actions, build_retries, instances, rebuilds, server_images, server_volumes
from conductor.services.servers.rebuilds import RebuildRequest
from conductor.services.volumes import volumes
from conductor.services.volumes.types import DeviceRequest
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume import store
from conductor.volume.models import Volume, VolumeAttachment
from conductor.workflows.flow import Step
from conductor.workflows.flows.build_from_volumes import BUILD_FROM_VOLUMES
from conductor.workflows.flows.rebuild import REBUILD_ROOT_VOLUME
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
from tests.fleet import silence
from tests.integration.flows.moving import CELL, OFF, RUNNING, instance_of, report_checks, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, taken, times_of

__all__ = ["hosts", "image", "system"]


@pytest.fixture
def volumes_wanted(system: str, image: str) -> tuple[str, str]:
    """The root volume, and the image of another to be made."""
    return system, image


def of_volume(volume: str, **values: Any) -> DeviceRequest:
    return DeviceRequest(**{"source": "volume", "destination": "volume", "uuid": volume, "boot_index": 0} | values)


def other_image(ana: Any, data: bytes = b"another system" * 999) -> str:
    row = images.create(ana, {"name": "other", "disk_format": "raw", "container_format": "bare", "os_distro": "x"})
    images.upload(ana, str(row.uuid), [data])
    return str(row.uuid)


def files() -> set[str]:
    return {path.name for path in store.path_of("x").parent.glob("*")}


def test_a_server_boots_from_a_new_volume_of_an_image(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image), BLANK, image_ref=image)
    root, blank = BlockDevice.objects.using(CELL).order_by("device_name")
    assert (root.device_name, root.boot_index, blank.device_name) == ("/dev/vda", 0, "/dev/vdb")
    assert (blank.tag, blank.delete_on_termination, root.delete_on_termination) == ("scratch", True, False)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert statuses() == {str(root.volume_uuid): "in-use", str(blank.volume_uuid): "in-use"}
    volume = Volume.objects.get(uuid=root.volume_uuid)
    assert (volume.is_bootable, volume.image_metadata["hw_video_model"]) == (True, "virtio")
    assert store.path_of(volume.uuid).stat().st_size == store.GIB
    assert first_bytes(str(volume.uuid), len(DATA)) == DATA
    assert instance_of(uuid).image["image_id"] == ""
    assert hosts.spawned_from[uuid] == ""
    assert hosts.plugged[uuid] == {str(root.volume_uuid), str(blank.volume_uuid)}
    assert {str(row.host) for row in VolumeAttachment.objects.all()} == {instance_of(uuid).host}
    assert_nothing_under_way(uuid)


def test_a_delete_detaches_volumes_or_deletes_them(hosts: StorageHosts, ana: Any, image: str, system: str) -> None:
    uuid = launched(hosts, ana, of_volume(system), BLANK)
    assert len(statuses()) == 2
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert statuses() == {system: "available"}
    assert files() == {f"{system}.raw"}


def test_the_root_disk_of_a_volume_takes_no_room_on_the_host(hosts: StorageHosts, ana: Any, system: str) -> None:
    (uuid,) = instances.create(ana, requested(of_volume(system))).instance_uuids
    run = WorkflowRun.objects.get(flow="build_instances")
    assert run.inputs["spec"]["is_volume_backed"] is True
    assert {f"instance:{uuid}", f"volume:{system}"} <= set(run.resources)
    with pytest.raises(ResourceLocked, match=str(run.uuid)):
        volumes.delete(ana, system)
    run_to_the_end(hosts)
    assert not ResourceLock.objects.exists()


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", BUILD_FROM_VOLUMES.steps, ids=lambda step: step.name)
def test_a_build_that_fails_gives_the_volumes_back(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, volumes_wanted: Any, trouble: Any
) -> None:
    before, (system, image) = taken(), volumes_wanted
    report_checks()
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    uuid = launched(hosts, ana, of_volume(system), of_image(image, boot_index=1))
    run = run_of(uuid, "build_from_volumes")
    if run.state == RunState.DONE:
        assert not is_for_ever
        assert set(statuses().values()) == {"in-use"}
        assert len(hosts.plugged[uuid]) == BlockDevice.objects.using(CELL).count() == 2
    else:
        assert run.state == RunState.FAILED_UNDONE
        assert statuses() == {system: "available"}
        assert files() == {f"{system}.raw"}
        assert not BlockDevice.objects.using(CELL).exists()
        assert not VolumeAttachment.objects.exists()
        assert taken() == before
        assert instance_of(uuid).vm_state == VmState.ERROR
    assert_nothing_under_way(uuid)


def test_an_alternate_gets_the_same_volumes_without_another_copy(
    hosts: StorageHosts, ana: Any, image: str, monkeypatch: Any
) -> None:
    copies: list[Any] = []
    copy = store._copy
    monkeypatch.setattr(store, "_copy", lambda *words: copies.append(words) or copy(*words))
    failed: list[str] = []

    def once(message: str, host: str) -> str | None:
        if message == "spawn_instance" and not failed:
            failed.append(host)
            return "DriverError"
        return None

    hosts.fails = once
    uuid = launched(hosts, ana, of_image(image))
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert instance_of(uuid).host not in failed
    assert len(copies) == 1
    assert set(statuses().values()) == {"in-use"}


def test_an_unresponsive_host_keeps_the_volumes_until_it_has_detached_them(
    hosts: StorageHosts, ana: Any, system: str
) -> None:
    (uuid,) = instances.create(ana, requested(of_volume(system))).instance_uuids
    hosts.mute = {"sim-1", "sim-2", "sim-3"}
    for _ in range(20):
        step_on(hosts)
    for host in hosts.mute:
        silence(host)
    WorkflowRun.objects.using(CELL).filter(flow="build_from_volumes").update(wake_at="2026-01-01T00:00:00Z")
    run_to_the_end(hosts)
    assert run_of(uuid, "build_from_volumes").state == RunState.FAILED_UNDONE
    assert statuses() == {system: "detaching"}
    assert OutboxMessage.objects.using(CELL).get(is_deferred=True).body["message"] == "destroy_instance"
    assert BlockDevice.objects.using(CELL).get().instance_uuid == instance_of(uuid).uuid
    instances.delete(ana, uuid)
    hosts.mute, hosts.fails = set(), lambda message, _: "DriverError"
    run_to_the_end(hosts)
    server_volumes.release_of_gone()
    assert statuses() == {system: "detaching"}  # the host is back, and cannot let the guest go
    hosts.fails = lambda message, _: None
    hosts.answer(CELL, OutboxMessage.objects.using(CELL).get())
    server_volumes.release_of_gone()
    assert statuses() == {system: "available"}
    assert not BlockDevice.objects.using(CELL).exists()


def test_a_request_without_a_host_releases_its_volumes(hosts: StorageHosts, ana: Any, image: str, system: str) -> None:
    (uuid,) = instances.create(ana, requested(of_volume(system), BLANK, availability_zone="nova")).instance_uuids
    for host in ("sim-1", "sim-2", "sim-3"):
        silence(host)
    run_to_the_end(hosts)
    assert Instance.objects.using("cell0").get().vm_state == VmState.ERROR
    volumes.settle_all()
    assert statuses() == {system: "available"}
    assert files() == {f"{system}.raw"}
    with pytest.raises(Conflict, match="boot from volumes"):
        build_retries.try_again(ana, uuid)


def test_a_delete_before_scheduling_releases_the_volumes(hosts: StorageHosts, ana: Any, system: str) -> None:
    (uuid,) = instances.create(ana, requested(of_volume(system), BLANK)).instance_uuids
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    volumes.settle_all()
    assert statuses() == {system: "available"}
    assert not VolumeAttachment.objects.exists()


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        ([of_volume("{system}", boot_index=1)], "Boot sequence"),
        ([of_volume("{system}", boot_index=None)], "Boot sequence"),
        ([of_volume("{system}"), of_image("{image}")], "Boot sequence"),
        ([of_volume("{system}"), of_volume("{system}", boot_index=None)], "named twice"),
        ([of_volume("0b1f9d3c-93f8-4a57-9b5c-6f4a1bb6b6f0")], "failed to get volume 0b1f9d3c"),
        ([of_image("0b1f9d3c-93f8-4a57-9b5c-6f4a1bb6b6f0")], "failed to get image 0b1f9d3c"),
        ([of_image("{image}", size_gb=None)], "need to have a non-zero size"),
        ([of_volume("{plain}")], "is not bootable"),
        ([of_volume("{system}"), DeviceRequest("blank", "volume")], "need to have non-zero size"),
        ([DeviceRequest("volume", "local", uuid="{system}", boot_index=0)], "Mapping volume to local"),
        ([of_volume("{system}"), DeviceRequest("blank", "local", size_gb=1, is_swap=True)], "Swap drive"),
        ([of_volume("{system}"), DeviceRequest("blank", "local", size_gb=1)], "Ephemeral disks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_block_devices_are_refused_and_nothing_is_reserved(
    devices: list[DeviceRequest], says: str, hosts: StorageHosts, ana: Any, image: str, system: str
) -> None:
    plain = str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    known = {"{system}": system, "{image}": image, "{plain}": plain}
    named = [
        DeviceRequest(**{**{f: getattr(d, f) for f in d.__slots__}, "uuid": known.get(d.uuid, d.uuid)}) for d in devices
    ]
    with pytest.raises(Invalid, match=says):
        instances.create(ana, requested(*named))
    assert set(statuses().values()) == {"available"}
    assert not BuildRequest.objects.exists()
    assert not VolumeAttachment.objects.exists()


def test_volumes_of_others_and_in_use_are_refused(hosts: StorageHosts, ana: Any, people: Any, system: str) -> None:
    chi = people.chi.context()
    with pytest.raises(Invalid, match="failed to get volume"):
        instances.create(chi, requested(of_volume(system)))
    launched(hosts, ana, of_volume(system))
    with pytest.raises(Invalid, match="must be 'available'"):
        instances.create(ana, requested(of_volume(system)))
    free = str(volumes.create(ana, VolumeCreate(size_gb=1, is_bootable=True)).uuid)
    with pytest.raises(Invalid, match="multiple instances"):
        instances.create(ana, requested(of_volume(free), max_count=2))


def test_the_quota_counts_volumes_that_are_to_be_made(hosts: StorageHosts, ana: Any, image: str) -> None:
    volume_quotas.update(ana.project_id, {"gigabytes": 3})
    with pytest.raises(QuotaExceeded, match="gigabytes"):
        instances.create(ana, requested(of_image(image), BLANK))
    assert not Volume.objects.exists()
    assert not BuildRequest.objects.exists()


def test_an_image_whose_data_are_gone_fails_the_build_and_says_so(
    hosts: StorageHosts, ana: Any, image: str, settings: Any
) -> None:
    shutil.rmtree(settings.NOVELLA_IMAGE_DIR)
    uuid = launched(hosts, ana, of_image(image))
    run = run_of(uuid, "build_from_volumes")
    assert (run.state, run.error["class"]) == (RunState.FAILED_UNDONE, "NotFound")
    assert statuses() == {}


def test_a_rebuild_gives_the_root_volume_the_data_of_the_image(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image), BLANK)
    root = str(BlockDevice.objects.using(CELL).get(boot_index=0).volume_uuid)
    other = other_image(ana)
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=other, values={"name": "new"}))
    run_to_the_end(hosts)
    assert run_of(uuid, "rebuild_root_volume").state == RunState.DONE
    row = instance_of(uuid)
    assert (row.vm_state, row.name, row.image["image_id"], row.image["name"]) == (VmState.ACTIVE, "new", "", "other")
    assert first_bytes(root, 28) == b"another systemanother system"
    assert store.path_of(root).stat().st_size == store.GIB
    assert Volume.objects.get(uuid=root).image_metadata["image_id"] == other
    assert len(hosts.plugged[uuid]) == 2
    assert len(files()) == 2
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("was", [VmState.ERROR, VmState.STOPPED])
def test_a_rebuild_builds_a_guest_that_its_host_has_lost(
    was: VmState, hosts: StorageHosts, ana: Any, image: str
) -> None:
    uuid = launched(hosts, ana, of_image(image), BLANK)
    root = str(BlockDevice.objects.using(CELL).get(boot_index=0).volume_uuid)
    Instance.objects.using(CELL).update(vm_state=was)
    hosts.guests.clear()
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=other_image(ana)))
    run_to_the_end(hosts)
    assert run_of(uuid, "rebuild_root_volume").state == RunState.DONE
    is_off = was == VmState.STOPPED
    assert instance_of(uuid).vm_state == (VmState.STOPPED if is_off else VmState.ACTIVE)
    assert hosts.has(uuid) == {instance_of(uuid).host: OFF if is_off else RUNNING}
    assert first_bytes(root, 28) == b"another systemanother system"
    assert len(hosts.plugged[uuid]) == 2
    assert_nothing_under_way(uuid)


def test_a_failed_rebuild_of_a_lost_guest_is_rolled_back_completely(
    hosts: StorageHosts, ana: Any, image: str, trouble: Any
) -> None:
    uuid = launched(hosts, ana, of_image(image))
    Instance.objects.using(CELL).update(vm_state=VmState.ERROR)
    hosts.guests.clear()
    (refill,) = (step for step in REBUILD_ROOT_VOLUME.steps if step.name == "RefillRootVolume")
    trouble.strike(refill, part_of(refill), times=3)  # as often as it is tried
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=other_image(ana)))
    run_to_the_end(hosts)
    run = run_of(uuid, "rebuild_root_volume")
    assert (run.state, run.uncompensated, instance_of(uuid).vm_state) == (RunState.FAILED_UNDONE, [], VmState.ERROR)
    assert hosts.has(uuid) == {}
    assert_nothing_under_way(uuid)
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=image))
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, hosts.has(uuid)) == (VmState.ACTIVE, {instance_of(uuid).host: RUNNING})


# Trouble strikes a class, and two of the steps are of the same.
REBUILD_STEPS = [step for step in REBUILD_ROOT_VOLUME.steps if step.name != "RebuildGuest"]


@pytest.mark.parametrize("step", REBUILD_STEPS, ids=lambda step: step.name)
def test_a_rebuild_that_fails_leaves_the_old_data_or_says_that_the_server_is_broken(
    step: Step, hosts: StorageHosts, ana: Any, image: str, trouble: Any
) -> None:
    uuid = launched(hosts, ana, of_image(image))
    root = str(BlockDevice.objects.using(CELL).get(boot_index=0).volume_uuid)
    trouble.strike(step, part_of(step), times=times_of(step))
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=other_image(ana)))
    run_to_the_end(hosts)
    is_lost = step.name in ("RefillRootVolume", "SetRebuilt")
    assert instance_of(uuid).vm_state == (VmState.ERROR if is_lost else VmState.ACTIVE)
    if not is_lost:
        assert first_bytes(root, len(DATA)) == DATA
    assert set(statuses().values()) == {"in-use"}
    assert_nothing_under_way(uuid)


def test_an_older_rebuild_keeps_the_data_and_takes_no_other_image(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image))
    root = str(BlockDevice.objects.using(CELL).get(boot_index=0).volume_uuid)
    with pytest.raises(Invalid, match="different image"):
        rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=other_image(ana), may_refill=False))
    assert_nothing_under_way(uuid)
    with store.path_of(root).open("r+b") as file:
        file.write(b"written since")
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=image, may_refill=False))
    run_to_the_end(hosts)
    assert run_of(uuid, "rebuild_root_volume").state == RunState.DONE
    assert first_bytes(root, 13) == b"written since"


def test_an_image_that_the_root_volume_cannot_hold_is_refused(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image))
    large = images.create(ana, {"name": "l", "disk_format": "raw", "container_format": "bare", "min_disk": 2})
    images.upload(ana, str(large.uuid), [DATA])
    with pytest.raises(Invalid, match="has 1 GB"):
        rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(large.uuid)))
    assert_nothing_under_way(uuid)


def test_a_rescue_boots_another_disk_and_goes_back(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image), BLANK)
    with pytest.raises(Invalid, match="volume-backed"):
        rebuilds.rescue(ana, uuid, may_have_root_volume=False)
    rebuilds.rescue(ana, uuid)
    run_to_the_end(hosts)
    reported = hosts.rescued[uuid]
    assert reported["image"]["image_id"] == image
    assert {(volume["boot_index"], volume["device_name"]) for volume in reported["volumes"]} == {
        (-1, ""),
        (-1, "/dev/vdb"),
    }
    assert instance_of(uuid).vm_state == VmState.RESCUED
    actions.begin(ana, uuid, "unrescue")
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert_nothing_under_way(uuid)


def test_a_rescue_needs_an_image_where_the_volume_was_made_of_none(hosts: StorageHosts, ana: Any, system: str) -> None:
    uuid = launched(hosts, ana, of_volume(system))
    with pytest.raises(Invalid, match="Name an image"):
        rebuilds.rescue(ana, uuid)
    assert_nothing_under_way(uuid)


def test_shelved_it_keeps_its_volume_and_comes_back_with_it(hosts: StorageHosts, ana: Any, image: str) -> None:
    uuid = launched(hosts, ana, of_image(image))
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, instance_of(uuid).host) == (VmState.SHELVED_OFFLOADED, None)
    assert not hosts.has(uuid)
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, hosts.spawned_from[uuid]) == (VmState.ACTIVE, "")
    assert len(hosts.plugged[uuid]) == 1
    assert_nothing_under_way(uuid)
