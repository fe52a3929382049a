"""Each kind of finding: planted, seen by a dry run that changes nothing, repaired or left, and gone afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from conductor.api_db.models import BuildRequest, CellMapping, Finding, InstanceMapping
from conductor.cell_db.models import BlockDevice, Instance, InstanceFault, Migration, Service
from conductor.core.placement.amounts import Amount
from conductor.core.states import MigrationStatus, RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import Event, LockWait, OutboxMessage, ResourceLock, StepRecord, WorkflowRun
from conductor.network.models import Port
from conductor.network.ovn.health import OvnHealth
from conductor.placement import allocations, consumers_allocations, inventories, providers
from conductor.placement.consumers_allocations import ConsumerAllocations, ProviderAllocation
from conductor.placement.models import Consumer, ProviderInventory
from conductor.services.networks import ovn_state
from conductor.services.networks.ovn_state import OvnState
from conductor.services.operations.reconciliation import reconciler
from conductor.services.operations.reconciliation.kinds import KINDS
from conductor.services.operations.reconciliation.reconciler import RepairOutcome
from conductor.volume.models import Volume, VolumeAttachment
from tests import factories
from tests.all_rows import everything
from tests.fleet import provider_of
from tests.integration.flows.moving import CELL, Hosts, held_by, instance_of

NOWHERE = "00000000-0000-4000-8000-00000000dead"


@dataclass
class Cloud:
    """`alive` is a server that runs on `host`, `dead` one that was deleted properly."""

    alive: str
    dead: str
    host: str
    caller: Any
    patch: pytest.MonkeyPatch

    @property
    def row(self) -> Any:
        return Instance.objects.using(CELL).filter(uuid=self.alive)


@pytest.fixture
def cloud(hosts: Hosts, launch: Any, ana: Any, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    from conductor.services.servers import instances
    from tests.integration.flows.moving import run_to_the_end

    alive, dead = launch("web-1"), launch("web-2")
    instances.delete(ana, dead)
    run_to_the_end(hosts)
    report_guests({instance_of(alive).host or "": [alive]})
    return Cloud(alive, dead, instance_of(alive).host or "", ana, monkeypatch)


def report_guests(guests: dict[str, list[str]]) -> None:
    """Store reported guests, as hosts' reports do."""
    for row in Service.objects.using(CELL).filter(binary="nova-compute"):
        reported = dict.fromkeys(guests.get(row.host, []), 1)
        Service.objects.using(CELL).filter(pk=row.pk).update(guests=reported, last_seen_at=database_now())


def ended_run(cloud: Cloud, alias: str = CELL) -> WorkflowRun:
    return factories.run(cloud.caller, alias, state=RunState.DONE, owner=None, finished_at=database_now())


# -- capacity


def hold(cloud: Cloud, consumer: str, host: str = "sim-1") -> None:
    claim = allocations.Claim(consumer, provider_of(host), {"VCPU": 2}, cloud.caller.project_id, cloud.caller.user_id)
    allocations.claim(claim)


def unowned_allocation(cloud: Cloud) -> Callable[[], bool]:
    hold(cloud, cloud.dead)
    return lambda: not Consumer.objects.filter(uuid=cloud.dead).exists()


def allocation_of_failed_move(cloud: Cloud) -> None:
    hold(cloud, str(move(cloud.alive, MigrationStatus.ERROR).uuid))


def allocation_without_host(cloud: Cloud) -> Callable[[], bool]:
    cloud.row.update(host=None, node=None, vm_state="shelved_offloaded")
    Port.objects.all().delete()
    return lambda: held_by(cloud.alive) == {}


def instance_without_allocation(cloud: Cloud) -> Callable[[], bool]:
    before = held_by(cloud.alive)
    allocations.release([cloud.alive])
    assert before
    return lambda: held_by(cloud.alive) == before


def allocation_on_wrong_host(cloud: Cloud) -> None:
    allocations.release([cloud.alive])
    hold(cloud, cloud.alive, "sim-2" if cloud.host != "sim-2" else "sim-3")


def usage_miscounted(cloud: Cloud) -> Callable[[], bool]:
    row = ProviderInventory.objects.get(provider__uuid=provider_of(cloud.host), resource_class="VCPU")
    ProviderInventory.objects.filter(pk=row.pk).update(used=row.used + 3)
    return lambda: ProviderInventory.objects.get(pk=row.pk).used == row.used


# -- ports and volumes


def port_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    Port.objects.filter(device_id=cloud.alive).update(device_id=cloud.dead)
    return lambda: not Port.objects.exists()


