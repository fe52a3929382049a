"""Hardware of hosts: their reports, and the CPUs, pages and devices that each consumer has.

A claim is decided on the host's state inside the transaction that grants the allocations, not on a scheduler's
snapshot: so no two consumers ever have the same CPU or device.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections

from conductor.core.hardware import wire
from conductor.core.hardware.fit import Limits
from conductor.core.hardware.grants import HardwareGrant, HardwareRequest, Host, grant
from conductor.core.hardware.topology import HostTopology, PciPool, pools_of
from conductor.db.transactions import write_tx
from conductor.placement import statements
from conductor.placement.allocations import ProviderFull
from conductor.placement.changes import ALIAS, chunks, touch
from conductor.placement.models import Consumer, HardwareClaim, HostHardware, ProviderInventory, ResourceProvider

Json = Mapping[str, Any]
Inside = tuple[HostTopology | None, tuple[PciPool, ...]]
NOTHING: Inside = (None, ())


def report(provider_uuid: UUID | str, cells: Sequence[Json], devices: Sequence[Json]) -> None:
    """Store a host's hardware report. An unchanged one writes nothing. Raises Invalid."""
    wire.host_from_json(cells, devices)
    fields = {"cells": [dict(cell) for cell in cells], "devices": [dict(device) for device in devices]}
    known = HostHardware.objects.filter(provider__uuid=provider_uuid).values("cells", "devices").first()
    if known == fields or (known is None and not cells and not devices):
        return
    with write_tx(ALIAS):
        provider = ResourceProvider.objects.select_for_update().filter(uuid=provider_uuid).first()
        if provider is None:
            return  # removed since the report: the next report creates both
        HostHardware.objects.update_or_create(provider=provider, defaults=fields)
        touch([provider.pk])


def claim(consumer_uuid: str, provider_uuid: str, wanted: HardwareRequest) -> None:
    """Assign the requested hardware to the consumer. Call it inside the transaction that granted its allocations.

    That transaction locks the provider's row, so no other claim interferes. A consumer that has its share already is
    not changed. Raises ProviderFull where too little is left.
    """
    if not wanted:
        return
    provider = ResourceProvider.objects.select_for_update().get(uuid=provider_uuid)
    consumer = Consumer.objects.get(uuid=consumer_uuid)
    claims = HardwareClaim.objects.filter(provider=provider)
    held = {pk: wire.grant_from_json(given) for pk, given in claims.values_list("consumer_id", "grant")}
    if consumer.pk in held:
        return
    given = grant(_host(provider.pk).without(held.values()), wanted, _limits(provider.pk))
    if given is None:
        raise ProviderFull(
            f"Resource provider {provider_uuid} has not the NUMA cells or PCI devices left.",
            provider_uuid=provider_uuid,
            resource_class="",
        )
    HardwareClaim.objects.create(consumer=consumer, provider=provider, grant=wire.grant_to_json(given))


def held_by(consumer_uuid: UUID | str) -> dict[str, HardwareGrant]:
    """Return the consumer's hardware, by provider uuid."""
    rows = statements.hardware_of(connections[ALIAS], consumer_uuid)
    return {str(UUID(str(provider))): wire.grant_from_json(json.loads(given)) for provider, given in rows}


def restore(consumer_uuid: UUID | str, held: Mapping[str, HardwareGrant]) -> None:
    """Restore a consumer's former hardware. Call it inside the transaction in which another consumer gave it up."""
    consumer = Consumer.objects.filter(uuid=consumer_uuid).first()
    if consumer is None:
        return
    for provider in ResourceProvider.objects.filter(uuid__in=list(held)):
        HardwareClaim.objects.get_or_create(
            consumer=consumer, provider=provider, defaults={"grant": wire.grant_to_json(held[str(provider.uuid)])}
        )


def inside_of(provider_uuids: Iterable[str]) -> dict[str, Inside]:
    """Return free cells and devices by provider uuid. Providers without a report are left out."""
    wanted = list(provider_uuids)
    if not wanted or not HostHardware.objects.exists():
        return {}
    found: dict[str, Inside] = {}
    for part in chunks(wanted):
        held: defaultdict[str, list[HardwareGrant]] = defaultdict(list)
        claims = HardwareClaim.objects.filter(provider__uuid__in=part)
        for uuid, given in claims.values_list("provider__uuid", "grant"):
            held[str(uuid)].append(wire.grant_from_json(given))
        rows = HostHardware.objects.filter(provider__uuid__in=part)
        for uuid, cells, devices in rows.values_list("provider__uuid", "cells", "devices"):
            free = wire.host_from_json(cells, devices).without(held[str(uuid)])
            found[str(uuid)] = (free.topology, pools_of(free.devices))
    return found


def _host(provider_id: int) -> Host:
    fields = HostHardware.objects.filter(provider_id=provider_id).values_list("cells", "devices").first()
    return wire.host_from_json(*fields) if fields else Host()


def _limits(provider_id: int) -> Limits:
    rows = ProviderInventory.objects.filter(provider_id=provider_id, resource_class__in=["VCPU", "MEMORY_MB"])
    ratios = dict(rows.values_list("resource_class", "allocation_ratio"))
    return Limits(ratios.get("VCPU", 1.0), ratios.get("MEMORY_MB", 1.0))
