"""The inside of a guest's machine: how it sees its processors, on which of the host's they run, where its memory is."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt.virt_type import KVM
from conductor.core.errors import BuildAborted
from conductor.core.hardware.cpu_sets import show
from conductor.core.hardware.grants import Grant
from conductor.core.hardware.request import CpuTopology, InstanceCell, InstanceTopology

KB_PER_MB = 1024
SMALLEST_HUGE_KB = 2048


def add_memory_and_pins(domain: Element, grant: Grant) -> None:
    """What libvirt wants before the processor's description; nothing for a guest without cells of its own."""
    if grant.numa is None:
        return
    huge = {index: cell.page_size_kb for index, cell in enumerate(grant.numa.cells) if _is_huge(cell)}
    if huge:
        pages = SubElement(SubElement(domain, "memoryBacking"), "hugepages")
        for index, size_kb in huge.items():
            SubElement(pages, "page", size=str(size_kb), unit="KiB", nodeset=str(index))
    _add_pins(domain, grant.numa)
    nodes = frozenset(cell.id for cell in grant.numa.cells)
    tuning = SubElement(domain, "numatune")
    SubElement(tuning, "memory", mode="strict", nodeset=show(nodes))
    for index, cell in enumerate(grant.numa.cells):
        SubElement(tuning, "memnode", cellid=str(index), mode="strict", nodeset=str(cell.id))


def add_processor(domain: Element, virt_type: str, topology: CpuTopology, grant: Grant) -> None:
    """The processor: the host's own where it runs by itself, QEMU's where it is emulated."""
    processor = SubElement(domain, "cpu")
    if virt_type == KVM:
        processor.set("mode", "host-passthrough")
    shape = {"sockets": topology.sockets, "cores": topology.cores, "threads": topology.threads}
    SubElement(processor, "topology", {name: str(count) for name, count in shape.items()})
    if grant.numa is None:
        return
    cells = SubElement(processor, "numa")
    for index, cell in enumerate(grant.numa.cells):
        words = {
            "id": str(index),
            "cpus": show(cell.cpus | cell.pcpus),
            "memory": str(cell.memory_mb * KB_PER_MB),
            "unit": "KiB",
        }
        SubElement(cells, "cell", words)


def add_devices(devices: Element, grant: Grant) -> None:
    """The host's devices that the guest was given."""
    for device in grant.devices:
        domain, bus, rest = _parts(device.address)
        slot, function = rest.split(".")
        entry = SubElement(devices, "hostdev", mode="subsystem", type="pci", managed="yes")
        words = {"domain": domain, "bus": bus, "slot": slot, "function": function}
        SubElement(SubElement(entry, "source"), "address", {name: f"0x{value}" for name, value in words.items()})


def _add_pins(domain: Element, numa: InstanceTopology) -> None:
    """Pinned processors run where they were put, the others and the emulator beside them."""
    pins = sorted(pin for cell in numa.cells for pin in cell.pins)
    if not pins:
        return
    tuning = SubElement(domain, "cputune")
    for guest_cpu, host_cpu in pins:
        SubElement(tuning, "vcpupin", vcpu=str(guest_cpu), cpuset=str(host_cpu))
    reserved = frozenset(cpu for cell in numa.cells for cpu in cell.reserved)
    SubElement(tuning, "emulatorpin", cpuset=show(reserved or frozenset(host for _, host in pins)))


def _is_huge(cell: InstanceCell) -> bool:
    return (cell.page_size_kb or 0) >= SMALLEST_HUGE_KB


def _parts(address: str) -> tuple[str, str, str]:
    parts = address.split(":")
    if len(parts) != 3 or "." not in parts[2]:
        raise BuildAborted("The guest was given a device without a usable address.")
    return parts[0], parts[1], parts[2]
