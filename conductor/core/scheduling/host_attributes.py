"""Host attributes by the names that extra specs and queries use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conductor.core.host_state import HostState

CPU_INFO = "cpu_info"
Attribute = Callable[[HostState], Any]


def _cpu_info(host: HostState) -> str | None:
    """Return the CPU info as text; hosts report it as an object."""
    found = host.capabilities.get(CPU_INFO)
    return found or None if found is None or isinstance(found, str) else json.dumps(found)


FIXED: Mapping[str, Attribute] = {
    "host": lambda host: host.host,
    "nodename": lambda host: host.node,
    "hypervisor_hostname": lambda host: host.node,
    "uuid": lambda host: host.provider_uuid,
    "cell_uuid": lambda host: host.cell,
    "host_ip": lambda host: host.host_ip or None,
    "hypervisor_type": lambda host: host.hypervisor_type,  # a host that reports none has an empty one
    "hypervisor_version": lambda host: host.hypervisor_version,
    CPU_INFO: _cpu_info,
    "supported_instances": lambda host: [list(mode) for mode in host.supported_instances],
    "vcpus_total": lambda host: host.vcpus,
    "total_usable_ram_mb": lambda host: host.memory_mb,
    "total_usable_disk_gb": lambda host: host.disk_gb,
    "cpu_allocation_ratio": lambda host: float(host.cpu_ratio),
    "ram_allocation_ratio": lambda host: float(host.ram_ratio),
    "disk_allocation_ratio": lambda host: float(host.disk_ratio),
    "failed_builds": lambda host: host.failed_builds,
    "stats": lambda host: stats_of(host),
    "service": lambda host: {
        "host": host.host,
        "binary": "nova-compute",
        "disabled": host.is_disabled,
        "disabled_reason": host.disabled_reason or None,
    },
    "limits": lambda host: {},
    "metrics": lambda host: dict(host.metrics),
}
# These change with each instance on the host, so their columns cannot be kept.
CHANGING: Mapping[str, Attribute] = {
    "vcpus_used": lambda host: host.vcpus_used,
    "free_ram_mb": lambda host: host.unused_memory_mb,
    "free_disk_mb": lambda host: host.unused_disk_gb * 1024,
    "disk_mb_used": lambda host: host.disk_gb_used * 1024,
    "num_instances": lambda host: host.num_instances,
    "num_io_ops": lambda host: host.num_io_ops,
}
# Names that every host knows, without a value to compare.
EMPTY = frozenset({"numa_topology", "pci_stats", "updated", "aggregates", "instances", "allocation_candidates"})
# These exist as a whole only: a path cannot select a part of them.
CLOSED = frozenset({"service", "metrics"})
NAMES = FIXED.keys() | CHANGING.keys() | EMPTY


def changes_with_instances(extra_spec: str) -> bool:
    """Whether an extra spec of that name may read an attribute that changes with each instance."""
    name = extra_spec.removeprefix("capabilities:").partition(":")[0]
    return name in CHANGING or name in ("stats", "io_workload")


def attribute(host: HostState, name: str) -> Any:
    """Return the host's attribute of that name. None for an unknown name, and for an attribute without a value."""
    of = FIXED.get(name) or CHANGING.get(name)
    return of(host) if of else None


def stats_of(host: HostState) -> Mapping[str, Any]:
    """Return the host's reports besides its attributes."""
    counts = {"num_instances": str(host.num_instances), "io_workload": str(host.num_io_ops)}
    return {**counts, **{name: value for name, value in host.capabilities.items() if name != CPU_INFO}}


def is_named(host: HostState, name: str) -> bool:
    """Whether the host has an attribute or a report of that name."""
    return name in NAMES or name in stats_of(host)


def capability(host: HostState, path: Sequence[str]) -> Any:
    """Return the value at `path`: an attribute or report, then its parts. A text on the path is parsed as JSON."""
    first, *rest = path
    if rest and first in CLOSED:
        return None
    value = host.capabilities.get(CPU_INFO) if rest and first == CPU_INFO else attribute(host, first)
    if value is None:
        value = stats_of(host).get(first)
    for name in rest:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
