"""What this machine offers to guests, as the scheduler wants to hear it."""

from __future__ import annotations

from pathlib import Path

from compute_drivers.libvirt import machine, numa, pci
from compute_drivers.libvirt.options import LibvirtOptions
from compute_drivers.libvirt.virt_type import KVM
from compute_drivers.libvirt.wishes import CARD_MODELS, DISK_NAMES, VIDEO_MODELS, has_secure_firmware
from conductor.core.compute_driver import Inventory, NodeReport
from conductor.core.hardware.topology import HostCell
from conductor.core.hardware.wire import cell_to_json, device_to_json

# A small emulated guest takes about its own memory again, for translated code and for QEMU itself.
EMULATED_RAM_RATIO = 0.5
TRAITS = frozenset(
    {
        *("COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_NET_ATTACH_INTERFACE"),
        *("COMPUTE_SAME_HOST_COLD_MIGRATE", "COMPUTE_RESCUE_BFV"),
        *(f"COMPUTE_STORAGE_BUS_{name.upper()}" for name in DISK_NAMES),
        *(f"COMPUTE_NET_VIF_MODEL_{name.upper()}" for name in CARD_MODELS),
        *(f"COMPUTE_GRAPHICS_MODEL_{name.upper()}" for name in VIDEO_MODELS),
    }
)
THREADS = "HW_CPU_HYPERTHREADING"
SIGNED = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"


def node_report(host: str, version: int, virt_type: str, directory: Path, has: LibvirtOptions) -> NodeReport:
    """This machine; amounts that the operator chose come before its own."""
    found = machine.look(directory)
    cells = numa.cells(has.pinned_cpus)
    kinds = ("qemu", "kvm") if virt_type == KVM else ("qemu",)
    return NodeReport(
        node=host,
        hypervisor_type="QEMU",
        hypervisor_version=version,
        inventory=_inventories(found, has, virt_type, cells),
        traits=TRAITS
        | ({THREADS} if any(cell.has_threads for cell in cells) else set())
        | ({SIGNED} if has_secure_firmware() else set()),
        supported_instances=tuple(("x86_64", kind, "hvm") for kind in kinds),
        cpu_info=found.cpu_info,
        capabilities={"virt_type": virt_type, "guest_network": has.guest_network},
        disk_available_least_gb=found.free_disk_gb,
        numa_cells=tuple(map(cell_to_json, cells)),
        pci_devices=tuple(map(device_to_json, pci.devices(has.pci_devices))),
    )


def _inventories(
    found: machine.Machine, has: LibvirtOptions, virt_type: str, cells: tuple[HostCell, ...]
) -> dict[str, Inventory]:
    """Processors for pinning are a class of their own, and nobody shares them."""
    pinned = sum(len(cell.pcpus) for cell in cells)
    vcpus = has.vcpus or found.vcpus - pinned
    ram_ratio = has.ram_allocation_ratio or (1.0 if virt_type == KVM else EMULATED_RAM_RATIO)
    offered = {
        "MEMORY_MB": _inventory(has.memory_mb or found.memory_mb, has.reserved_memory_mb, ram_ratio),
        "DISK_GB": _inventory(has.disk_gb or found.disk_gb, has.reserved_disk_gb, has.disk_allocation_ratio),
    }
    if vcpus > 0:
        offered["VCPU"] = _inventory(vcpus, 0, has.cpu_allocation_ratio)
    if pinned:
        offered["PCPU"] = _inventory(pinned, 0, 1.0)
    return offered


def _inventory(total: int, reserved: int, ratio: float) -> Inventory:
    return Inventory(total, reserved=min(reserved, total - 1), max_unit=total, allocation_ratio=ratio)
