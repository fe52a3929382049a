"""Hardware of a host: NUMA cells, CPUs, memory pages, PCI devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory pages of one size in a cell, in pages."""

    size_kb: int
    total: int
    used: int = 0

    @property
    def total_kb(self) -> int:
        return self.total * self.size_kb

    @property
    def free_kb(self) -> int:
        return (self.total - self.used) * self.size_kb


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

    @property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpus - self.pinned

    @property
    def free_memory_mb(self) -> int:
        return self.memory_mb - self.memory_mb_used

    @property
    def has_threads(self) -> bool:
        return any(len(core) > 1 for core in self.siblings)

    def pages_of(self, size_kb: int) -> Pages | None:
        return next((pages for pages in self.pages if pages.size_kb == size_kb), None)


@dataclass(frozen=True)
class HostTopology:
    """All cells of a host, in the order of their ids. The hash is worked out once: hosts are grouped by it."""

    cells: tuple[HostCell, ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.cells)

    def __hash__(self) -> int:
        return self._hash

    @property
    def has_threads(self) -> bool:
        return any(cell.has_threads for cell in self.cells)


@dataclass(frozen=True, slots=True)
class PciPool:
    """`count` free devices that are alike. `tags` hold the rest: dev_type, physical_network, …"""

    vendor_id: str
    product_id: str
    count: int
    numa_node: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One device that may be given to guests. `parent` is the address of the physical function that it is a part of."""

    address: str
    vendor_id: str
    product_id: str
    numa_node: int | None = None
    parent: str = ""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def kind(self) -> tuple[str, str, int | None, tuple[tuple[str, str], ...]]:
        """The properties that a request can match: devices of one kind are interchangeable."""
        return self.vendor_id, self.product_id, self.numa_node, tuple(sorted(self.tags.items()))


def pools_of(devices: Iterable[PciDevice]) -> tuple[PciPool, ...]:
    """Group the devices into pools of interchangeable ones."""
    counts: Counter[tuple[str, str, int | None, tuple[tuple[str, str], ...]]] = Counter(one.kind for one in devices)
    return tuple(
        PciPool(vendor, product, count, numa_node, dict(tags))
        for (vendor, product, numa_node, tags), count in counts.items()
    )
