"""What one cell knows of its hosts, read in full once and then by what changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count, Max, Q

from conductor.cell_db import build_failures
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core import image_properties
from conductor.core.states import VmState
from conductor.scheduler import node_facts
from conductor.scheduler.node_facts import NodeFacts
from conductor.transactions import database_now

BINARY = "nova-compute"
Property = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """Whether a host's service is heard, and open."""

    is_up: bool = True
    is_disabled: bool = False
    disabled_reason: str = ""


WELL = ServiceFacts()
UNHEARD = ServiceFacts(is_up=False)


@dataclass(frozen=True)
class CellFacts:
    """Nodes by uuid; `unwell` are the services that are not up and open; `io_ops` counts builds under way by host,
    `failed_builds` those that failed in a row, `image_properties` the instances whose image has a property of a value.

    `newest` and `services` say how far this reading went.
    """

    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    unwell: Mapping[str, ServiceFacts] = field(default_factory=dict)
    service_hosts: frozenset[str] = frozenset()
    io_ops: Mapping[str, int] = field(default_factory=dict)
    failed_builds: Mapping[str, int] = field(default_factory=dict)
    image_properties: Mapping[str, Mapping[Property, int]] = field(default_factory=dict)
    newest: int = -1
    services: tuple[int, int] = (0, 0)

    def service_of(self, host: str) -> ServiceFacts:
        if host not in self.service_hosts:
            return UNHEARD
        return self.unwell.get(host, WELL)


def read(alias: str, known: CellFacts, *, counts_io_ops: bool, counts_images: bool = False) -> CellFacts:
    """The cell's facts now. What `known` has already is not read again.

    `counts_io_ops` asks for what builds do anew, and `counts_images` for the images of all instances, which costs much.
    """
    newest, count = _newest_node(alias)
    services = _services(alias)
    return CellFacts(
        nodes=_nodes(alias, known, newest, count),
        unwell=_unwell(alias),
        service_hosts=known.service_hosts if services == known.services else _service_hosts(alias),
        io_ops=_io_ops(alias) if counts_io_ops else known.io_ops,
        failed_builds=build_failures.in_a_row(alias) if counts_io_ops else known.failed_builds,
        image_properties=_image_properties(alias) if counts_images else known.image_properties,
        newest=newest,
        services=services,
    )


def is_open(alias: str, host: str) -> bool:
    """Whether one host is heard and takes new instances, right now."""
    services = Service.objects.using(alias).filter(binary=BINARY, host=host, is_forced_down=False, is_disabled=False)
    return services.exclude(last_seen_at__lt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)).exists()


def _nodes(alias: str, known: CellFacts, newest: int, count: int) -> Mapping[str, NodeFacts]:
    """The very mapping that is known where nothing changed."""
    if newest == known.newest and count == len(known.nodes):
        return known.nodes
    if known.nodes and newest > known.newest:
        nodes = {**known.nodes, **node_facts.read(alias, since=known.newest)}
        if len(nodes) == count:
            return nodes
    return node_facts.read(alias)


def _newest_node(alias: str) -> tuple[int, int]:
    found = ComputeNode.objects.using(alias).aggregate(newest=Max("change_number"), count=Count("pk"))
    return (-1 if found["newest"] is None else found["newest"]), found["count"]


def _services(alias: str) -> tuple[int, int]:
    found = Service.objects.using(alias).filter(binary=BINARY).aggregate(count=Count("pk"), newest=Max("pk"))
    return found["count"], found["newest"] or 0


def _service_hosts(alias: str) -> frozenset[str]:
    return frozenset(Service.objects.using(alias).filter(binary=BINARY).values_list("host", flat=True))


def _unwell(alias: str) -> dict[str, ServiceFacts]:
    """Most services are well: only the others are read, by the database's clock."""
    is_silent = Q(last_seen_at__lt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS))
    services = Service.objects.using(alias).filter(binary=BINARY)
    silent = set(services.filter(is_silent | Q(is_forced_down=True)).values_list("host", flat=True))
    disabled = dict(services.filter(is_disabled=True).values_list("host", "disabled_reason"))
    return {
        host: ServiceFacts(host not in silent, host in disabled, disabled.get(host) or "")
        for host in silent | disabled.keys()
    }


def _io_ops(alias: str) -> dict[str, int]:
    building = Instance.objects.using(alias).alive().filter(vm_state=VmState.BUILDING, host__isnull=False)
    return dict(building.values_list("host").annotate(count=Count("pk")))


def _image_properties(alias: str) -> dict[str, Counter[Property]]:
    """Per host, how many instances have an image with a property of that value."""
    found: defaultdict[str, Counter[Property]] = defaultdict(Counter)
    instances = Instance.objects.using(alias).alive().filter(host__isnull=False)
    for host, properties in instances.values_list("host", "image__properties").iterator():
        found[str(host)].update(image_properties.counted(properties or {}))
    return dict(found)
