"""What somebody who launches a server can choose from."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from conductor.cell_db.models import Service
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.request_spec import FlavorSpec
from conductor.image.queries import ImageQuery, list_visible
from conductor.network.models import Network, SecurityGroup, Subnet
from conductor.network.operations import shared_with
from conductor.services import flavors, instance_groups, keypairs, quotas, volumes
from conductor.services.flavors import FlavorQuery
from conductor.services.values import GroupView, KeyPairView, QuotaView
from conductor.services.volumes import VolumeQuery
from conductor.volume.states import AVAILABLE

# Kernels and ramdisks are images too, but nothing boots from one alone.
PARTS_OF_IMAGES = ("aki", "ari")
MOST_CHOICES = 200


@dataclass(frozen=True)
class ImageChoice:
    """An image to boot from; size in bytes."""

    image_id: str
    name: str
    size: int
    min_disk_gb: int
    min_ram_mb: int
    is_simulated: bool


@dataclass(frozen=True)
class NetworkChoice:
    """A network to plug, with the ranges of its subnets."""

    network_id: str
    name: str
    is_shared: bool
    ranges: tuple[str, ...]


@dataclass(frozen=True)
class DiskChoice:
    """A volume that a server can boot from, or have beside its root disk."""

    volume_id: str
    name: str
    size_gb: int
    is_bootable: bool


@dataclass(frozen=True)
class LaunchChoices:
    """Everything that the launch form offers to one project."""

    images: list[ImageChoice]
    flavors: list[FlavorSpec]
    networks: list[NetworkChoice]
    keys: list[KeyPairView]
    zones: list[str]
    quotas: list[QuotaView]
    volumes: list[DiskChoice]
    server_groups: list[GroupView]
    security_groups: list[str]


def choices(context: RequestContext) -> LaunchChoices:
    """What there is to choose from right now, in the order in which to show it."""
    return LaunchChoices(
        images=_images(context),
        flavors=[found.spec for found in flavors.list_page(context, FlavorQuery(sort_key="memory_mb")).items],
        networks=_networks(context),
        keys=keypairs.list_page(context, context.user_id).items,
        zones=_zones(),
        quotas=quotas.show(context, context.project_id),
        volumes=_volumes(context),
        server_groups=instance_groups.list_groups(context, limit=MOST_CHOICES),
        security_groups=_security_groups(context),
    )


def _volumes(context: RequestContext) -> list[DiskChoice]:
    query = VolumeQuery(filters={"status": AVAILABLE}, limit=MOST_CHOICES)
    rows = [row for row in volumes.list_visible(context, query) if row.project_id == context.project_id]
    return [DiskChoice(str(row.uuid), row.name, row.size_gb, row.is_bootable) for row in rows]


def _security_groups(context: RequestContext) -> list[str]:
    mine = SecurityGroup.objects.filter(project_id=context.project_id)
    return list(mine.order_by("name").values_list("name", flat=True)[:MOST_CHOICES])


def _images(context: RequestContext) -> list[ImageChoice]:
    query = ImageQuery(filters={"status": ["active"]}, sort=(("name", False),), limit=MOST_CHOICES)
    bootable = [row for row in list_visible(context, query) if row.container_format not in PARTS_OF_IMAGES]
    shown = [
        ImageChoice(str(row.uuid), row.name, row.size or 0, row.min_disk_gb, row.min_ram_mb, row.is_simulated)
        for row in bootable
    ]
    return sorted(shown, key=lambda image: (image.is_simulated, image.name))


def _networks(context: RequestContext) -> list[NetworkChoice]:
    mine = Q(project_id=context.project_id) | shared_with(context.project_id)
    rows = list(Network.objects.filter(mine, is_external=False, is_admin_up=True).order_by("name", "pk")[:MOST_CHOICES])
    ranges: dict[int, list[str]] = {row.pk: [] for row in rows}
    for network_id, cidr in Subnet.objects.filter(network__in=rows).order_by("pk").values_list("network_id", "cidr"):
        ranges[network_id].append(cidr)
    return [NetworkChoice(str(row.uuid), row.name, row.is_shared, tuple(ranges[row.pk])) for row in rows]


def _zones() -> list[str]:
    def ask(alias: str) -> set[str]:
        services = Service.objects.filter(binary="nova-compute", is_disabled=False)
        return set(services.values_list("availability_zone", flat=True))

    gathered = scatter_gather(ask, cell_aliases(with_cell0=False))
    return sorted(set().union(*gathered.answers.values()))
