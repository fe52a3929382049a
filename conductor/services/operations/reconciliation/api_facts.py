"""Facts of the API database: holders of capacity, ports and volumes, and where instances should be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cells.lookup import API_ALIAS
from conductor.core.placement.forest import SHARES
from conductor.network.models import Port
from conductor.placement import allocations
from conductor.placement.models import Allocation, Consumer, ProviderInventory, ResourceProvider
from conductor.services.operations.reconciliation import journal_facts
from conductor.services.operations.reconciliation.journal_facts import JournalFacts
from conductor.volume.models import VolumeAttachment

CHUNK = 5000
DOWN = "DOWN"  # the status of a port


@dataclass(frozen=True, slots=True)
class MappingFact:
    cell: str  # "" while the build has none
    build_run_uuid: str


@dataclass(frozen=True, slots=True)
class PortFact:
    uuid: str
    instance_uuid: str
    host: str
    migrating_to: str = ""
    is_down: bool = False  # its host's network does not carry it, though it is administratively up


@dataclass(frozen=True, slots=True)
class AttachmentFact:
    uuid: str
    volume_uuid: str
    instance_uuid: str
    status: str


@dataclass(frozen=True, slots=True)
class UseFact:
    """An inventory whose `used` is not the sum of its allocations."""

    inventory_id: int
    provider_uuid: str
    resource_class: str
    used: int
    held: int


@dataclass(frozen=True)
class ApiFacts:
    held: Mapping[str, frozenset[str]]  # uuids of the hosts' providers by consumer uuid
    external: frozenset[str]  # consumers that other clients created: neither instances nor moves
    mappings: Mapping[str, MappingFact]  # of instances that are not deleted
    requests: Mapping[str, str]  # uuid of the run, by instance
    ports: Sequence[PortFact]
    attachments: Sequence[AttachmentFact]
    miscounted: Sequence[UseFact]
    journal: JournalFacts


def load() -> ApiFacts:
    """Read the facts with seven queries, and those of the journal."""
    held, external = _held()
    mappings = InstanceMapping.objects.filter(is_deleted=False)
    ports = Port.objects.filter(is_plugged=True).exclude(device_id="")
    attachments = VolumeAttachment.objects.values_list("uuid", "volume__uuid", "instance_uuid", "volume__status")
    return ApiFacts(
        held=held,
        external=external,
        mappings={
            str(uuid): MappingFact(cell or "", str(run))
            for uuid, cell, run in mappings.values_list("instance_uuid", "cell__name", "build_run_uuid")
        },
        requests={str(uuid): str(run) for uuid, run in BuildRequest.objects.values_list("instance_uuid", "run_uuid")},
        ports=[
            PortFact(str(uuid), device, host, to, is_down=is_up and status == DOWN)
            for uuid, device, host, to, status, is_up in ports.values_list(
                "uuid", "device_id", "binding_host", "migrating_to", "status", "is_admin_up"
            )
        ],
        attachments=[
            AttachmentFact(str(uuid), str(volume), str(instance), status)
            for uuid, volume, instance, status in attachments
        ],
        miscounted=_miscounted(),
        journal=journal_facts.load(API_ALIAS),
    )


def deleted(uuids: Sequence[str]) -> set[str]:
    """Return the instances that are deleted according to the API database."""
    found: set[str] = set()
    for start in range(0, len(uuids), CHUNK):
        part = InstanceMapping.objects.filter(
            instance_uuid__in=whole_uuids(uuids[start : start + CHUNK]), is_deleted=True
        )
        found |= {str(uuid) for uuid in part.values_list("instance_uuid", flat=True)}
    return found


def whole_uuids(uuids: Sequence[str]) -> list[str]:
    return [uuid for uuid in uuids if len(uuid) == LENGTH_OF_UUID]  # a port may name any device


LENGTH_OF_UUID = 36


def _held() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Return allocations by consumer. A part of a host counts as the host; a sharing provider is left out."""
    sharing = set(ResourceProvider.objects.filter(trait_links__name=SHARES).values_list("uuid", flat=True))
    held: defaultdict[str, set[str]] = defaultdict(set)
    external = set()
    root = Coalesce("allocations__provider__root__uuid", "allocations__provider__uuid")
    rows = Consumer.objects.values_list("uuid", "consumer_type", "allocations__provider__uuid", root)
    for consumer, kind, provider, host in rows.distinct():
        held[str(consumer)] |= {str(host)} if provider and provider not in sharing else set()
        if kind not in (allocations.INSTANCE, allocations.MIGRATION):
            external.add(str(consumer))
    return {consumer: frozenset(hosts) for consumer, hosts in held.items()}, frozenset(external)


def _miscounted() -> list[UseFact]:
    """Return wrong usage counts. One query, as an allocation between two queries would be counted on one side only."""
    of_inventory = Allocation.objects.filter(provider=OuterRef("provider"), resource_class=OuterRef("resource_class"))
    held = of_inventory.values("resource_class").annotate(total=Sum("amount")).values("total")
    rows = ProviderInventory.objects.annotate(held=Coalesce(Subquery(held), 0)).exclude(used=F("held"))
    columns = ("pk", "provider__uuid", "resource_class", "used", "held")
    return [
        UseFact(pk, str(provider), resource_class, used, total)
        for pk, provider, resource_class, used, total in rows.values_list(*columns)
    ]