def port_of_unknown(cloud: Cloud) -> None:
    Port.objects.filter(device_id=cloud.alive).update(device_id=NOWHERE)


def port_on_wrong_host(cloud: Cloud) -> Callable[[], bool]:
    Port.objects.update(binding_host="moon")
    return lambda: Port.objects.get().binding_host == cloud.host


def port_not_bound(cloud: Cloud) -> None:
    Port.objects.update(status="DOWN")


def gateway_dead(cloud: Cloud) -> None:
    report_ovn(cloud, OvnHealth(9, 9, {"net-1": 7, "net-2": 8, "vm-1": 2}, frozenset({"net-1", "net-2"})))


def ovn_row_contested(cloud: Cloud) -> None:
    report_ovn(cloud, OvnHealth(9, 9, {}, contested=("ACL 7",)))


def report_ovn(cloud: Cloud, found: OvnHealth) -> None:
    cloud.patch.setattr(ovn_state, "is_configured", lambda: True)
    cloud.patch.setattr(ovn_state, "read", lambda *, seconds: OvnState(1.0, found))


def lend(cloud: Cloud, to: str, status: str = "in-use") -> VolumeAttachment:
    now = database_now()
    volume = Volume.objects.create(
        project_id=cloud.caller.project_id, user_id=cloud.caller.user_id, size_gb=1, status=status, created_at=now,
        updated_at=now,
    )  # fmt: skip
    return VolumeAttachment.objects.create(volume=volume, instance_uuid=to, device="/dev/vdb", host=cloud.host)


def device(of: str, volume: Any, **values: Any) -> None:
    BlockDevice.objects.using(CELL).create(
        instance_uuid=of, volume_uuid=volume, device_name="/dev/vdb", created_at=database_now(), **values
    )


def volume_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    row = lend(cloud, cloud.dead)
    return lambda: Volume.objects.get(pk=row.volume_id).status == "available" and not VolumeAttachment.objects.exists()


def device_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    device(cloud.dead, uuid4())
    return lambda: not BlockDevice.objects.using(CELL).exists()


def volume_half_lent(cloud: Cloud) -> None:
    row = lend(cloud, cloud.alive, "detaching")
    device(cloud.alive, row.volume.uuid, uuid=row.uuid)


def attachment_without_device(cloud: Cloud) -> None:
    lend(cloud, cloud.alive)


def device_without_attachment(cloud: Cloud) -> None:
    device(cloud.alive, uuid4())


# -- instances and their hosts' reports


def state_without_workflow(cloud: Cloud) -> Callable[[], bool]:
    cloud.row.update(task_state="powering-off")
    return lambda: (
        instance_of(cloud.alive).task_state is None
        and instance_of(cloud.alive).vm_state == "active"
        and InstanceFault.objects.using(CELL).filter(instance_uuid=cloud.alive).count() == 1
    )


def instance_doubled(cloud: Cloud) -> None:
    row = instance_of(cloud.alive)
    row.pk, row.host, row.node = None, None, None
    row.save(using="cell2", force_insert=True)


def instance_unmapped(cloud: Cloud) -> None:
    InstanceMapping.objects.filter(instance_uuid=cloud.alive).delete()


def instance_missing(cloud: Cloud) -> None:
    InstanceMapping.objects.create(
        instance_uuid=NOWHERE, cell=CellMapping.objects.get(name=CELL), project_id="p", user_id="u",
        build_run_uuid=uuid4(), created_at=database_now(),
    )  # fmt: skip


def mapping_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    InstanceMapping.objects.filter(instance_uuid=cloud.dead).update(is_deleted=False)
    return lambda: InstanceMapping.objects.get(instance_uuid=cloud.dead).is_deleted


def mapping_of_nothing(cloud: Cloud) -> Callable[[], bool]:
    InstanceMapping.objects.create(
        instance_uuid=NOWHERE, project_id="p", user_id="u", build_run_uuid=uuid4(), created_at=database_now()
    )
    return lambda: InstanceMapping.objects.get(instance_uuid=NOWHERE).is_deleted


def request_without_workflow(cloud: Cloud) -> Callable[[], bool]:
    BuildRequest.objects.create(
        instance_uuid=cloud.alive, project_id="p", run_uuid=uuid4(), instance={}, created_at=database_now()
    )
    return lambda: not BuildRequest.objects.exists()


# -- workflows


def lock_of_ended_workflow(cloud: Cloud) -> Callable[[], bool]:
    factories.lock(ended_run(cloud), f"instance:{cloud.alive}")
    return lambda: not ResourceLock.objects.using(CELL).exists()


