"""A cloud's rows without its processes: cells, sizes, an image, a network, hosts and instances."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from conductor.api_db.models import CellMapping, HostMapping, InstanceMapping
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core.compute_driver import CAPABILITIES
from conductor.core.context import RequestContext
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.db.transactions import database_now, database_time
from conductor.image.models import Image
from conductor.network import seed as network_seed
from conductor.network.models import Network
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.servers import flavors
from tests import replayed_rows
from tests.fleet import add_host, provider_of
from tests.people import People

CELLS = ("cell0", "cell1", "cell2")
TINY = FlavorSpec(flavor_id="1", name="tiny", vcpus=1, memory_mb=128, root_gb=1)


@dataclass(frozen=True)
class Cloud:
    """The common needs of all launches."""

    people: People
    image: Image
    network: Network


def make_cloud(people: People) -> Cloud:
    """Cells, the shipped sizes, the shared network and one public image that needs 96 MB."""
    for name in CELLS:
        CellMapping.objects.create(name=name)
    seed_cloud(people)
    return Cloud(people, make_image(people, "little-linux"), Network.objects.get(name="private"))


def seed_cloud(people: People, *hosts: str) -> None:
    """Create the flavors and networks of a new cloud, and large hosts in cell1."""
    owner = people.admin.project.id

    def seed() -> None:
        flavors.seed()
        network_seed.seed(owner)
        for host in hosts:
            add_host(host, "cell1", size=(64, 65536, 1000))

    known = {host: UUID(provider_of(host)).hex for host in hosts}
    replayed_rows.insert(" ".join(("cloud", *hosts)), seed, owner=owner, **known)


def make_image(people: People, name: str, **values: Any) -> Image:
    given = {"status": "active", "visibility": "public", "disk_format": "raw", "container_format": "bare"}
    given |= {"size": 1024, "min_ram_mb": 96, "created_at": database_now(), "updated_at": database_now()}
    made = Image.objects.create(name=name, project_id=people.admin.project.id, **(given | values))
    return Image.objects.get(pk=made.pk)


def make_host(cell: str, host: str, *, zone: str = "az-1", **values: Any) -> Service:
    """Create a compute service with a fresh heartbeat, its node and its mapping."""
    now = {"created_at": database_now()}
    HostMapping.objects.create(host=host, cell=CellMapping.objects.get(name=cell))
    ComputeNode.objects.using(cell).create(
        host=host,
        node=f"{host}.example",
        driver="fake",
        hypervisor_type="fake",
        is_simulated=values.get("is_simulated", True),
        hypervisor_version=1000,
        report={
            "inventory": {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 100}},
            "capabilities": {"actions": sorted(set(CAPABILITIES) - {"diagnostics", "guest_password"})},
        },
        updated_at=database_now(),
        **now,
    )
    given = {"binary": "nova-compute", "availability_zone": zone, "is_simulated": True, "last_seen_at": database_now()}
    given["version"] = SERVICE_VERSION
    return Service.objects.using(cell).create(host=host, **(given | now | values))


def make_instance(context: RequestContext, cell: str, name: str, **values: Any) -> Instance:
    """Return an instance that its cell has built, with its mapping."""
    created_at = values.pop("created_at", None) or database_time()
    instance_uuid = values.pop("uuid", None) or uuid.uuid4()
    is_deleted = values.get("deleted_at") is not None
    InstanceMapping.objects.create(
        instance_uuid=instance_uuid,
        cell=CellMapping.objects.get(name=cell),
        project_id=context.project_id,
        user_id=context.user_id,
        vcpus=1,
        memory_mb=128,
        build_run_uuid=uuid.uuid4(),
        is_deleted=is_deleted,
        created_at=created_at,
    )
    given: dict[str, Any] = {
        "project_id": context.project_id,
        "user_id": context.user_id,
        "hostname": name,
        "vm_state": "active",
        "power_state": 1,
        "flavor": asdict(TINY),
        "image": asdict(ImageSpec(image_id=str(uuid.uuid4()), name="little-linux")),
        "reservation_id": "r-00000000",
    }
    made = Instance.objects.using(cell).create(
        uuid=instance_uuid, name=name, created_at=created_at, updated_at=database_now(), **(given | values)
    )
    return Instance.objects.using(cell).get(pk=made.pk)
