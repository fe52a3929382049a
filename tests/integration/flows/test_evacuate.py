"""Evacuation: only from a fenced host, whose remaining guests are deleted before it may work again."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import HostMapping
from conductor.cell_db.models import ComputeNode, InstanceFault, Migration, Service
from conductor.core.compute_driver import CAPABILITIES
from conductor.core.errors import Conflict, Invalid, NotFound, ResourceLocked
from conductor.core.states import PowerState, RunState, VmState
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.placement.models import ResourceProvider
from conductor.rpc.messages import HostReported
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.fleet import enabling, evacuations, reports
from conductor.services.hosts import hosts as host_service
from conductor.services.server_migrations import live_migrations, resizes
from conductor.services.servers import instances
from conductor.workflows.flow import RemoteStep, Step
from conductor.workflows.flows.evacuation import EVACUATE_INSTANCE
from tests.fleet import provider_of, silence
from tests.integration.flows.moving import (
    CELL,
    OFF,
    RUNNING,
    Hosts,
    assert_at_rest,
    assert_placement_is_true,
    held_by,
    instance_of,
    migration_of,
    run_to_the_end,
    step_on,
)

EVER = 10_000


def kill(hosts: Hosts, host: str, *, is_fenced: bool = True) -> None:
    """Kill the host with its guests; `is_fenced`: an operator has made sure."""
    hosts.mute.add(host)
    silence(host)
    Service.objects.using(CELL).filter(host=host).update(is_forced_down=is_fenced)


def service_of(context: Any, host: str) -> Any:
    (found,) = host_service.list_services(context, host=host, binary="nova-compute").items
    return found


def test_a_server_of_a_dead_host_is_evacuated_to_another(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    held = held_by(uuid)
    kill(hosts, home)
    evacuations.begin(admin, uuid)
    assert instance_of(uuid).task_state == "rebuilding"
    run_to_the_end(hosts)
    after, migration = instance_of(uuid), migration_of(uuid)
    assert (after.vm_state, after.power_state, after.host != home) == (VmState.ACTIVE, PowerState.RUNNING, True)
    assert (migration.status, held_by(str(migration.uuid))) == ("done", held)
    assert hosts.guests[after.host or ""][uuid] == RUNNING
    assert_placement_is_true()


def share_disks(*names: str) -> None:
    """Make only these hosts report shared disks."""
    for change, node in enumerate(ComputeNode.objects.using(CELL).all(), start=EVER):
        actions = set(CAPABILITIES) - (set() if node.host in names else {"evacuate"})
        node.report["capabilities"] = {"actions": sorted(actions)}
        node.change_number = change
        node.save(using=CELL)


@pytest.mark.parametrize("sharing", [(), ("sim-1", "sim-2", "sim-3")], ids=["from its image", "from its disks"])
def test_a_server_is_built_anew_where_disks_are_shared_and_where_they_are_not(
    sharing: tuple[str, ...], hosts: Hosts, admin: Any, launch: Any
) -> None:
    share_disks(*sharing)
    uuid = launch()
    home = instance_of(uuid).host or ""
    kill(hosts, home)
    evacuations.begin(admin, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert instance_of(uuid).host not in (home, None)
    assert hosts.commands[-1][0] == ("take_over_instance" if sharing else "spawn_instance")


def test_disks_that_are_shared_are_handed_back_and_never_destroyed(hosts: Hosts, admin: Any, launch: Any) -> None:
    """A destroy would take them along: they are all that is left of the server."""
    share_disks("sim-1", "sim-2", "sim-3")
    uuid = launch()
    home = instance_of(uuid).host or ""
    kill(hosts, home)
    hosts.commands.clear()
    hosts.fails = lambda message, host: "late BuildAborted" if message == "take_over_instance" else None
    evacuations.begin(admin, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, instance_of(uuid).host) == (VmState.ERROR, home)
    assert [message for message, _ in hosts.commands] == ["take_over_instance", "hand_back_instance"]
    assert_at_rest(hosts, uuid)


def test_disks_that_are_shared_are_not_left_behind_for_an_image(hosts: Hosts, admin: Any, launch: Any) -> None:
    """The server's own host could see them, and no other can: better no server than one without its data."""
    uuid = launch()
    home = instance_of(uuid).host or ""
    share_disks(home)
    kill(hosts, home)
    evacuations.begin(admin, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, instance_of(uuid).host) == (VmState.ERROR, home)
    assert "cannot take the server over" in InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("times", [1, EVER], ids=["once", "for ever"])
