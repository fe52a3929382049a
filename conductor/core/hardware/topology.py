"""The inside of a host, and what of it a request asks for: NUMA cells, CPUs, memory pages, PCI devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory pages of one size in a cell, in pages."""

    size_kb: int
    total: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class HostCell:
    """One NUMA cell. `cpus` are shared ones, `pcpus` those for pinning; `siblings` are the threads of each core."""

    id: int
    cpus: frozenset[int]
    pcpus: frozenset[int] = frozenset()
    memory_mb: int = 0
    memory_mb_used: int = 0
    cpus_used: int = 0
    pinned: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[Pages, ...] = ()
    socket: int | None = None


@dataclass(frozen=True, slots=True)
class HostTopology:
    """All cells of a host, in the order of their ids."""

    cells: tuple[HostCell, ...]


@dataclass(frozen=True, slots=True)
class PciPool:
    """`count` free devices that are alike. `tags` hold the rest: dev_type, physical_network, …"""

    vendor_id: str
    product_id: str
    count: int
    numa_node: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
