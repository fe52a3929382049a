"""View of a host as Nova's HostState: each attribute is computed when it is first read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import netaddr
from nova import objects
from nova.pci import stats as pci_stats
from nova.scheduler import host_manager

from conductor.core.hardware.topology import HostCell, HostTopology, PciPool
from conductor.core.host_state import HostState
from conductor.core.scheduling.host_attributes import attribute, stats_of

LONG_AGO = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


class HostView(host_manager.HostState):  # type: ignore[misc]
    """A host for one call: changes to it are discarded."""

    def __init__(self, state: HostState, request: Any) -> None:  # not its parent's, which computes all at once
        self.__dict__.update(_state=state, _request=request)

    def __getattr__(self, name: str) -> Any:
        make = MADE_OF_STATE.get(name)
        if make is not None:
            value = make(self._state)
        elif name == "instances":
            value = dict(self._request.instances.get(self._state.host, {}))
        elif name == "pci_stats":
            value = _pci_stats(self.numa_topology, self._state)
        else:
            raise AttributeError(name)
        self.__dict__[name] = value
        return value


def _topology(found: HostTopology | None) -> Any:
    return objects.NUMATopology(cells=[_cell(one) for one in found.cells]) if found else None


def _cell(cell: HostCell) -> Any:
    pages = [
        objects.NUMAPagesTopology(size_kb=one.size_kb, total=one.total, used=one.used, reserved=0) for one in cell.pages
    ]
    return objects.NUMACell(
        id=cell.id,
        cpuset=set(cell.cpus),
        pcpuset=set(cell.pcpus),
        memory=cell.memory_mb,
        cpu_usage=cell.cpus_used,
        memory_usage=cell.memory_mb_used,
        pinned_cpus=set(cell.pinned),
        siblings=[set(core) for core in cell.siblings],
        mempages=pages,
        network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
        socket=cell.socket,
    )


def _pci_stats(topology: Any, state: HostState) -> Any:
    pools = objects.PciDevicePoolList(objects=[_pool(one) for one in state.pci_pools])
    return pci_stats.PciDeviceStats(topology, stats=pools)


def _pool(pool: PciPool) -> Any:
    return objects.PciDevicePool(
        vendor_id=pool.vendor_id,
        product_id=pool.product_id,
        numa_node=pool.numa_node,
        count=pool.count,
        tags=dict(pool.tags),
    )


def _aggregates(state: HostState) -> list[Any]:
    """Return as many aggregates as needed to hold all metadata values: their real owners are not known here."""
    metadata = state.aggregate_metadata
    rows = zip_longest(*([(key, value) for value in sorted(values)] for key, values in sorted(metadata.items())))
    uuids = sorted(state.aggregates)
    return [
        objects.Aggregate(
            id=number,
            uuid=uuids[number - 1] if number <= len(uuids) else str(uuid5(NAMESPACE_OID, f"{state.host} {number}")),
            name=f"aggregate-{number}",
            hosts=[state.host],
            metadata=dict(pair for pair in row if pair),
        )
        for number, row in enumerate(rows, 1)
    ]


def _metrics(state: HostState) -> Any:
    now = datetime.datetime.now(datetime.UTC)
    found = [
        objects.MonitorMetric(name=name, value=int(value), timestamp=now, source="novella")
        for name, value in state.metrics.items()
    ]
    return objects.MonitorMetricList(objects=found)


def _stats(state: HostState) -> dict[str, str]:
    found: Mapping[str, Any] = {**stats_of(state), "failed_builds": state.failed_builds}
    return {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in found.items()}


def _service(state: HostState) -> Any:
    """Return a service that is up: liveness is decided already, by our own clock and rules."""
    seen = datetime.datetime.now(datetime.UTC) if state.is_up else LONG_AGO
    return host_manager.ReadOnlyDict(
        {
            "host": state.host,
            "binary": "nova-compute",
            "topic": "compute",
            "disabled": state.is_disabled,
            "disabled_reason": state.disabled_reason or None,
            "forced_down": not state.is_up,
            "availability_zone": state.availability_zone,
            "last_seen_up": seen,
            "created_at": LONG_AGO,
            "updated_at": seen,
        }
    )


def _candidates(state: HostState) -> list[dict[str, Any]]:
    """Return one candidate: which of a host's providers give what is settled after filtering."""
    uuid = state.provider_uuid
    return [{"allocations": {uuid: {"resources": {}}}, "mappings": {"": [uuid]}}]


def _plain(name: str) -> Callable[[HostState], Any]:
    return lambda state: attribute(state, name)


MADE_OF_STATE: Mapping[str, Callable[[HostState], Any]] = {
    **{
        name: _plain(name)
        for name in (
            "host",
            "nodename",
            "hypervisor_hostname",
            "uuid",
            "cell_uuid",
            "hypervisor_type",
            "hypervisor_version",
            "cpu_info",
            "supported_instances",
            "vcpus_total",
            "total_usable_ram_mb",
            "total_usable_disk_gb",
            "cpu_allocation_ratio",
            "ram_allocation_ratio",
            "disk_allocation_ratio",
            "failed_builds",
            "disk_mb_used",
            "num_instances",
            "num_io_ops",
        )
    },
    "_lock_name": lambda state: f"{state.host}-{state.node}",
    "free_ram_mb": lambda state: int(state.unused_memory_mb),
    "free_disk_mb": lambda state: int(state.unused_disk_gb * 1024),
    # With the actual sizes of its newest instances, as Nova counts them while it continues to choose.
    "vcpus_used": lambda state: state.vcpus_used + state.drift_vcpus,
    "host_ip": lambda state: netaddr.IPAddress(state.host_ip) if state.host_ip else None,
    "numa_topology": lambda state: _topology(state.topology),
    "aggregates": _aggregates,
    "metrics": _metrics,
    "stats": _stats,
    "service": _service,
    "allocation_candidates": _candidates,
    "limits": lambda state: {},
    "updated": lambda state: None,
}