@pytest.mark.parametrize("step", EVACUATE_INSTANCE.steps, ids=lambda step: step.name)
def test_a_step_fails_and_nothing_is_left_on_living_hosts(
    step: Step, times: int, hosts: Hosts, admin: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    home, held = instance_of(uuid).host or "", held_by(uuid)
    kill(hosts, home)
    trouble.strike(step, "commit" if step.is_local or isinstance(step, RemoteStep) else "execute", times)
    evacuations.begin(admin, uuid)
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert (after.vm_state, after.host, migration_of(uuid).status) == (VmState.ERROR, home, "error")
    assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
    assert held_by(uuid) == held
    assert_at_rest(hosts, uuid)


def test_evacuation_needs_a_dead_and_fenced_host(hosts: Hosts, people: Any, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    with pytest.raises(Invalid, match="still in use"):
        evacuations.begin(admin, uuid)
    kill(hosts, home, is_fenced=False)
    with pytest.raises(Conflict, match="Cut its power"):
        evacuations.begin(admin, uuid)
    kill(hosts, home)
    others = sorted({"sim-1", "sim-2", "sim-3"} - {home})
    silence(others[0])
    with pytest.raises(Invalid, match="doesn't respond"):
        evacuations.begin(admin, uuid, others[0])
    with pytest.raises(NotFound):
        evacuations.begin(people.chi.context(), uuid)
    assert instance_of(uuid).task_state is None
    assert not Migration.objects.using(CELL).exists()
    evacuations.begin(admin, uuid, others[1], stays_off=True)
    run_to_the_end(hosts)
    assert (instance_of(uuid).host, instance_of(uuid).vm_state) == (others[1], VmState.STOPPED)
    assert hosts.guests[others[1]][uuid] == OFF


def test_a_host_that_comes_back_must_be_clean_before_it_works(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    kill(hosts, home)
    evacuations.begin(admin, uuid)
    run_to_the_end(hosts)
    migration = migration_of(uuid)

    def report(number: int) -> None:
        node = {
            "node": home, "hypervisor_type": "fake", "hypervisor_version": 1,
            "inventory": {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 65536}, "DISK_GB": {"total": 1000}},
        }  # fmt: skip
        found = dict.fromkeys(hosts.guests[home], 1)
        reports.record(CELL, HostReported(
            host=home, cell=CELL, driver="fake", is_simulated=True, service_version=SERVICE_VERSION,
            report_number=number, availability_zone="", report=node, guests=found,
        ))  # fmt: skip

    assert uuid in hosts.guests[home], "it was cut off, not emptied"
    hosts.mute.clear()
    report(1)
    with pytest.raises(Invalid, match="still run 1 evacuated server"):
        enabling.update(admin, service_of(admin, home), is_forced_down=False)
    report(2)
    for command in OutboxMessage.objects.using(CELL).filter(host=home):
        hosts.answer(CELL, command)
    assert uuid not in hosts.guests[home]
    assert migration_of(uuid).status == "done"
    report(3)
    assert (migration_of(uuid).status, held_by(str(migration.uuid))) == ("completed", {})
    enabling.update(admin, service_of(admin, home), is_forced_down=False)
    assert service_of(admin, home).is_up
    assert_at_rest(hosts, uuid)


def test_workflows_on_a_dead_host_end_for_its_evacuation(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    hosts.mute.add(home)
    resizes.migrate(admin, uuid)
    for _ in range(3):
        step_on(hosts)
    kill(hosts, home)
    evacuations.begin(admin, uuid)
    for _ in range(20):
        WorkflowRun.objects.using(CELL).filter(state=RunState.WAITING).update(wake_at="2020-01-01T00:00Z")
        if not step_on(hosts):
            break
    after = instance_of(uuid)
    assert (after.vm_state, after.task_state) == (VmState.ACTIVE, None)
    assert after.host != home
    flows = dict(WorkflowRun.objects.using(CELL).filter(instance_uuid=uuid).values_list("flow", "state"))
    assert (flows["resize_instance"], flows["evacuate_instance"]) == (RunState.CANCELLED, RunState.DONE)
    assert_placement_is_true()


def test_all_servers_of_a_dead_host_are_evacuated_together(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuids = [launch(f"web-{number}") for number in range(4)]
    home = instance_of(uuids[0]).host or ""
    there = [uuid for uuid in uuids if instance_of(uuid).host == home]
    kill(hosts, home)
    begun, refused = evacuations.begin_all(admin, service_of(admin, home))
    assert (sorted(begun), refused) == (sorted(there), {})
    run_to_the_end(hosts)
    assert all(instance_of(uuid).host != home for uuid in uuids)
    assert_placement_is_true()


def test_concurrent_evacuations_are_limited_and_a_repeated_request_changes_nothing(
    hosts: Hosts, admin: Any, launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evacuations, "MOST_AT_ONCE", 2)
    Service.objects.using(CELL).exclude(host="sim-1").update(is_disabled=True)
    uuids = {launch(f"web-{number}") for number in range(3)}
    Service.objects.using(CELL).update(is_disabled=False)
    kill(hosts, "sim-1")
    service = service_of(admin, "sim-1")
    begun, refused = evacuations.begin_all(admin, service)
    assert (len(begun), begun.keys() | refused.keys()) == (2, uuids)
    assert "Ask again" in " ".join(refused.values())
    assert evacuations.begin_all(admin, service) == ({}, refused)
    run_to_the_end(hosts)
    runs = WorkflowRun.objects.using(CELL).filter(flow="evacuate_instance")
    assert set(runs.values_list("state", flat=True)) == {RunState.DONE}
    begun, refused = evacuations.begin_all(admin, service)
    assert (len(begun), refused) == (1, {})
    run_to_the_end(hosts)
    assert all(instance_of(uuid).host != "sim-1" for uuid in uuids)
    assert_placement_is_true()


def test_a_service_is_deleted_only_when_nothing_needs_it(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    with pytest.raises(Conflict, match="hosting instances"):
        enabling.delete(admin, service_of(admin, home))
    live_migrations.begin(admin, uuid)
    hosts.mute.add(home)
    for _ in range(4):
        step_on(hosts)
    away = migration_of(uuid).destination_host or ""
    with pytest.raises(ResourceLocked, match="live-migration"):
        enabling.delete(admin, service_of(admin, away))
    hosts.mute.clear()
    run_to_the_end(hosts)
    enabling.delete(admin, service_of(admin, home))
    assert not Service.objects.using(CELL).filter(host=home).exists()
    assert not HostMapping.objects.filter(host=home).exists()
    assert not ResourceProvider.objects.filter(uuid=provider_of(home)).exists()
    assert Service.objects.using(CELL).filter(host=away).exists()
    instances.delete(admin, uuid)
    run_to_the_end(hosts)
    assert held_by(uuid) == {}
