"""Attach and detach of volumes, with each step failing in turn: a volume is in use, or available."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Instance, InstanceFault
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, ResourceLocked
from conductor.core.states import RunState, VmState, WaitCause
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.servers import actions, external_events, instances, server_images, server_volumes
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume import store
from conductor.volume.models import Volume, VolumeAttachment
from conductor.workflows.flow import Step
from conductor.workflows.flows.attachments import ATTACH_VOLUME, DETACH_VOLUME
from tests.fleet import silence
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, times_of
from tests.integration.page_clients import signed_in, text


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path
    return StorageHosts()


@pytest.fixture
def volume(ana: Any) -> str:
    return str(volumes.create(ana, VolumeCreate(size_gb=1, name="data")).uuid)


def attached(hosts: StorageHosts, ana: Any, uuid: str, volume: str, **requested: Any) -> None:
    server_volumes.attach(ana, uuid, AttachmentCreate(volume, **requested))
    run_to_the_end(hosts)


def status(volume: str) -> str:
    return Volume.objects.get(uuid=volume).status


def assert_free(hosts: StorageHosts, uuid: str, volume: str) -> None:
    """Check that no server has the volume, in any record."""
    assert (status(volume), VolumeAttachment.objects.count()) == ("available", 0)
    assert BlockDevice.objects.using(CELL).count() == 0
    assert volume not in hosts.plugged[uuid]
    assert_nothing_under_way(uuid)


def assert_attached(hosts: StorageHosts, uuid: str, volume: str) -> None:
    """Check that all four records agree."""
    device = BlockDevice.objects.using(CELL).get(instance_uuid=uuid)
    lent = VolumeAttachment.objects.get()
    assert (status(volume), str(lent.instance_uuid), lent.uuid) == ("in-use", uuid, device.uuid)
    assert (lent.device, lent.host) == (device.device_name, instance_of(uuid).host or "")
    assert device.connection["path"] == str(store.path_of(volume))
    assert volume in hosts.plugged[uuid] or instance_of(uuid).host is None
    assert_nothing_under_way(uuid)


def assert_requested(title: str, uuid: str, volume: str) -> None:
    """Check that the request is visible at once, and cannot be repeated."""
    client = signed_in("ana")
    for path, link in ((f"/volumes/of/{volume}", title.lower()), (f"/servers/{uuid}/volumes", "detach-volume")):
        page = text(client.get(path))
        assert f"disabled>{title} requested</button>" in page, path
        assert f"/do/{link}?item" not in page, path


def test_a_volume_is_attached_and_detached(hosts: StorageHosts, ana: Any, launch: Any, volume: str) -> None:
    uuid = launch()
    answer = server_volumes.attach(ana, uuid, AttachmentCreate(volume, tag="data"))
    assert (answer.device, answer.tag) == ("/dev/vdb", "data")
    (held,) = ResourceLock.objects.filter(resource=f"volume:{volume}")
    assert str(held.holder_uuid) == answer.run_uuid
    assert_requested("Attach", uuid, volume)
    run_to_the_end(hosts)
    assert_attached(hosts, uuid, volume)
    assert [found.volume_id for found in server_volumes.list_attachments(ana, uuid)] == [volume]
    assert instances.get(ana, uuid).volumes == ((volume, False),)
    server_volumes.detach(ana, uuid, volume)
    assert_requested("Detach", uuid, volume)
    run_to_the_end(hosts)
    assert_free(hosts, uuid, volume)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", ATTACH_VOLUME.steps, ids=lambda step: step.name)
def test_an_attach_that_fails_frees_the_volume(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid, volume = launch(), str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    attached(hosts, ana, uuid, volume)
    if run_of(uuid, "attach_volume").state == RunState.DONE:
        assert not is_for_ever
        assert_attached(hosts, uuid, volume)
    else:
        assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
        assert_free(hosts, uuid, volume)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", DETACH_VOLUME.steps, ids=lambda step: step.name)
def test_a_detach_that_fails_leaves_it_in_use(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid, volume = launch(), str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    attached(hosts, ana, uuid, volume)
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    server_volumes.detach(ana, uuid, volume)
    run_to_the_end(hosts)
    if run_of(uuid, "detach_volume").state == RunState.DONE:
        assert_free(hosts, uuid, volume)
    else:
        assert_attached(hosts, uuid, volume)


def test_a_guest_is_shown_what_a_volume_has_grown_by(hosts: StorageHosts, ana: Any, launch: Any, volume: str) -> None:
    uuid = launch()
    attached(hosts, ana, uuid, volume)
    external_events.extend(ana, volume, 2, may_be_in_use=True)
    growing = WorkflowRun.objects.using(CELL).get(flow="extend_volume")
    with pytest.raises(ResourceLocked, match=f"workflow {growing.uuid}"):
        actions.begin(ana, uuid, "stop")
    hosts.plugged[uuid].clear()
    run_to_the_end(hosts)
    assert hosts.plugged[uuid] == {volume}, "it was given once more"
    assert run_of(uuid, "extend_volume").state == RunState.DONE
    assert_attached(hosts, uuid, volume)
    assert store.path_of(volume).stat().st_size == 2 << 30


def test_a_host_that_refuses_leaves_the_volume_free(hosts: StorageHosts, ana: Any, launch: Any, volume: str) -> None:
    uuid = launch()
    hosts.fails = lambda message, host: "late DriverError" if message == "attach_volume" else None
    attached(hosts, ana, uuid, volume)
    assert_free(hosts, uuid, volume)


def test_disks_that_an_unresponsive_host_may_write_to_are_given_to_no_other(
    hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    uuid = launch()
    host = instance_of(uuid).host or ""
    hosts.mute = {host}
    server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    step_on(hosts)
    silence(host)
    WorkflowRun.objects.using(CELL).filter(flow="attach_volume").update(wake_at="2026-01-01T00:00:00Z")
    run_to_the_end(hosts)
    run = run_of(uuid, "attach_volume")
    assert run.state == RunState.FAILED_NOT_CLEAN
    assert host in run.uncompensated[0]
    assert status(volume) == "attaching"
    assert BlockDevice.objects.using(CELL).get().instance_uuid == instance_of(uuid).uuid


def test_devices_are_named_in_order_and_once(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    names = []
    for wanted in ("", "/dev/vdc", "", "/dev/sdz", ""):
        volume = volumes.create(ana, VolumeCreate(size_gb=1))
        names.append(server_volumes.attach(ana, uuid, AttachmentCreate(str(volume.uuid), device=wanted)).device)
        run_to_the_end(hosts)
    assert names == ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/sdz", "/dev/vde"]
    volume = volumes.create(ana, VolumeCreate(size_gb=1))
    for taken in ("/dev/vda", "/dev/sdb", "vdz"):
        with pytest.raises(Conflict, match="is in use"):
            server_volumes.attach(ana, uuid, AttachmentCreate(str(volume.uuid), device=taken))
    assert BlockDevice.objects.using(CELL).count() == 5
    assert_nothing_under_way(uuid)


def test_refused_requests_change_nothing(hosts: StorageHosts, ana: Any, people: Any, launch: Any, volume: str) -> None:
    uuid, other = launch(), launch("web-2")
    chi = people.chi.context()
    with pytest.raises(NotFound):
        server_volumes.attach(chi, uuid, AttachmentCreate(volume))
    foreign = str(volumes.create(chi, VolumeCreate(size_gb=1)).uuid)
    with pytest.raises(NotFound, match=foreign):
        server_volumes.attach(ana, uuid, AttachmentCreate(foreign))
    Instance.objects.using(CELL).filter(uuid=uuid).update(is_locked=True)
    with pytest.raises(Conflict, match="is locked"):
        server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    Instance.objects.using(CELL).filter(uuid=uuid).update(is_locked=False, vm_state=VmState.RESCUED)
    with pytest.raises(Conflict, match="vm_state rescued"):
        server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    Instance.objects.using(CELL).filter(uuid=uuid).update(vm_state=VmState.ACTIVE)
    assert_free(hosts, uuid, volume)
    attached(hosts, ana, uuid, volume)
    for server in (uuid, other):
        with pytest.raises(Invalid, match="Invalid volume"):
            server_volumes.attach(ana, server, AttachmentCreate(volume))
    with pytest.raises(NotFound):
        server_volumes.detach(ana, other, volume)
    with pytest.raises(Invalid, match="in-use"):
        volumes.delete(ana, volume)
    silence(instance_of(uuid).host or "")
    with pytest.raises(Conflict, match="does not answer"):
        server_volumes.detach(ana, uuid, volume)
    BlockDevice.objects.using(CELL).update(boot_index=0)
    with pytest.raises(Forbidden, match="root device"):
        server_volumes.detach(ana, uuid, volume)
    assert_attached(hosts, uuid, volume)


def test_a_third_request_learns_which_run_has_it(hosts: StorageHosts, ana: Any, launch: Any, volume: str) -> None:
    uuid, other = launch(), launch("web-2")
    run_uuid = server_volumes.attach(ana, uuid, AttachmentCreate(volume)).run_uuid
    with pytest.raises(ResourceLocked, match=run_uuid):
        server_volumes.attach(ana, other, AttachmentCreate(volume))
    with pytest.raises(ResourceLocked, match=run_uuid):
        volumes.delete(ana, volume)
    with pytest.raises(ResourceLocked, match=run_uuid):
        volumes.extend(ana, volume, 5)
    with pytest.raises(ResourceLocked, match=run_uuid):
        server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    with pytest.raises(ResourceLocked, match=run_uuid):
        actions.begin(ana, uuid, "stop")
    run_to_the_end(hosts)
    assert_attached(hosts, uuid, volume)


def test_several_volumes_come_and_go_one_after_the_other(
    hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    """Clients that make many things at once ask for all of them before the first is there."""
    uuid, second = launch(), str(volumes.create(ana, VolumeCreate(size_gb=1)).uuid)
    first_run, second_run = (
        server_volumes.attach(ana, uuid, AttachmentCreate(one)).run_uuid for one in (volume, second)
    )
    assert WorkflowRun.objects.using(CELL).get(uuid=second_run).waits_for["cause"] == WaitCause.LOCK
    assert not ResourceLock.objects.using(CELL).exclude(run__uuid=first_run).exists()
    run_to_the_end(hosts)
    assert hosts.plugged[uuid] >= {volume, second}
    assert (status(volume), status(second)) == ("in-use", "in-use")
    for one in (volume, second):
        server_volumes.detach(ana, uuid, one)
    run_to_the_end(hosts)
    for one in (volume, second):
        assert_free(hosts, uuid, one)


def test_a_volume_attached_to_an_offloaded_server_is_connected_when_it_is_unshelved(
    hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    uuid = launch()
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    attached(hosts, ana, uuid, volume)
    assert_attached(hosts, uuid, volume)
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert_attached(hosts, uuid, volume)


@pytest.mark.parametrize("goes", [False, True], ids=["stays", "goes"])
def test_deleting_a_server_detaches_or_deletes_its_volumes(
    goes: bool, hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    uuid = launch()
    attached(hosts, ana, uuid, volume)
    server_volumes.keep_or_delete(ana, uuid, volume, delete_on_termination=goes)
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert list(Volume.objects.values_list("status", flat=True)) == ([] if goes else ["available"])
    assert store.path_of(volume).exists() != goes
    assert (VolumeAttachment.objects.count(), BlockDevice.objects.using(CELL).count()) == (0, 0)
    assert_nothing_under_way(uuid)


def test_a_delete_in_the_middle_of_an_attach_frees_it(hosts: StorageHosts, ana: Any, launch: Any, volume: str) -> None:
    uuid = launch()
    server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert_free(hosts, uuid, volume)


@pytest.mark.parametrize("goes", [False, True], ids=["stays", "goes"])
def test_deleted_on_an_unresponsive_host_its_volume_waits_for_the_host(
    goes: bool, hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    uuid = launch()
    attached(hosts, ana, uuid, volume, delete_on_termination=goes)
    hosts.mute = {instance_of(uuid).host or ""}
    silence(instance_of(uuid).host or "")
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert (server_volumes.release_of_gone(), status(volume)) == (0, "detaching")
    hosts.mute = set()
    step_on(hosts)  # the host is back, and carries out its deferred commands
    assert (server_volumes.release_of_gone(), server_volumes.release_of_gone()) == (1, 0)
    assert list(Volume.objects.values_list("status", flat=True)) == ([] if goes else ["available"])
    assert (VolumeAttachment.objects.count(), BlockDevice.objects.using(CELL).count()) == (0, 0)
    assert_nothing_under_way(uuid)
