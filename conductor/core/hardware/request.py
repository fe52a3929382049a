"""Hardware requests of guests, and their fitted form on a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHARED, DEDICATED, MIXED = "shared", "dedicated", "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
SHARE = "share"
REQUIRED, LEGACY, PREFERRED, SOCKET = "required", "legacy", "preferred", "socket"

CPU_POLICIES = (DEDICATED, SHARED, MIXED)
THREAD_POLICIES = (PREFER, ISOLATE, REQUIRE)
EMULATOR_POLICIES = (SHARE, ISOLATE)
PCI_POLICIES = (REQUIRED, LEGACY, PREFERRED, SOCKET)

# Page sizes by kind instead of in KiB.
SMALL, LARGE, ANY = -1, -2, -3


@dataclass(frozen=True, slots=True)
class InstanceCell:
    """One NUMA cell of a guest. `cpus` are the guest CPUs that float, `pcpus` those that are pinned.

    `page_size_kb` is a size, SMALL, LARGE or ANY, or None where nothing is asked. Once fitted, `id` is the host's
    cell, `pins` has (guest CPU, host CPU), and `reserved` the host CPUs of the emulator's threads.
    """

    id: int
    cpus: frozenset[int]
    pcpus: frozenset[int]
    memory_mb: int
    page_size_kb: int | None = None
    cpu_policy: str | None = None
    thread_policy: str | None = None
    pins: tuple[tuple[int, int], ...] = ()
    reserved: frozenset[int] = frozenset()

    @property
    def is_pinned(self) -> bool:
        return self.cpu_policy in (DEDICATED, MIXED)

    @property
    def host_cpus(self) -> frozenset[int]:
        """The host CPUs that only this cell uses: pinned ones, and those of the emulator."""
        return frozenset(host for _, host in self.pins) | self.reserved


@dataclass(frozen=True, slots=True)
class InstanceTopology:
    """All cells of a guest."""

    cells: tuple[InstanceCell, ...]
    emulator_policy: str | None = None

    @property
    def isolates_emulator(self) -> bool:
        return self.emulator_policy == ISOLATE

    @property
    def is_pinned(self) -> bool:
        return any(cell.is_pinned for cell in self.cells)


@dataclass(frozen=True, slots=True)
class PciRequest:
    """`count` devices that meet any of `specs`; `policy` says how near to the guest's cells they must be."""

    count: int
    specs: tuple[Mapping[str, str], ...] = field(hash=False)
    alias: str = ""
    policy: str = LEGACY


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """Sockets, cores of each, threads of each core: as the guest sees its CPUs. 0 is any."""

    sockets: int
    cores: int
    threads: int
