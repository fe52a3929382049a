"""Reports what this machine offers: processors, memory, disk, NUMA cells, PCI devices, traits."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_drivers.libvirt.capability import CPU_INFO, KVM
from compute_drivers.libvirt.machine_spec import DISK_NAMES, NIC_MODELS, VIDEO_MODELS, has_secure_firmware
from compute_drivers.libvirt.options import LibvirtOptions
from conductor.core.compute_driver import Inventory, NodeReport
from conductor.core.errors import Invalid
from conductor.core.hardware import cpu_sets
from conductor.core.hardware.topology import HostCell, Pages, PciDevice
from conductor.core.hardware.wire import cell_to_json, device_to_json

# A small emulated guest takes about its own memory again, for translated code and for QEMU itself.
EMULATED_RAM_RATIO = 0.5
TRAITS = frozenset(
    {
        "COMPUTE_NODE",
        "COMPUTE_IMAGE_TYPE_QCOW2",
        "COMPUTE_IMAGE_TYPE_RAW",
        "COMPUTE_NET_ATTACH_INTERFACE",
        "COMPUTE_SAME_HOST_COLD_MIGRATE",
        "COMPUTE_RESCUE_BFV",
        *(f"COMPUTE_STORAGE_BUS_{name.upper()}" for name in DISK_NAMES),
        *(f"COMPUTE_NET_VIF_MODEL_{name.upper()}" for name in NIC_MODELS),
        *(f"COMPUTE_GRAPHICS_MODEL_{name.upper()}" for name in VIDEO_MODELS),
    }
)
HYPERTHREADING_TRAIT = "HW_CPU_HYPERTHREADING"
SECURE_BOOT_TRAIT = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
MEMORY_INFO = Path("/proc/meminfo")
NODES = Path("/sys/devices/system/node")
CPUS = Path("/sys/devices/system/cpu")
PCI_DEVICES = Path("/sys/bus/pci/devices")
PINNED_CPUS_OPTION, PCI_DEVICES_OPTION = "libvirt.pinned_cpus", "libvirt.pci_devices"
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PCI_PRODUCT = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
KB_PER_MB = 1024
GB = 1 << 30


def node_report(host: str, version: int, virt_type: str, directory: Path, options: LibvirtOptions) -> NodeReport:
    """Return the report of this machine; amounts in the options replace its own.

    Args:
        version: QEMU's version as major * 1,000,000 + minor * 1,000 + release.
        directory: A folder on the disk that holds the guests.
    """
    totals = read_totals(directory)
    cells = numa_cells(options.pinned_cpus)
    virt_types = ("qemu", "kvm") if virt_type == KVM else ("qemu",)
    return NodeReport(
        node=host,
        hypervisor_type="QEMU",
        hypervisor_version=version,
        inventory=_inventories(totals, options, virt_type, cells),
        traits=TRAITS
        | ({HYPERTHREADING_TRAIT} if any(cell.has_threads for cell in cells) else set())
        | ({SECURE_BOOT_TRAIT} if has_secure_firmware() else set()),
        supported_instances=tuple(("x86_64", name, "hvm") for name in virt_types),
        cpu_info=totals.cpu_info,
        capabilities={"virt_type": virt_type, "guest_network": options.guest_network},
        disk_available_least_gb=totals.free_disk_gb,
        numa_cells=tuple(map(cell_to_json, cells)),
        pci_devices=tuple(map(device_to_json, pci_devices(options.pci_devices))),
    )


def _inventories(
    totals: MachineTotals, options: LibvirtOptions, virt_type: str, cells: tuple[HostCell, ...]
) -> dict[str, Inventory]:
    """Return the inventory by resource class. Processors for pinning (PCPU) are not shared, so never overcommitted."""
    pinned = sum(len(cell.pcpus) for cell in cells)
    vcpus = options.vcpus or totals.vcpus - pinned
    ram_ratio = options.ram_allocation_ratio or (1.0 if virt_type == KVM else EMULATED_RAM_RATIO)
    found = {
        "MEMORY_MB": _inventory(options.memory_mb or totals.memory_mb, options.reserved_memory_mb, ram_ratio),
        "DISK_GB": _inventory(
            options.disk_gb or totals.disk_gb, options.reserved_disk_gb, options.disk_allocation_ratio
        ),
    }
    if vcpus > 0:
        found["VCPU"] = _inventory(vcpus, 0, options.cpu_allocation_ratio)
    if pinned:
        found["PCPU"] = _inventory(pinned, 0, 1.0)
    return found


def _inventory(total: int, reserved: int, ratio: float) -> Inventory:
    return Inventory(total, reserved=min(reserved, total - 1), max_unit=total, allocation_ratio=ratio)


# -- totals


@dataclass(frozen=True, slots=True)
class MachineTotals:
    """Processors, memory and disk of the machine; the disk is the one that holds the given directory."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    free_disk_gb: int
    cpu_info: Mapping[str, Any]


