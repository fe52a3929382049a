"""Servers that boot from volumes, with each step failing in turn: what was taken is in use, free again, or gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.errors import Conflict, Invalid, QuotaExceeded, ResourceLocked
from conductor.core.states import RunState, VmState
from conductor.image import operations as images
from conductor.journal.models import OutboxMessage, ResourceLock, WorkflowRun
from conductor.services import instances, second_tries, volumes
from conductor.services.values import BuildWish, DeviceWish
from conductor.services.volumes import VolumeWish
from conductor.volume import store
from conductor.volume.models import Volume, VolumeAttachment
from conductor.workflows.build_from_volumes import BUILD_FROM_VOLUMES
from conductor.workflows.flow import Step
from tests.fleet import silence
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, taken, times_of

DATA = b"the first bytes of a system" * 1000


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path  # where volumes are
    return StorageHosts()


@pytest.fixture
def image(hosts: Any, ana: Any) -> str:
    wanted = {"name": "system", "disk_format": "raw", "container_format": "bare", "hw_video_model": "virtio"}
    row = images.create(ana, wanted)
    images.upload(ana, str(row.uuid), [DATA])
    return str(row.uuid)


@pytest.fixture
def system(ana: Any, image: str) -> str:
    """A volume that is free and can be booted from."""
    row = volumes.create(ana, VolumeWish(size_gb=2, name="system", is_bootable=True, image_metadata={"min_ram": "64"}))
    return str(row.uuid)


@pytest.fixture
def volumes_wanted(system: str, image: str) -> tuple[str, str]:
    """The root volume, and the image of another to be made."""
    return system, image


def wish(*devices: DeviceWish, image_ref: str = "", **values: Any) -> BuildWish:
    return BuildWish(name="web-1", flavor_ref="1", image_ref=image_ref, devices=devices, **values)


def of_image(image: str, **values: Any) -> DeviceWish:
    return DeviceWish(
        **{"source": "image", "destination": "volume", "uuid": image, "size_gb": 1, "boot_index": 0} | values
    )


def of_volume(volume: str, **values: Any) -> DeviceWish:
    return DeviceWish(**{"source": "volume", "destination": "volume", "uuid": volume, "boot_index": 0} | values)


BLANK = DeviceWish(source="blank", destination="volume", size_gb=3, delete_on_termination=True, tag="scratch")


def launched(hosts: StorageHosts, ana: Any, *devices: DeviceWish, **values: Any) -> str:
    (uuid,) = instances.create(ana, wish(*devices, **values)).instance_uuids
    run_to_the_end(hosts)
    return uuid


def statuses() -> dict[str, str]:
    return {str(uuid): status for uuid, status in Volume.objects.values_list("uuid", "status")}


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
    path = store.path_of(volume.uuid)
    assert path.stat().st_size == store.GIB
    assert path.read_bytes()[: len(DATA)] == DATA
    assert instance_of(uuid).image["image_id"] == ""
    assert hosts.spawned_from[uuid] == ""
    assert hosts.plugged[uuid] == {str(root.volume_uuid), str(blank.volume_uuid)}
    assert {str(row.host) for row in VolumeAttachment.objects.all()} == {instance_of(uuid).host}
    assert_nothing_under_way(uuid)


def test_the_delete_frees_or_takes_along(hosts: StorageHosts, ana: Any, image: str, system: str) -> None:
    uuid = launched(hosts, ana, of_volume(system), BLANK)
    assert len(statuses()) == 2
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert statuses() == {system: "available"}
    assert files() == {f"{system}.raw"}


def test_the_root_disk_of_a_volume_takes_no_room_on_the_host(hosts: StorageHosts, ana: Any, system: str) -> None:
    (uuid,) = instances.create(ana, wish(of_volume(system))).instance_uuids
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


def test_a_silent_host_keeps_the_volumes_until_it_has_let_go(hosts: StorageHosts, ana: Any, system: str) -> None:
    (uuid,) = instances.create(ana, wish(of_volume(system))).instance_uuids
    hosts.mute = {"sim-1", "sim-2", "sim-3"}
    for _ in range(20):
        step_on(hosts)
    for host in hosts.mute:
        silence(host)
    WorkflowRun.objects.using(CELL).filter(flow="build_from_volumes").update(wake_at="2026-01-01T00:00:00Z")
    run_to_the_end(hosts)
    assert run_of(uuid, "build_from_volumes").state == RunState.FAILED_UNDONE
    assert statuses() == {system: "detaching"}
    assert OutboxMessage.objects.using(CELL).get(is_owed=True).body["message"] == "destroy_instance"
    assert BlockDevice.objects.using(CELL).get().instance_uuid == instance_of(uuid).uuid
    OutboxMessage.objects.using(CELL).all().delete()  # the hosts are back, and have let the guest go
    instances.delete(ana, uuid)
    hosts.mute = set()
    run_to_the_end(hosts)
    assert statuses() == {system: "available"}
    assert not BlockDevice.objects.using(CELL).exists()


def test_a_request_that_finds_no_host_gives_them_back(hosts: StorageHosts, ana: Any, image: str, system: str) -> None:
    (uuid,) = instances.create(ana, wish(of_volume(system), BLANK, availability_zone="nova")).instance_uuids
    for host in ("sim-1", "sim-2", "sim-3"):
        silence(host)
    run_to_the_end(hosts)
    assert Instance.objects.using("cell0").get().vm_state == VmState.ERROR
    volumes.settle_all()
    assert statuses() == {system: "available"}
    assert files() == {f"{system}.raw"}
    with pytest.raises(Conflict, match="boot from volumes"):
        second_tries.try_again(ana, uuid)


def test_a_delete_before_there_is_a_host_gives_them_back(hosts: StorageHosts, ana: Any, system: str) -> None:
    (uuid,) = instances.create(ana, wish(of_volume(system), BLANK)).instance_uuids
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
        ([of_volume("{system}"), DeviceWish("blank", "volume")], "need to have non-zero size"),
        ([DeviceWish("volume", "local", uuid="{system}", boot_index=0)], "Mapping volume to local"),
        ([of_volume("{system}"), DeviceWish("blank", "local", size_gb=1, is_swap=True)], "Swap drive"),
        ([of_volume("{system}"), DeviceWish("blank", "local", size_gb=1)], "Ephemeral disks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_devices_that_cannot_be_are_refused_and_nothing_is_taken(
    devices: list[DeviceWish], says: str, hosts: StorageHosts, ana: Any, image: str, system: str
) -> None:
    plain = str(volumes.create(ana, VolumeWish(size_gb=1)).uuid)
    known = {"{system}": system, "{image}": image, "{plain}": plain}
    named = [
        DeviceWish(**{**{f: getattr(d, f) for f in d.__slots__}, "uuid": known.get(d.uuid, d.uuid)}) for d in devices
    ]
    with pytest.raises(Invalid, match=says):
        instances.create(ana, wish(*named))
    assert set(statuses().values()) == {"available"}
    assert not BuildRequest.objects.exists()
    assert not VolumeAttachment.objects.exists()


def test_volumes_of_others_and_in_use_are_refused(hosts: StorageHosts, ana: Any, people: Any, system: str) -> None:
    chi = people.chi.context()
    with pytest.raises(Invalid, match="failed to get volume"):
        instances.create(chi, wish(of_volume(system)))
    launched(hosts, ana, of_volume(system))
    with pytest.raises(Invalid, match="must be 'available'"):
        instances.create(ana, wish(of_volume(system)))
    free = str(volumes.create(ana, VolumeWish(size_gb=1, is_bootable=True)).uuid)
    with pytest.raises(Invalid, match="multiple instances"):
        instances.create(ana, wish(of_volume(free), max_count=2))


def test_the_quota_counts_volumes_that_are_to_be_made(hosts: StorageHosts, ana: Any, image: str) -> None:
    volumes.update_quotas(ana.project_id, {"gigabytes": 3})
    with pytest.raises(QuotaExceeded, match="gigabytes"):
        instances.create(ana, wish(of_image(image), BLANK))
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