def lock_of_absent_workflow(cloud: Cloud) -> Callable[[], bool]:
    ResourceLock.objects.create(
        resource=f"volume:{NOWHERE}", holder_uuid=uuid4(), holder_alias=CELL, granted_at=database_now()
    )
    return lambda: not ResourceLock.objects.exists()


def wait_of_ended_workflow(cloud: Cloud) -> Callable[[], bool]:
    LockWait.objects.using(CELL).create(resource=f"instance:{cloud.alive}", run=ended_run(cloud))
    return lambda: not LockWait.objects.using(CELL).exists()


def workflow_not_taken_up(cloud: Cloud) -> None:
    factories.run(cloud.caller, CELL, wake_at=factories.ago(3600), owner=None)


def undo_held_up_by_host(cloud: Cloud) -> Callable[[], bool]:
    left = "Port p stays with the server until host sim-1 lets it go."
    ended = {
        "state": RunState.FAILED_NOT_CLEAN,
        "uncompensated": [left],
        "owner": None,
        "finished_at": factories.ago(900),
    }
    run = factories.run(cloud.caller, CELL, instance_uuid=cloud.dead, **ended)
    StepRecord.objects.using(CELL).create(
        run=run, index=0, name="PlugPort", direction="undo", attempt=1, try_number=3, step_key="k", fencing_token=1,
        state=StepState.UNDO_FAILED, error={"class": "KeptByHost", "message": left}, started_at=factories.ago(900),
    )  # fmt: skip
    rows = WorkflowRun.objects.using(CELL).filter(pk=run.pk)
    return lambda: rows.values_list("state", "uncompensated").get() == (RunState.FAILED_UNDONE, [])


def move(of: str, status: str, **values: Any) -> Migration:
    now = database_now()
    return Migration.objects.using(CELL).create(
        instance_uuid=of, migration_type="migration", status=status, source_host="sim-1", project_id="p", user_id="u",
        created_at=now, updated_at=now, **values,
    )  # fmt: skip


def move_without_workflow(cloud: Cloud) -> Callable[[], bool]:
    row = move(cloud.alive, MigrationStatus.MIGRATING)
    return lambda: Migration.objects.using(CELL).get(pk=row.pk).status == MigrationStatus.ERROR


# -- guests


def other_host(cloud: Cloud) -> str:
    return "sim-2" if cloud.host != "sim-2" else "sim-3"


def guest_doubled(cloud: Cloud) -> None:
    report_guests({cloud.host: [cloud.alive], other_host(cloud): [cloud.alive]})


def guest_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    report_guests({cloud.host: [cloud.alive], other_host(cloud): [cloud.dead]})

    def is_reported() -> bool:
        deferred = OutboxMessage.objects.using(CELL).filter(is_deferred=True, host=other_host(cloud))
        return [row.body["body"]["instance_uuid"] for row in deferred] == [cloud.dead]

    return is_reported


def report_kept(host: str, uuid: str) -> None:
    Service.objects.using(CELL).filter(binary="nova-compute", host=host).update(kept=[uuid])


def disks_kept_of_dead_instance(cloud: Cloud) -> Callable[[], bool]:
    report_kept(cloud.host, cloud.dead)

    def is_reported() -> bool:
        (deferred,) = OutboxMessage.objects.using(CELL).filter(is_deferred=True, host=cloud.host)
        return (deferred.body["message"], deferred.body["body"]["instance_uuid"]) == ("confirm_migration", cloud.dead)

    return is_reported


def disks_kept_without_move(cloud: Cloud) -> None:
    report_kept(cloud.host, cloud.alive)


def unowned_guest(cloud: Cloud) -> None:
    report_guests({cloud.host: [cloud.alive, NOWHERE]})


def guest_missing(cloud: Cloud) -> None:
    report_guests({})


PLANTS: dict[str, Callable[[Cloud], Callable[[], bool] | None]] = {
    "unowned_allocation": unowned_allocation,
    "unmanaged_guest": unowned_guest,
} | {
    plant.__name__: plant
    for plant in (
        allocation_of_failed_move, allocation_without_host, instance_without_allocation,
        allocation_on_wrong_host, port_not_bound, gateway_dead, ovn_row_contested,
        usage_miscounted, port_of_dead_instance, port_of_unknown, port_on_wrong_host, volume_of_dead_instance,
        device_of_dead_instance, volume_half_lent, attachment_without_device, device_without_attachment,
        state_without_workflow, instance_doubled, instance_unmapped, instance_missing, mapping_of_dead_instance,
        mapping_of_nothing, request_without_workflow, lock_of_ended_workflow, lock_of_absent_workflow,
        wait_of_ended_workflow, workflow_not_taken_up, move_without_workflow, guest_doubled, guest_of_dead_instance,
        guest_missing, undo_held_up_by_host, disks_kept_of_dead_instance, disks_kept_without_move,
    )
}  # fmt: skip
# All that a finding without repair may write.
RECORD = {"default.api_db_finding", "default.journal_event"}


