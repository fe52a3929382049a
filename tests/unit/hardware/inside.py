"""Hosts with cells and devices for tests of hardware, and hardware requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.hardware import derive
from conductor.core.hardware.fit import FitRequest, Limits
from conductor.core.hardware.request import InstanceTopology
from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciPool
from conductor.core.request_spec import RequestSpec
from tests.unit.scheduling.fleets import spec

ALIASES = (
    {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"},
    {"name": "nic", "vendor_id": "8086", "product_id": "154d", "device_type": "type-PF", "numa_policy": "required"},
    {"name": "vf", "vendor_id": "8086", "product_id": "10ca", "device_type": "type-VF", "numa_policy": "preferred"},
    {"name": "near", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "socket"},
)
LIMITS = Limits(16.0, 1.5)


def cell(number: int = 0, *, cores: int = 4, threads: int = 2, memory_mb: int = 4096, **values: Any) -> HostCell:
    """Return a cell whose CPUs are both shared and for pinning, as without a configured split."""
    first = number * cores * threads
    siblings = tuple(frozenset(range(first + core * threads, first + (core + 1) * threads)) for core in range(cores))
    everything = frozenset(cpu for core in siblings for cpu in core)
    base: dict[str, Any] = {
        "cpus": everything,
        "pcpus": everything,
        "siblings": siblings,
        "pages": (Pages(4, memory_mb * 256), Pages(2048, 512)),
        "socket": number // 2,
    }
    return HostCell(id=number, memory_mb=memory_mb, **{**base, **values})


def host(*cells: HostCell) -> HostTopology:
    return HostTopology(cells or (cell(0), cell(1)))


def pool(product: str = "1db4", count: int = 1, numa_node: int | None = 0, **tags: str) -> PciPool:
    vendor = "10de" if product == "1db4" else "8086"
    return PciPool(vendor, product, count, numa_node, tags)


def asked(
    extra_specs: Mapping[str, str] | None = None, *, image: Mapping[str, str] | None = None, **values: Any
) -> RequestSpec:
    """Return a request with what follows from its flavor (4 CPUs, 2048 MB) and image."""
    size = {"vcpus": 4, "memory_mb": 2048, **values}
    return derive.with_hardware(spec(extra_specs=extra_specs, image=image, **size), {"pci.alias": ALIASES})


def guest(**extra_specs: str) -> InstanceTopology:
    """Return the cells of a flavor with `hw:` keys, written with `_` for `:`."""
    numa = asked({key.replace("hw_", "hw:", 1): value for key, value in extra_specs.items()}).numa
    assert numa is not None
    return numa


def question(request: RequestSpec, limits: Limits | None = LIMITS) -> FitRequest:
    assert request.numa is not None
    return FitRequest(request.numa, request.pci_requests, limits)
