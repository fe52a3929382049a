"""Shelve, offload and unshelve, with each step failing in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import RequestSpecRecord
from conductor.cell_db.models import Instance, InstanceFault, Service
from conductor.core.errors import Conflict, Forbidden, Invalid
from conductor.core.states import PowerState, RunState, TaskState, VmState
from conductor.image.models import Image
from conductor.network.models import Port
from conductor.services.servers import actions, instances, server_images
from conductor.workflows.flow import Step
from conductor.workflows.flows.shelving import OFFLOAD_INSTANCE, SHELVE_INSTANCE, UNSHELVE_INSTANCE
from tests.fleet import put_into_zone, silence
from tests.integration.flows.moving import CELL, OFF, RUNNING, instance_of, run_to_the_end
from tests.integration.flows.storing import (
    StorageHosts,
    assert_nothing_under_way,
    part_of,
    run_of,
    stored_images,
    taken,
    times_of,
)

NEVER, AT_ONCE = -1.0, 0.0


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path
    return StorageHosts()


@pytest.fixture
def keep_hosts(settings: Any) -> None:
    settings.NOVELLA_SHELVED_OFFLOAD_SECONDS = NEVER


def into_zone(zone: str, host: str) -> None:
    put_into_zone(zone, [host])
    Service.objects.using(CELL).filter(host=host).update(availability_zone=zone)


def shelved(hosts: StorageHosts, ana: Any, launch: Any) -> str:
    uuid: str = launch()
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    return uuid


def test_a_shelved_server_is_off_and_stays_on_its_host(
    hosts: StorageHosts, ana: Any, launch: Any, keep_hosts: None
) -> None:
    uuid = launch()
    before, host = taken(), instance_of(uuid).host
    server_images.shelve(ana, uuid)
    assert instance_of(uuid).task_state == TaskState.SHELVING
    run_to_the_end(hosts)
    row = instance_of(uuid)
    assert (row.vm_state, row.power_state, row.host) == (VmState.SHELVED, PowerState.SHUTDOWN, host)
    assert (hosts.has(uuid), taken()) == ({host: OFF}, before)
    assert Image.objects.get(uuid=row.shelved_image_id).name == "web-1-shelved"
    assert_nothing_under_way(uuid)


def test_unshelving_starts_the_server_on_its_host_and_deletes_the_image(
    hosts: StorageHosts, ana: Any, launch: Any, keep_hosts: None
) -> None:
    uuid = shelved(hosts, ana, launch)
    row = instance_of(uuid)
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    assert hosts.has(uuid) == {row.host: RUNNING}
    assert (instance_of(uuid).vm_state, instance_of(uuid).shelved_image_id) == (VmState.ACTIVE, "")
    assert Image.objects.get(uuid=row.shelved_image_id).status == "deleted"
    assert stored_images() == set()
    assert_nothing_under_way(uuid)


def test_an_offloaded_server_uses_no_host_and_keeps_ports_and_quota(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    before, addresses = taken(), instance_of(uuid).addresses
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    row = instance_of(uuid)
    assert (row.vm_state, row.host, row.addresses) == (VmState.SHELVED_OFFLOADED, None, addresses)
    assert (hosts.has(uuid), taken()) == ({}, {**before, "allocations": 0})
    assert list(Port.objects.values_list("device_id", "binding_host", "status")) == [(uuid, "", "DOWN")]
    assert_nothing_under_way(uuid)


def test_unshelving_an_offloaded_server_builds_it_from_its_image(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    before, addresses = taken(), instance_of(uuid).addresses
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    image_id = instance_of(uuid).shelved_image_id
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    row = instance_of(uuid)
    assert (row.vm_state, row.addresses, taken()) == (VmState.ACTIVE, addresses, before)
    assert hosts.has(uuid) == {row.host: RUNNING}
    assert hosts.spawned_from[uuid] == image_id
    assert Port.objects.get().binding_host == row.host
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", SHELVE_INSTANCE.steps, ids=lambda step: step.name)
def test_a_step_that_fails_while_shelving_leaves_it_running(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    before, host = taken(), instance_of(uuid).host
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    if run_of(uuid, "shelve_instance").state == RunState.DONE:
        assert not is_for_ever
        assert instance_of(uuid).vm_state == VmState.SHELVED_OFFLOADED
    else:
        assert (instance_of(uuid).vm_state, hosts.has(uuid), taken()) == (VmState.ACTIVE, {host: RUNNING}, before)
        assert stored_images() == set()
        assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("step", OFFLOAD_INSTANCE.steps, ids=lambda step: step.name)
def test_a_failing_offload_is_repeated_until_it_succeeds(
    step: Step, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    trouble.strike(step, part_of(step), times=4)
    uuid = shelved(hosts, ana, launch)
    assert (instance_of(uuid).vm_state, hosts.has(uuid)) == (VmState.SHELVED_OFFLOADED, {})
    assert taken()["allocations"] == 0
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", UNSHELVE_INSTANCE.steps, ids=lambda step: step.name)
def test_a_step_that_fails_while_unshelving_leaves_it_offloaded_and_nothing_else(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid = shelved(hosts, ana, launch)
    before, files = taken(), stored_images()
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    server_images.unshelve(ana, uuid, availability_zone="")
    run_to_the_end(hosts)
    row = instance_of(uuid)
    if row.vm_state == VmState.ACTIVE:
        assert hosts.has(uuid) == {row.host: RUNNING}
        assert stored_images() == set()
    else:
        assert (row.vm_state, row.host, hosts.has(uuid)) == (VmState.SHELVED_OFFLOADED, None, {})
        assert (taken(), stored_images()) == (before, files)
        assert set(Port.objects.values_list("binding_host", flat=True)) == {""}
        assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
    assert_nothing_under_way(uuid)


def test_without_a_valid_host_a_shelved_server_is_unchanged(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = shelved(hosts, ana, launch)
    for host in ("sim-1", "sim-2", "sim-3"):
        silence(host)
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, taken()["allocations"]) == (VmState.SHELVED_OFFLOADED, 0)
    assert "No valid host" in InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message
    assert_nothing_under_way(uuid)


def test_without_its_image_a_shelved_server_is_unchanged_and_shows_the_reason(
    hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    uuid = shelved(hosts, ana, launch)
    Image.objects.filter(uuid=instance_of(uuid).shelved_image_id).update(deleted_at="2026-01-01T00:00:00Z")
    server_images.unshelve(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, taken()["allocations"]) == (VmState.SHELVED_OFFLOADED, 0)
    assert "is gone" in InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message
    assert_nothing_under_way(uuid)


def test_a_zone_or_a_host_can_be_requested(hosts: StorageHosts, ana: Any, admin: Any, launch: Any) -> None:
    into_zone("az-2", "sim-3")
    uuid = shelved(hosts, ana, launch)
    server_images.unshelve(ana, uuid, availability_zone="az-2")
    run_to_the_end(hosts)
    row = instance_of(uuid)
    assert (row.vm_state, row.host, row.pinned_availability_zone) == (VmState.ACTIVE, "sim-3", "az-2")
    assert RequestSpecRecord.objects.get(instance_uuid=uuid).spec["availability_zone"] == "az-2"
    server_images.shelve(ana, uuid)
    run_to_the_end(hosts)
    server_images.unshelve(admin, uuid, availability_zone="", host="sim-2")
    run_to_the_end(hosts)
    row = instance_of(uuid)
    assert (row.vm_state, row.host, row.pinned_availability_zone) == (VmState.ACTIVE, "sim-2", "")


def test_a_zone_of_a_failed_unshelve_is_not_kept(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    into_zone("az-2", "sim-3")
    uuid = shelved(hosts, ana, launch)
    silence("sim-3")
    server_images.unshelve(ana, uuid, availability_zone="az-2")
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, instance_of(uuid).pinned_availability_zone) == (VmState.SHELVED_OFFLOADED, "")
    assert RequestSpecRecord.objects.get(instance_uuid=uuid).spec["availability_zone"] == ""


def test_refused_requests_change_nothing(
    hosts: StorageHosts, ana: Any, admin: Any, launch: Any, keep_hosts: None
) -> None:
    uuid = shelved(hosts, ana, launch)
    before = Instance.objects.using(CELL).values().get(uuid=uuid)
    with pytest.raises(Conflict, match="while it is in vm_state shelved"):
        server_images.shelve(ana, uuid)
    with pytest.raises(Conflict, match="its host still keeps it"):
        server_images.unshelve(admin, uuid, host="sim-2")
    with pytest.raises(Forbidden):
        server_images.unshelve(ana, uuid, host="sim-2")
    with pytest.raises(Invalid, match="sim-9 could not be found"):
        server_images.unshelve(admin, uuid, host="sim-9")
    with pytest.raises(Invalid, match="nowhere is not available"):
        server_images.unshelve(ana, uuid, availability_zone="nowhere")
    with pytest.raises(Conflict, match="while it is in vm_state shelved"):
        actions.begin(ana, uuid, "start")
    assert Instance.objects.using(CELL).values().get(uuid=uuid) == before
    assert_nothing_under_way(uuid)


def test_deleted_while_shelved_nothing_is_left(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = shelved(hosts, ana, launch)
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, taken()) == (
        VmState.DELETED,
        {"allocations": 0, "ports": 0, "addresses": 0},
    )
    assert stored_images() == set()
    assert_nothing_under_way(uuid)


def test_a_shelved_server_is_offloaded_after_the_configured_time(
    hosts: StorageHosts, ana: Any, launch: Any, settings: Any
) -> None:
    settings.NOVELLA_SHELVED_OFFLOAD_SECONDS = 3600.0
    uuid = shelved(hosts, ana, launch)
    assert server_images.offload_due() == 0
    settings.NOVELLA_SHELVED_OFFLOAD_SECONDS = 0.001
    assert server_images.offload_due() == 1
    assert server_images.offload_due() == 0
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.SHELVED_OFFLOADED
    assert_nothing_under_way(uuid)