def found_by(**options: Any) -> dict[str, RepairOutcome]:
    return {one.kind.name: one.outcome for one in reconciler.reconcile(**options).judged}


def test_every_kind_is_planted() -> None:
    assert set(PLANTS) == {kind.name for kind in KINDS}


@pytest.mark.parametrize("name", PLANTS)
def test_a_kind_is_found_and_repaired_or_left(name: str, cloud: Cloud) -> None:
    assert found_by(grace_seconds=0) == {}
    is_repaired = PLANTS[name](cloud)
    planted = everything()

    assert found_by(is_dry_run=True, grace_seconds=0).keys() == {name}
    assert everything() == planted

    outcomes = found_by(grace_seconds=0)
    row = Finding.objects.get(kind=name)
    kinds = list(Event.objects.filter(topic=f"finding:{name}").order_by("pk").values_list("kind", flat=True))
    if is_repaired is None:
        assert outcomes[name] == RepairOutcome.LEFT
        assert (row.repaired_at, row.gone_at, kinds) == (None, None, ["finding.found"])
        after = everything()
        assert {table for table in planted if after[table] != planted[table]} == RECORD
    else:
        assert outcomes[name] == RepairOutcome.REPAIRED
        assert is_repaired()
        assert row.repaired_at is not None
        assert kinds == ["finding.found", "finding.repaired"]
        assert found_by(grace_seconds=0) == {}


@pytest.mark.parametrize("values", [{"is_admin_up": False}, {"status": "ACTIVE"}])
def test_only_a_port_that_should_be_up_is_reported(values: dict[str, Any], cloud: Cloud) -> None:
    Port.objects.update(**{"status": "DOWN", **values})

    assert found_by(grace_seconds=0) == {}


def test_a_port_of_a_server_that_is_off_may_be_down(cloud: Cloud) -> None:
    Port.objects.update(status="DOWN")
    Instance.objects.using(CELL).filter(uuid=cloud.alive).update(vm_state="stopped")

    assert found_by(grace_seconds=0) == {}


def test_only_gateways_that_are_behind_northd_are_reported(cloud: Cloud) -> None:
    gateway_dead(cloud)

    assert found_by(grace_seconds=0) == {"gateway_dead": RepairOutcome.LEFT}
    finding = Finding.objects.get()
    assert finding.subject == "gateway:net-1"
    assert "ovn-sbctl chassis-del net-1" in finding.detail


def test_a_port_is_left_to_the_host_of_its_server_after_a_move_that_ended(cloud: Cloud) -> None:
    Port.objects.update(migrating_to="moon")
    assert found_by(grace_seconds=0) == {"port_on_wrong_host": RepairOutcome.REPAIRED}
    assert Port.objects.values_list("binding_host", "migrating_to").get() == (cloud.host, "")
    assert Finding.objects.get().detail.startswith(f"Port {Port.objects.get().uuid} is bound to {cloud.host} and moon")


def test_allocations_of_a_migration_of_a_deleted_server_are_released(cloud: Cloud) -> None:
    row = move(cloud.dead, MigrationStatus.ERROR)
    hold(cloud, str(row.uuid))
    assert found_by(grace_seconds=0) == {"unowned_allocation": RepairOutcome.REPAIRED}
    assert held_by(str(row.uuid)) == {}
    assert found_by(grace_seconds=0) == {}


def test_allocations_of_other_consumers_and_providers_within_a_host_are_no_findings(cloud: Cloud) -> None:
    home = provider_of(cloud.host)
    part = providers.create("part", parent=home).uuid
    inventories.replace(part, {"VGPU": Amount(2)}, 0)
    held = consumers_allocations.of_consumer(cloud.alive)
    shares = {**held.allocations, part: ProviderAllocation(0, {"VGPU": 1})}
    consumers_allocations.put([replace(held, allocations=shares)])
    unmanaged = ConsumerAllocations(NOWHERE, "p", "u", None, "CUSTOM", {part: ProviderAllocation(0, {"VGPU": 1})})
    consumers_allocations.put([unmanaged])
    assert found_by(grace_seconds=0) == {}
    assert consumers_allocations.of_consumer(NOWHERE).allocations
