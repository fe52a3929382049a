"""XML of a guest's domain: boot, processors, memory, NUMA cells, pins, host devices, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt import devices_xml
from compute_drivers.libvirt.accounts import Account
from compute_drivers.libvirt.capability import KVM
from compute_drivers.libvirt.devices_xml import ConsoleSockets, Disk, clean, text
from compute_drivers.libvirt.machine_spec import SIGNED_ONLY, MachineSpec
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import BuildAborted
from conductor.core.hardware.cpu_sets import show
from conductor.core.hardware.grants import HardwareGrant
from conductor.core.hardware.request import CpuTopology, InstanceCell, InstanceTopology

NAMESPACE = "urn:novella:instance"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
KERNEL_COMMAND_LINE = "console=ttyS0 no_timer_check panic=-1"
# Translated code of an emulated guest is kept in memory that no flavor counts.
TRANSLATION_CACHE_MB = "64"
# Root ports of a PCI Express machine, for devices that it starts with and those attached later.
PCI_ROOT_PORTS = 16
KB_PER_MB = 1024
SMALLEST_HUGE_KB = 2048

ElementTree.register_namespace("novella", NAMESPACE)
ElementTree.register_namespace("qemu", QEMU_NAMESPACE)


@dataclass(frozen=True, kw_only=True)
class DomainConfig:
    """Settings of a domain besides the guest's spec. Without a kernel the first disk is booted."""

    host: str
    virt_type: str
    spec: MachineSpec
    disks: Sequence[Disk]
    consoles: ConsoleSockets
    grant: HardwareGrant = HardwareGrant()
    account: Account | None = None
    config_drive: Path | None = None
    kernel: Path | None = None
    ramdisk: Path | None = None
    qemu_arguments: Sequence[str] = ()


def domain_name(instance_uuid: str) -> str:
    """Return the domain's name. libvirt shortens it to twenty characters in paths of sockets."""
    return f"novella-{instance_uuid}"


def build(guest: GuestSpec, config: DomainConfig) -> str:
    """Return the domain's XML."""
    domain = Element("domain", type=config.virt_type)
    text(domain, "name", domain_name(guest.instance_uuid))
    text(domain, "uuid", guest.instance_uuid)
    _add_metadata(domain, guest, config)
    text(domain, "memory", str(guest.flavor.memory_mb), unit="MiB")
    text(domain, "vcpu", str(guest.flavor.vcpus))
    _add_memory_and_pins(domain, config.grant)
    _add_boot(domain, guest, config)
    _add_features(domain, config)
    _add_processor(domain, config.virt_type, config.spec.topology, config.grant)
    SubElement(domain, "clock", offset="utc")
    for event, answer in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        text(domain, event, answer)
    _add_devices(domain, config)
    if config.account is not None:
        _add_account(domain, config.account)
    if config.qemu_arguments:
        command_line = SubElement(domain, f"{{{QEMU_NAMESPACE}}}commandline")
        for word in config.qemu_arguments:
            SubElement(command_line, f"{{{QEMU_NAMESPACE}}}arg", value=clean(word))
    return ElementTree.tostring(domain, encoding="unicode")


def _add_metadata(domain: Element, guest: GuestSpec, config: DomainConfig) -> None:
    """Add the element by which this driver recognizes its own guests."""
    instance = SubElement(SubElement(domain, "metadata"), f"{{{NAMESPACE}}}instance")
    values = {
        "uuid": guest.instance_uuid,
        "name": guest.name,
        "project": guest.project_id,
        "host": config.host,
        "administrator": config.spec.admin_user,
        **({"still": "required"} if config.spec.requires_quiesce else {}),
    }
    for name, value in values.items():
        text(instance, f"{{{NAMESPACE}}}{name}", value)


