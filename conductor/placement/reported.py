"""Compares reports of hosts with their providers: many hosts by a few queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from conductor.core.compute_driver import NodeReport
from conductor.placement import inventories, traits
from conductor.placement.changes import chunks
from conductor.placement.models import HostHardware, ProviderAggregate, ResourceProvider


@dataclass(frozen=True)
class ReportedProvider:
    """A host's report of its provider, a flag set where an operator has disabled the host, and its aggregates."""

    report: NodeReport
    is_disabled: bool
    aggregate_uuids: frozenset[UUID]


def unchanged(reported: Mapping[UUID, ReportedProvider], aggregate_uuids: frozenset[UUID]) -> set[UUID]:
    """Return those providers that are as their hosts report them.

    `aggregate_uuids` are all aggregates that hosts may be in; others are set by clients of placement.
    """
    found: set[UUID] = set()
    for part in chunks(list(reported)):
        hardware = _hardware(part)
        memberships = _memberships(part)
        for row in ResourceProvider.objects.filter(uuid__in=part).prefetch_related("inventories"):
            wanted = reported[row.uuid]
            if (
                _is_same(row, wanted)
                and hardware.get(row.uuid, ([], [])) == _reported_hardware(wanted.report)
                and memberships[row.uuid] & aggregate_uuids == wanted.aggregate_uuids
            ):
                found.add(row.uuid)
    return found


def _is_same(row: ResourceProvider, wanted: ReportedProvider) -> bool:
    report = wanted.report
    has_mark = traits.DISABLED in row.traits
    return (
        row.root_id is not None
        and has_mark == wanted.is_disabled
        and inventories.is_same(row, report.node, report.inventory, sorted(report.traits))
    )


def _reported_hardware(report: NodeReport) -> tuple[list[object], list[object]]:
    return list(report.numa_cells), list(report.pci_devices)


def _hardware(uuids: list[UUID]) -> dict[UUID, tuple[list[object], list[object]]]:
    rows = HostHardware.objects.filter(provider__uuid__in=uuids)
    return {uuid: (cells, devices) for uuid, cells, devices in rows.values_list("provider__uuid", "cells", "devices")}


def _memberships(uuids: list[UUID]) -> defaultdict[UUID, set[UUID]]:
    found: defaultdict[UUID, set[UUID]] = defaultdict(set)
    rows = ProviderAggregate.objects.filter(provider__uuid__in=uuids)
    for provider_uuid, aggregate_uuid in rows.values_list("provider__uuid", "aggregate_uuid"):
        found[provider_uuid].add(aggregate_uuid)
    return found
