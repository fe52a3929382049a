"""Swap of volumes, with each step failing in turn: the server has one of the two, and the other is available."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.errors import Conflict, Invalid, NotFound, NotSupported, ResourceLocked
from conductor.core.states import RunState, VmState
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.servers import actions, instances, server_volumes
from conductor.services.servers import server_volumes as volume_swaps
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume import store
from conductor.volume.models import Volume, VolumeAttachment
from conductor.workflows.flow import Step
from conductor.workflows.flows.attachments import SWAP_VOLUME
from tests.fleet import silence
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, times_of


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path
    return StorageHosts()


@pytest.fixture
def admin(people: Any) -> Any:
    return people.admin.context()


@pytest.fixture
def server(hosts: StorageHosts, ana: Any, launch: Any) -> tuple[str, str, str]:
    """A server with a volume that goes with it, and a volume that is larger."""
    uuid = launch()
    old, new = (str(volumes.create(ana, VolumeCreate(size_gb=size)).uuid) for size in (1, 2))
    server_volumes.attach(ana, uuid, AttachmentCreate(old, tag="data", delete_on_termination=True))
    run_to_the_end(hosts)
    return uuid, old, new


def statuses(*uuids: str) -> list[str]:
    return [Volume.objects.get(uuid=uuid).status for uuid in uuids]


def assert_has(hosts: StorageHosts, uuid: str, volume: str, other: str) -> None:
    """Check that all records agree: the server has `volume` at its old place, and no server has the other."""
    device = BlockDevice.objects.using(CELL).get(instance_uuid=uuid)
    lent = VolumeAttachment.objects.get()
    assert (str(device.volume_uuid), device.device_name, device.tag) == (volume, "/dev/vdb", "data")
    assert (device.delete_on_termination, device.boot_index) == (True, -1)
    assert (lent.uuid, str(lent.volume.uuid), lent.device) == (device.uuid, volume, "/dev/vdb")
    connection = device.connection
    assert (connection["volume_uuid"], connection["device_name"]) == (volume, "/dev/vdb")
    assert connection["path"] == str(store.path_of(volume))
    assert statuses(volume, other) == ["in-use", "available"]
    assert hosts.plugged[uuid] == {volume}
    assert_nothing_under_way(uuid)


def test_a_swap_replaces_the_volume(hosts: StorageHosts, ana: Any, admin: Any, server: Any) -> None:
    uuid, old, new = server
    run_uuid = volume_swaps.swap(admin, uuid, old, new)
    held = set(ResourceLock.objects.filter(holder_uuid=run_uuid).values_list("resource", flat=True))
    assert {f"volume:{old}", f"volume:{new}"} <= held
    with pytest.raises(ResourceLocked, match=run_uuid):
        volumes.delete(ana, new)
    run_to_the_end(hosts)
    assert_has(hosts, uuid, new, old)
    server_volumes.detach(ana, uuid, new)
    run_to_the_end(hosts)
    assert (statuses(old, new), hosts.plugged[uuid]) == (["available", "available"], set())


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", SWAP_VOLUME.steps, ids=lambda step: step.name)
def test_a_swap_that_fails_leaves_the_old_one(
    step: Step, is_for_ever: bool, hosts: StorageHosts, admin: Any, server: Any, trouble: Any
) -> None:
    uuid, old, new = server
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    volume_swaps.swap(admin, uuid, old, new)
    run_to_the_end(hosts)
    is_done = step.name == "MarkSwapped"  # it goes on until it is done
    assert (run_of(uuid, "swap_volume").state == RunState.DONE) == is_done
    assert_has(hosts, uuid, *((new, old) if is_done else (old, new)))


@pytest.mark.parametrize("when", ["", "late "], ids=["at once", "after the effect"])
def test_a_host_that_refuses_is_asked_to_go_back(when: str, hosts: StorageHosts, admin: Any, server: Any) -> None:
    uuid, old, new = server
    hosts.fails = lambda message, host: (
        f"{when}DriverError" if message == "swap_volume" and ("swap_volume", host) not in hosts.commands[:-1] else None
    )
    volume_swaps.swap(admin, uuid, old, new)
    run_to_the_end(hosts)
    assert [message for message, _ in hosts.commands].count("swap_volume") == 2
    assert_has(hosts, uuid, old, new)


def test_disks_that_an_unresponsive_host_may_write_to_are_given_to_no_other(
    hosts: StorageHosts, admin: Any, server: Any
) -> None:
    uuid, old, new = server
    host = instance_of(uuid).host or ""
    hosts.mute = {host}
    volume_swaps.swap(admin, uuid, old, new)
    step_on(hosts)
    silence(host)
    WorkflowRun.objects.using(CELL).filter(flow="swap_volume").update(wake_at="2026-01-01T00:00:00Z")
    run_to_the_end(hosts)
    assert run_of(uuid, "swap_volume").state == RunState.FAILED_NOT_CLEAN
    assert statuses(old, new) == ["in-use", "attaching"]
    assert BlockDevice.objects.using(CELL).filter(instance_uuid=uuid).count() == 2


def test_a_host_that_fails_at_swap_and_undo_keeps_both_volumes(
    hosts: StorageHosts, ana: Any, admin: Any, server: Any
) -> None:
    uuid, old, new = server
    hosts.fails = lambda message, _: "DriverError" if message == "swap_volume" else None
    volume_swaps.swap(admin, uuid, old, new)
    run_to_the_end(hosts)
    assert run_of(uuid, "swap_volume").state == RunState.FAILED_NOT_CLEAN
    assert statuses(old, new) == ["in-use", "attaching"]
    assert BlockDevice.objects.using(CELL).filter(instance_uuid=uuid).count() == VolumeAttachment.objects.count() == 2


def test_a_delete_in_the_middle_takes_the_old_one_along_and_frees_the_new(
    hosts: StorageHosts, ana: Any, admin: Any, server: Any
) -> None:
    uuid, old, new = server
    volume_swaps.swap(admin, uuid, old, new)
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert list(Volume.objects.values_list("uuid", "status")) == [(Volume.objects.get().uuid, "available")]
    assert str(Volume.objects.get().uuid) == new
    assert (VolumeAttachment.objects.count(), BlockDevice.objects.using(CELL).count()) == (0, 0)
    assert_nothing_under_way(uuid)


def test_refused_requests_change_nothing(
    hosts: StorageHosts, ana: Any, admin: Any, people: Any, server: Any, monkeypatch: Any
) -> None:
    uuid, old, new = server
    foreign = str(volumes.create(people.chi.context(), VolumeCreate(size_gb=3)).uuid)
    tiny = str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    Volume.objects.filter(uuid=old).update(size_gb=2)
    for wanted, error, words in (
        (old, Invalid, "attached already"),
        (foreign, Invalid, "another project"),
        (tiny, Invalid, "less than the 2 GB"),
        ("fish", NotFound, "fish"),
    ):
        with pytest.raises(error, match=words):
            volume_swaps.swap(admin, uuid, old, wanted)
    with pytest.raises(NotFound, match="volume_id not found"):
        volume_swaps.swap(admin, uuid, new, old)
    Volume.objects.filter(uuid=new).update(status="error")
    with pytest.raises(Invalid, match="Currently in 'error' status"):
        volume_swaps.swap(admin, uuid, old, new)
    Volume.objects.filter(uuid=new).update(status="available")
    Instance.objects.using(CELL).filter(uuid=uuid).update(vm_state=VmState.STOPPED)
    with pytest.raises(Conflict, match="vm_state stopped"):
        volume_swaps.swap(admin, uuid, old, new)
    Instance.objects.using(CELL).filter(uuid=uuid).update(vm_state=VmState.ACTIVE)
    with monkeypatch.context() as patch:
        patch.setattr(actions, "capabilities", lambda alias, host: frozenset({"attach_volume"}))
        with pytest.raises(NotSupported, match="swap_volume"):
            volume_swaps.swap(admin, uuid, old, new)
    silence(instance_of(uuid).host or "")
    with pytest.raises(Conflict, match="does not answer"):
        volume_swaps.swap(admin, uuid, old, new)
    assert not WorkflowRun.objects.using(CELL).filter(flow="swap_volume").exists()
    assert_has(hosts, uuid, old, new)
