"""A host that fails, also in its compensation: resources that its guest may still use are not given to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.cell_db.models import BlockDevice, Service
from conductor.core.states import RunState
from conductor.db.transactions import database_now
from conductor.journal.models import WorkflowRun
from conductor.network import port_operations
from conductor.network.models import Network, Port
from conductor.network.port_operations import PortCreate
from conductor.services.operations.reconciliation import reconciler
from conductor.services.operations.reconciliation.reconciler import RepairOutcome
from conductor.services.servers import instances, interfaces, server_volumes
from conductor.services.servers.interfaces import InterfaceCreate
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.servers.types import InstanceCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.types import DeviceRequest
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume.models import Volume, VolumeAttachment
from tests import factories
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, run_of

BROKEN = {
    "attach_volume": "late DriverError",
    "detach_volume": "DriverError",
    "attach_interface": "late DriverError",
    "detach_interface": "DriverError",
    "spawn_instance": "late DriverError",
    "destroy_instance": "DriverError",
}


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path
    return StorageHosts()


@pytest.fixture
def volume(ana: Any) -> str:
    requested = VolumeCreate(size_gb=1, name="data", is_bootable=True, image_metadata={"min_ram": "64"})
    return str(volumes.create(ana, requested).uuid)


def break_down(hosts: StorageHosts) -> None:
    hosts.fails = lambda message, _: BROKEN.get(message)


def mend(hosts: StorageHosts) -> None:
    hosts.fails = lambda message, _: None


def status(volume: str) -> str:
    return Volume.objects.get(uuid=volume).status


def assert_goes_with_the_server(hosts: StorageHosts, ana: Any, uuid: str, volume: str) -> None:
    mend(hosts)
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert (status(volume), VolumeAttachment.objects.count()) == ("available", 0)
    assert not BlockDevice.objects.using(CELL).exists()
    assert_nothing_under_way(uuid)


def test_a_volume_that_a_failed_host_may_still_use_is_kept(
    hosts: StorageHosts, ana: Any, launch: Any, volume: str
) -> None:
    uuid = launch()
    break_down(hosts)
    server_volumes.attach(ana, uuid, AttachmentCreate(volume))
    run_to_the_end(hosts)
    run = run_of(uuid, "attach_volume")
    host = instance_of(uuid).host
    assert run.state == RunState.FAILED_NOT_CLEAN
    assert run.uncompensated[-1] == f"Reserve volume: Volume {volume} stays reserved until host {host} lets it go."
    assert (status(volume), hosts.plugged[uuid]) == ("attaching", {volume})
    assert_goes_with_the_server(hosts, ana, uuid, volume)


def test_resources_of_a_guest_that_a_failed_host_could_not_remove_are_kept(
    hosts: StorageHosts, ana: Any, volume: str
) -> None:
    break_down(hosts)
    root = DeviceRequest(source="volume", destination="volume", uuid=volume, boot_index=0)
    requested = InstanceCreate(name="web-1", flavor_ref="1", image_ref="", devices=(root,))
    (uuid,) = instances.create(ana, requested).instance_uuids
    run_to_the_end(hosts)
    assert run_of(uuid, "build_from_volumes").state == RunState.FAILED_NOT_CLEAN
    assert (status(volume), hosts.plugged[uuid]) == ("detaching", {volume})
    assert_goes_with_the_server(hosts, ana, uuid, volume)


def test_a_port_that_a_failed_host_may_still_use_is_kept(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    host = instance_of(uuid).host
    port_id = str(port_operations.create_port(ana, PortCreate(str(Network.objects.get(name="private").uuid))).uuid)
    break_down(hosts)
    interfaces.attach(ana, uuid, InterfaceCreate(port_id=port_id))
    run_to_the_end(hosts)
    run = run_of(uuid, "attach_interface")
    assert run.state == RunState.FAILED_NOT_CLEAN
    assert run.uncompensated[-1] == f"Plug port: Port {port_id} stays with the server until host {host} lets it go."
    assert (Port.objects.get(uuid=port_id).device_id, hosts.plugged[uuid]) == (uuid, {port_id})
    mend(hosts)
    interfaces.detach(ana, uuid, port_id)
    run_to_the_end(hosts)
    assert (Port.objects.get(uuid=port_id).device_id, hosts.plugged[uuid]) == ("", set())
    assert_nothing_under_way(uuid)


def test_a_compensation_that_waits_for_an_unresponsive_host_continues_by_itself(
    hosts: StorageHosts, ana: Any, launch: Any, settings: Any
) -> None:
    settings.NOVELLA_HEARTBEAT_SECONDS = 0.0  # hosts have reported since whatever has ended
    uuid = launch()
    host = instance_of(uuid).host or ""
    port_id = str(port_operations.create_port(ana, PortCreate(str(Network.objects.get(name="private").uuid))).uuid)
    hosts.mute.add(host)
    services = Service.objects.using(CELL).filter(host=host)
    services.update(last_seen_at=factories.ago(3600))
    interfaces.attach(ana, uuid, InterfaceCreate(port_id=port_id))
    run = run_of(uuid, "attach_interface")
    while run.finished_at is None:
        WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(wake_at=database_now())
        step_on(hosts)
        run.refresh_from_db()
    assert run.state == RunState.FAILED_NOT_CLEAN
    assert reconciler.reconcile(grace_seconds=0).judged == []  # the host's commands are still deferred

    hosts.mute.clear()
    services.update(last_seen_at=database_now())
    run_to_the_end(hosts)
    assert hosts.plugged[uuid] == set()
    assert Port.objects.get(uuid=port_id).device_id == uuid
    (judged,) = reconciler.reconcile(grace_seconds=0).judged
    assert (judged.kind.name, judged.outcome) == ("undo_held_up_by_host", RepairOutcome.REPAIRED)
    run_to_the_end(hosts)
    run.refresh_from_db()
    assert (run.state, run.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert Port.objects.get(uuid=port_id).device_id == ""
    assert_nothing_under_way(uuid)