def _add_boot(domain: Element, guest: GuestSpec, config: DomainConfig) -> None:
    boot = SubElement(domain, "os")
    if config.spec.firmware == "uefi":
        boot.set("firmware", "efi")
    text(boot, "type", "hvm", arch="x86_64", machine=config.spec.machine)
    if config.spec.is_secure:
        firmware = SubElement(boot, "firmware")
        for name in sorted(SIGNED_ONLY):
            SubElement(firmware, "feature", enabled="yes", name=name)
        SubElement(boot, "loader", secure="yes")
    if config.spec.has_boot_menu:
        SubElement(boot, "bootmenu", enable="yes")
    if config.kernel is None:
        SubElement(boot, "boot", dev="hd")
        return
    text(boot, "kernel", str(config.kernel))
    if config.ramdisk is not None:
        text(boot, "initrd", str(config.ramdisk))
    text(boot, "cmdline", guest.image.properties.get("os_command_line") or KERNEL_COMMAND_LINE)


def _add_features(domain: Element, config: DomainConfig) -> None:
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    if config.spec.is_secure:
        SubElement(features, "smm", state="on")
    if config.virt_type != KVM:
        text(SubElement(features, "tcg"), "tb-cache", TRANSLATION_CACHE_MB, unit="MiB")


def _add_account(domain: Element, account: Account) -> None:
    """Have libvirt run QEMU under the account and give it the files of this guest alone."""
    label = SubElement(domain, "seclabel", type="static", model="dac", relabel="yes")
    text(label, "label", f"+{account.uid}:+{account.gid}")


def _add_devices(domain: Element, config: DomainConfig) -> None:
    devices = SubElement(domain, "devices")
    SubElement(devices, "controller", type="usb", model="none")
    if config.spec.is_secure:
        SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
        for index in range(1, PCI_ROOT_PORTS + 1):
            SubElement(devices, "controller", type="pci", index=str(index), model="pcie-root-port")
    for disk in config.disks:
        devices.append(devices_xml.disk_element(disk))
    if config.config_drive is not None:
        taken = {disk.target for disk in config.disks}
        devices_xml.add_config_drive(devices, config.config_drive, config.spec, taken)
    devices_xml.add_consoles(devices, config.consoles, config.spec)
    devices_xml.add_small_devices(devices, config.spec)
    _add_host_devices(devices, config.grant)


# -- processors, memory and host devices


def _add_memory_and_pins(domain: Element, grant: HardwareGrant) -> None:
    """Add huge pages, CPU pins and NUMA memory; nothing for a guest without NUMA cells."""
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


def _add_processor(domain: Element, virt_type: str, topology: CpuTopology, grant: HardwareGrant) -> None:
    """Add the processor: the host's model under KVM, QEMU's default where it is emulated."""
    processor = SubElement(domain, "cpu")
    if virt_type == KVM:
        processor.set("mode", "host-passthrough")
    shape = {"sockets": topology.sockets, "cores": topology.cores, "threads": topology.threads}
    SubElement(processor, "topology", {name: str(count) for name, count in shape.items()})
    if grant.numa is None:
        return
    cells = SubElement(processor, "numa")
    for index, cell in enumerate(grant.numa.cells):
        attributes = {
            "id": str(index),
            "cpus": show(cell.cpus | cell.pcpus),
            "memory": str(cell.memory_mb * KB_PER_MB),
            "unit": "KiB",
        }
        SubElement(cells, "cell", attributes)


def _add_host_devices(devices: Element, grant: HardwareGrant) -> None:
    """Add the PCI devices of the host that the guest was given."""
    for device in grant.devices:
        domain, bus, rest = _split_address(device.address)
        slot, function = rest.split(".")
        entry = SubElement(devices, "hostdev", mode="subsystem", type="pci", managed="yes")
        attributes = {"domain": domain, "bus": bus, "slot": slot, "function": function}
        SubElement(SubElement(entry, "source"), "address", {name: f"0x{value}" for name, value in attributes.items()})


def _add_pins(domain: Element, numa: InstanceTopology) -> None:
    """Pin virtual CPUs to their host CPUs, and the emulator to the reserved or the same ones."""
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


def _split_address(address: str) -> tuple[str, str, str]:
    parts = address.split(":")
    if len(parts) != 3 or "." not in parts[2]:
        raise BuildAborted("The guest was given a device without a usable address.")
    return parts[0], parts[1], parts[2]