def read_totals(directory: Path) -> MachineTotals:
    """Read the machine's totals from the kernel."""
    disk = shutil.disk_usage(directory)
    vcpus = len(os.sched_getaffinity(0))
    return MachineTotals(
        vcpus=vcpus,
        memory_mb=_memory_mb(MEMORY_INFO.read_text()),
        disk_gb=max(disk.total // GB, 1),
        free_disk_gb=disk.free // GB,
        cpu_info=_cpu_info(CPU_INFO.read_text(errors="replace"), vcpus),
    )


def _memory_mb(meminfo: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    assert found, "the kernel always reports MemTotal"
    return int(found[1]) // KB_PER_MB


def _cpu_info(text: str, vcpus: int) -> dict[str, Any]:
    def value(label: str) -> str:
        found = re.search(rf"^{label}\s*:\s*(.+)$", text, re.MULTILINE)
        return found[1].strip() if found else ""

    return {
        "arch": platform.machine(),
        "vendor": value("vendor_id"),
        "model": value("model name"),
        "features": sorted(value("flags").split()),
        "topology": {"cores": vcpus},
    }


# -- NUMA cells


def numa_cells(pinned: str = "", *, nodes: Path = NODES, cpus: Path = CPUS) -> tuple[HostCell, ...]:
    """Return the NUMA cells with the processors that this process may use; those in `pinned` are for pinning alone.

    Raises Invalid for processors to pin that the machine does not have.
    """
    usable = frozenset(os.sched_getaffinity(0))
    for_pinning = cpu_sets.parse(pinned, key=PINNED_CPUS_OPTION) if pinned else frozenset()
    if for_pinning - usable:
        raise Invalid(
            f"Option {PINNED_CPUS_OPTION}: this machine has no processors {cpu_sets.show(for_pinning - usable)}."
        )
    found = sorted(
        (int(match[1]), path) for path in nodes.glob("node*") if (match := re.fullmatch(r"node(\d+)", path.name))
    )
    return tuple(_cell(number, path, usable, for_pinning, cpus) for number, path in found)


def _cell(number: int, path: Path, usable: frozenset[int], pinned: frozenset[int], cpus: Path) -> HostCell:
    listed = (path / "cpulist").read_text().strip()
    own = (cpu_sets.parse(listed, key="cpulist") if listed else frozenset()) & usable
    memory_kb = _cell_memory_kb((path / "meminfo").read_text())
    huge = _huge_pages(path / "hugepages")
    small_kb = os.sysconf("SC_PAGE_SIZE") // 1024
    left_kb = max(memory_kb - sum(pages.total_kb for pages in huge), 0)
    return HostCell(
        id=number,
        cpus=own - pinned,
        pcpus=own & pinned,
        memory_mb=memory_kb // KB_PER_MB,
        siblings=tuple(sorted({_siblings(cpus, cpu) & usable for cpu in own}, key=sorted)),
        pages=(Pages(small_kb, left_kb // small_kb), *huge),
        socket=_socket(cpus, min(own)) if own else None,
    )


def _cell_memory_kb(text: str) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(found[1]) if found else 0


def _huge_pages(folder: Path) -> tuple[Pages, ...]:
    """Return the sizes of which the machine has any pages."""
    pages = []
    for path in folder.glob("hugepages-*kB"):
        total = int((path / "nr_hugepages").read_text())
        if total:
            pages.append(Pages(int(path.name.removeprefix("hugepages-").removesuffix("kB")), total))
    return tuple(sorted(pages, key=lambda one: one.size_kb))


def _siblings(cpus: Path, cpu: int) -> frozenset[int]:
    path = cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    return cpu_sets.parse(path.read_text().strip(), key=path.name) if path.exists() else frozenset({cpu})


def _socket(cpus: Path, cpu: int) -> int | None:
    path = cpus / f"cpu{cpu}" / "topology" / "physical_package_id"
    return int(path.read_text()) if path.exists() else None


# -- PCI devices


def parse_pci_devices(text: str) -> frozenset[str]:
    """Return the names in the option: addresses or vendor:product. Raises Invalid."""
    names = frozenset(part.strip().lower() for part in text.split(",") if part.strip())
    for name in sorted(names):
        if not PCI_ADDRESS.fullmatch(name) and not PCI_PRODUCT.fullmatch(name):
            raise Invalid(f"Option {PCI_DEVICES_OPTION}: {name!r} is neither like 0000:3b:00.0 nor like 8086:1521.")
    return names


def pci_devices(text: str, folder: Path = PCI_DEVICES) -> tuple[PciDevice, ...]:
    """Return the devices of the machine that the option `text` names by address or by vendor:product."""
    names = parse_pci_devices(text)
    if not names:
        return ()
    found = (_pci_device(path) for path in sorted(folder.iterdir()))
    return tuple(one for one in found if {one.address, f"{one.vendor_id}:{one.product_id}"} & names)


def _pci_device(path: Path) -> PciDevice:
    node = int(_read_or_empty(path / "numa_node") or -1)
    physical = (path / "physfn").resolve().name if (path / "physfn").exists() else ""
    return PciDevice(
        address=path.name,
        vendor_id=_read_or_empty(path / "vendor").removeprefix("0x"),
        product_id=_read_or_empty(path / "device").removeprefix("0x"),
        numa_node=node if node >= 0 else None,
        parent=physical,
        tags={"dev_type": _pci_device_type(path, physical)},
    )


def _pci_device_type(path: Path, physical: str) -> str:
    if physical:
        return "type-VF"
    return "type-PF" if (path / "sriov_totalvfs").exists() else "type-PCI"


def _read_or_empty(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
