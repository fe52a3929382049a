"""The simulated host's NUMA cells and PCI devices."""

from __future__ import annotations

from compute_drivers.fake.options import FakeOptions
from conductor.core.errors import Invalid
from conductor.core.hardware.topology import HostCell, Pages, PciDevice

SMALL_KB, HUGE_KB = 4, 2048
KB_PER_MB = 1024


def cells(options: FakeOptions) -> tuple[HostCell, ...]:
    """CPUs and memory in equal parts. The last CPUs of each cell are those for pinning.

    Raises Invalid where the parts do not come out even.
    """
    count, threads = options.numa_cells, options.threads_per_core
    if not count:
        if options.pinned_vcpus or options.huge_pages:
            raise Invalid("pinned_vcpus and huge_pages need numa_cells: they are in them.")
        return ()
    every = count * threads
    if options.vcpus % every or options.pinned_vcpus % every or options.pinned_vcpus > options.vcpus:
        raise Invalid(f"vcpus and pinned_vcpus must be whole cores in {count} equal cells, each of {threads} threads.")
    if options.huge_pages * HUGE_KB > options.memory_mb // count * KB_PER_MB:
        raise Invalid(f"huge_pages: {options.huge_pages} of 2 MB do not go into a cell's memory.")
    return tuple(_cell(number, options) for number in range(count))


def devices(options: FakeOptions) -> tuple[PciDevice, ...]:
    """So many for each cell; of a host without cells nobody knows what they are near to."""
    nodes = range(options.numa_cells) if options.numa_cells else (None,)
    return tuple(
        PciDevice(f"0000:{0x10 + (node or 0):02x}:{number:02x}.0", "1af4", "1110", node, tags={"dev_type": "type-PCI"})
        for node in nodes
        for number in range(options.pci_devices)
    )


def _cell(number: int, options: FakeOptions) -> HostCell:
    size, pinned = options.vcpus // options.numa_cells, options.pinned_vcpus // options.numa_cells
    first, threads = number * size, options.threads_per_core
    cpus = range(first, first + size)
    memory_mb = options.memory_mb // options.numa_cells
    small = memory_mb * KB_PER_MB - options.huge_pages * HUGE_KB
    return HostCell(
        id=number,
        cpus=frozenset(cpus[: size - pinned]),
        pcpus=frozenset(cpus[size - pinned :]),
        memory_mb=memory_mb,
        siblings=tuple(frozenset(cpus[at : at + threads]) for at in range(0, size, threads)),
        pages=(Pages(SMALL_KB, small // SMALL_KB), Pages(HUGE_KB, options.huge_pages)),
        socket=number,
    )
