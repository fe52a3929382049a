"""Options of the launch form: images, flavors, networks and all else that can be chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Q

from conductor.cell_db.models import Service
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.core.host_state import HostTable
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import decide
from conductor.core.scheduling.what_if import SEED
from conductor.image.queries import ImageQuery, list_visible
from conductor.network.models import Network, SecurityGroup, Subnet
from conductor.network.operations import shared_with
from conductor.scheduler import hardware_requests, hypotheses
from conductor.services.quotas import quotas
from conductor.services.quotas.types import QuotaView
from conductor.services.servers import create_requests, flavors, groups, keypairs
from conductor.services.servers.flavors import FlavorQuery
from conductor.services.servers.types import GroupView, InstanceCreate, KeyPairView
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeQuery
from conductor.volume.states import AVAILABLE

# Kernels and ramdisks are images too, but none of them boots alone.
PARTS_OF_IMAGES = ("aki", "ari")
MOST_CHOICES = 200


@dataclass(frozen=True)
class ImageOption:
    """An image to boot from; size in bytes."""

    image_id: str
    name: str
    size: int
    min_disk_gb: int
    min_ram_mb: int
    is_simulated: bool


@dataclass(frozen=True)
class NetworkOption:
    """A network to attach, with the ranges of its subnets."""

    network_id: str
    name: str
    is_shared: bool
    ranges: tuple[str, ...]


@dataclass(frozen=True)
class DiskOption:
    """A volume that a server can boot from, or attach besides its root disk."""

    volume_id: str
    name: str
    size_gb: int
    is_bootable: bool


@dataclass(frozen=True)
class LaunchOptions:
    """All options of the launch form for one project."""

    images: list[ImageOption]
    flavors: list[FlavorSpec]
    networks: list[NetworkOption]
    keys: list[KeyPairView]
    zones: list[str]
    quotas: list[QuotaView]
    volumes: list[DiskOption]
    server_groups: list[GroupView]
    security_groups: list[str]


def choices(context: RequestContext) -> LaunchOptions:
    """Return the current options, in the order of the form."""
    return LaunchOptions(
        images=_images(context),
        flavors=[found.spec for found in flavors.list_page(context, FlavorQuery(sort_key="memory_mb")).items],
        networks=_networks(context),
        keys=keypairs.list_page(context, context.user_id).items,
        zones=_zones(),
        quotas=quotas.show(context, context.project_id),
        volumes=_volumes(context),
        server_groups=groups.list_groups(context, limit=MOST_CHOICES),
        security_groups=_security_groups(context),
    )


def _volumes(context: RequestContext) -> list[DiskOption]:
    query = VolumeQuery(filters={"status": AVAILABLE}, limit=MOST_CHOICES)
    rows = [row for row in volumes.list_visible(context, query) if row.project_id == context.project_id]
    return [DiskOption(str(row.uuid), row.name, row.size_gb, row.is_bootable) for row in rows]


def _security_groups(context: RequestContext) -> list[str]:
    mine = SecurityGroup.objects.filter(project_id=context.project_id)
    return list(mine.order_by("name").values_list("name", flat=True)[:MOST_CHOICES])


def _images(context: RequestContext) -> list[ImageOption]:
    query = ImageQuery(filters={"status": ["active"]}, sort=(("name", False),), limit=MOST_CHOICES)
    bootable = [row for row in list_visible(context, query) if row.container_format not in PARTS_OF_IMAGES]
    shown = [
        ImageOption(str(row.uuid), row.name, row.size or 0, row.min_disk_gb, row.min_ram_mb, row.is_simulated)
        for row in bootable
    ]
    return sorted(shown, key=lambda image: (image.is_simulated, image.name))


def _networks(context: RequestContext) -> list[NetworkOption]:
    mine = Q(project_id=context.project_id) | shared_with(context.project_id)
    rows = list(Network.objects.filter(mine, is_external=False, is_admin_up=True).order_by("name", "pk")[:MOST_CHOICES])
    ranges: dict[int, list[str]] = {row.pk: [] for row in rows}
    for network_id, cidr in Subnet.objects.filter(network__in=rows).order_by("pk").values_list("network_id", "cidr"):
        ranges[network_id].append(cidr)
    return [NetworkOption(str(row.uuid), row.name, row.is_shared, tuple(ranges[row.pk])) for row in rows]


def _zones() -> list[str]:
    def ask(alias: str) -> set[str]:
        services = Service.objects.filter(binary="nova-compute", is_disabled=False)
        return set(services.values_list("availability_zone", flat=True))

    gathered = scatter_gather(ask, cell_aliases(with_cell0=False))
    return sorted(set().union(*gathered.answers.values()))


MOST_ASKED = 30  # so that the form responds while the user types; further flavors are evaluated when they are chosen


@dataclass(frozen=True)
class SizeFit:
    """Number of hosts that could take a server of a flavor now, by zone; or the reason why none can."""

    zones: Mapping[str, int] = field(default_factory=dict)
    why_not: str = ""


def of_flavors(context: RequestContext, requested: InstanceCreate, flavors: Sequence[FlavorSpec]) -> dict[str, SizeFit]:
    """Evaluate each flavor, by its id, with all other fields as requested. Nothing is claimed.

    Empty where another field of the request is invalid, as the launch reports that at the field. Also empty where no
    host has reported yet.
    """
    query = flavors[:MOST_ASKED]
    base = _base(context, requested, query)
    if base is None:
        return {}
    table, spec = hypotheses.fleet().table, hypotheses.completed(base)
    if not len(table):
        return {}
    return {flavor.flavor_id: _fit(context, table, spec, flavor) for flavor in query}


def _base(context: RequestContext, requested: InstanceCreate, flavors: Sequence[FlavorSpec]) -> RequestSpec | None:
    """Return the request's spec with the largest flavor that is valid with it."""
    one = replace(requested, min_count=1, max_count=1)
    for flavor in reversed(flavors):
        try:
            return create_requests.check(context, replace(one, flavor_ref=flavor.flavor_id)).spec
        except (Forbidden, Invalid) as error:
            if error.details.get("field") not in (None, "", "flavorRef"):
                return None
    return None


def _fit(context: RequestContext, table: HostTable, spec: RequestSpec, flavor: FlavorSpec) -> SizeFit:
    try:
        create_requests.refuse_too_small(spec.image, flavor)
        if not spec.is_volume_backed:
            create_requests.refuse_diskless(context, flavor)
        hardware_requests.refuse(flavor, spec.image.properties)
        derived = hypotheses.derived(replace(spec, flavor=flavor))
        outcome = decide(table, derived, ["asked"], pipeline=hypotheses.pipeline(), seed=SEED)
    except (Forbidden, Invalid) as error:
        return SizeFit(why_not=error.message)
    if not outcome.is_successful:
        return SizeFit(why_not=explain(outcome).advice[0])
    zones = Counter(str(zone) for zone in table.zones[outcome.shown.filtering.passing])
    return SizeFit(dict(sorted(zones.items())))
