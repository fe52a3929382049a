"""A fleet of hosts in the real databases, as host reports would have written it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from django.db.models import Max

from conductor.api_db.models import Aggregate, AggregateHost, CellMapping, HostMapping, InstanceMapping
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core.compute_driver import CAPABILITIES, Inventory
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.states import VmState
from conductor.db.transactions import database_now
from conductor.placement import inventories
from conductor.rpc.versions import SERVICE_VERSION

SHOP = "5" * 32
LAB = "6" * 32
ANA = "a" * 32
SIMULATED = (("x86_64", "fake", "hvm"),)
REAL = (("x86_64", "qemu", "hvm"),)


def provider_of(host: str) -> str:
    """Return the uuid of the provider of a host of this fleet."""
    return str(uuid5(NAMESPACE_DNS, host))


def add_cells(*names: str) -> None:
    for name in ("cell0", *names):
        CellMapping.objects.get_or_create(name=name)


def add_host(
    host: str,
    cell: str = "cell1",
    *,
    zone: str = "",
    size: tuple[int, int, int] = (8, 16384, 100),
    offers: tuple[tuple[str, str, str], ...] = SIMULATED,
    **report: Any,
) -> str:
    """Create a host of `size` (vCPUs, MB of memory, GB of disk) with a heartbeat; returns its provider's uuid."""
    add_cells(cell)
    uuid = provider_of(host)
    now = database_now()
    newest = ComputeNode.objects.using(cell).aggregate(newest=Max("change_number"))["newest"] or 0
    Service.objects.using(cell).create(
        binary="nova-compute", host=host, version=SERVICE_VERSION, is_simulated=offers == SIMULATED, last_seen_at=now,
        created_at=now,
    )  # fmt: skip
    ComputeNode.objects.using(cell).create(
        uuid=uuid,
        host=host,
        node=host,
        driver="fake",
        is_simulated=offers == SIMULATED,
        hypervisor_type=offers[0][1],
        hypervisor_version=8002000,
        report={"supported_instances": offers, "capabilities": {"actions": sorted(CAPABILITIES)}, **report},
        change_number=newest + 1,
        created_at=now,
        updated_at=now,
    )
    HostMapping.objects.create(host=host, cell=CellMapping.objects.get(name=cell))
    inventories.report(uuid, host, inventory_of(size), report.get("traits", ()))
    if zone:
        put_into_zone(zone, [host])
    return uuid


def inventory_of(size: tuple[int, int, int]) -> dict[str, Inventory]:
    vcpus, memory_mb, disk_gb = size
    return {"VCPU": Inventory(vcpus), "MEMORY_MB": Inventory(memory_mb), "DISK_GB": Inventory(disk_gb)}


def put_into_zone(zone: str, hosts: Iterable[str], **metadata: str) -> None:
    values = {"availability_zone": zone, **metadata}
    aggregate, _ = Aggregate.objects.get_or_create(name=zone, defaults={"metadata": values})
    for host in hosts:
        AggregateHost.objects.create(aggregate=aggregate, host=host)


def silence(host: str, cell: str = "cell1") -> None:
    """Set the host's last heartbeat to an hour ago."""
    an_hour = timedelta(hours=1)
    service = Service.objects.using(cell).get(host=host)
    Service.objects.using(cell).filter(pk=service.pk).update(last_seen_at=service.last_seen_at - an_hour)


def add_instance(uuid: str, host: str, cell: str = "cell1", *, vm_state: str = VmState.ACTIVE) -> None:
    """Create an instance of the shop on `host`; nothing is claimed for it."""
    now = database_now()
    home = CellMapping.objects.get(name=cell)
    InstanceMapping.objects.create(
        instance_uuid=uuid, cell=home, project_id=SHOP, user_id=ANA, build_run_uuid=UUID(int=0), created_at=now
    )
    Instance.objects.using(cell).create(
        uuid=uuid,
        project_id=SHOP,
        user_id=ANA,
        name="web",
        hostname="web",
        host=host,
        node=host,
        vm_state=vm_state,
        flavor={},
        image={},
        reservation_id="r-1",
        created_at=now,
        updated_at=now,
    )


def requested(
    *, vcpus: int = 1, memory_mb: int = 512, disk_gb: int = 1, image: Mapping[str, str] | None = None, **more: Any
) -> RequestSpec:
    """Return a request of the shop."""
    extra_specs = more.pop("extra_specs", {})
    flavor = FlavorSpec("1", "small", vcpus, memory_mb, root_gb=disk_gb, extra_specs=extra_specs)
    return RequestSpec(SHOP, ANA, flavor, ImageSpec(properties=dict(image or {})), **more)
