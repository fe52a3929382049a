"""Writes the description of a guest that libvirt starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt import devices_xml, inside_xml
from compute_drivers.libvirt.devices_xml import Disk, Lines, clean, text
from compute_drivers.libvirt.virt_type import KVM
from compute_drivers.libvirt.wishes import SIGNED_ONLY, Wished
from conductor.core.compute_driver import GuestSpec
from conductor.core.hardware.grants import Grant

NAMESPACE = "urn:novella:instance"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
KERNEL_COMMAND_LINE = "console=ttyS0 no_timer_check panic=-1"
# Translated code of an emulated guest is kept in memory that no flavor counts.
TRANSLATION_CACHE_MB = "64"
# Where devices are plugged into a machine of PCI Express, while it runs too; those that it starts with take some.
PLACES_FOR_DISKS = 16

ElementTree.register_namespace("novella", NAMESPACE)
ElementTree.register_namespace("qemu", QEMU_NAMESPACE)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the guest gets beside what its spec says. Without a kernel the first disk is booted."""

    host: str
    virt_type: str
    wished: Wished
    disks: Sequence[Disk]
    lines: Lines
    grant: Grant = Grant()
    config_drive: Path | None = None
    kernel: Path | None = None
    ramdisk: Path | None = None
    qemu_arguments: Sequence[str] = ()


def name_of(instance_uuid: str) -> str:
    """The domain's name. libvirt cuts it to twenty characters in paths of sockets."""
    return f"novella-{instance_uuid}"


def build(guest: GuestSpec, machine: Machine) -> str:
    """The domain's XML."""
    domain = Element("domain", type=machine.virt_type)
    text(domain, "name", name_of(guest.instance_uuid))
    text(domain, "uuid", guest.instance_uuid)
    _add_metadata(domain, guest, machine)
    text(domain, "memory", str(guest.flavor.memory_mb), unit="MiB")
    text(domain, "vcpu", str(guest.flavor.vcpus))
    inside_xml.add_memory_and_pins(domain, machine.grant)
    _add_boot(domain, guest, machine)
    _add_features(domain, machine)
    inside_xml.add_processor(domain, machine.virt_type, machine.wished.topology, machine.grant)
    SubElement(domain, "clock", offset="utc")
    for event, answer in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        text(domain, event, answer)
    _add_devices(domain, machine)
    if machine.qemu_arguments:
        command_line = SubElement(domain, f"{{{QEMU_NAMESPACE}}}commandline")
        for word in machine.qemu_arguments:
            SubElement(command_line, f"{{{QEMU_NAMESPACE}}}arg", value=clean(word))
    return ElementTree.tostring(domain, encoding="unicode")


def _add_metadata(domain: Element, guest: GuestSpec, machine: Machine) -> None:
    """By this mark we tell our guests from others of the same hypervisor."""
    mark = SubElement(SubElement(domain, "metadata"), f"{{{NAMESPACE}}}instance")
    said = {
        "uuid": guest.instance_uuid,
        "name": guest.name,
        "project": guest.project_id,
        "host": machine.host,
        "administrator": machine.wished.admin_user,
        **({"still": "required"} if machine.wished.stands_still else {}),
    }
    for name, value in said.items():
        text(mark, f"{{{NAMESPACE}}}{name}", value)


def _add_boot(domain: Element, guest: GuestSpec, machine: Machine) -> None:
    boot = SubElement(domain, "os")
    if machine.wished.firmware == "uefi":
        boot.set("firmware", "efi")
    text(boot, "type", "hvm", arch="x86_64", machine=machine.wished.machine)
    if machine.wished.is_secure:
        firmware = SubElement(boot, "firmware")
        for name in sorted(SIGNED_ONLY):
            SubElement(firmware, "feature", enabled="yes", name=name)
        SubElement(boot, "loader", secure="yes")
    if machine.wished.has_boot_menu:
        SubElement(boot, "bootmenu", enable="yes")
    if machine.kernel is None:
        SubElement(boot, "boot", dev="hd")
        return
    text(boot, "kernel", str(machine.kernel))
    if machine.ramdisk is not None:
        text(boot, "initrd", str(machine.ramdisk))
    text(boot, "cmdline", guest.image.properties.get("os_command_line") or KERNEL_COMMAND_LINE)


def _add_features(domain: Element, machine: Machine) -> None:
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    if machine.wished.is_secure:
        SubElement(features, "smm", state="on")
    if machine.virt_type != KVM:
        text(SubElement(features, "tcg"), "tb-cache", TRANSLATION_CACHE_MB, unit="MiB")


def _add_devices(domain: Element, machine: Machine) -> None:
    devices = SubElement(domain, "devices")
    SubElement(devices, "controller", type="usb", model="none")
    if machine.wished.is_secure:
        SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
        for index in range(1, PLACES_FOR_DISKS + 1):
            SubElement(devices, "controller", type="pci", index=str(index), model="pcie-root-port")
    for disk in machine.disks:
        devices.append(devices_xml.disk_element(disk))
    if machine.config_drive is not None:
        taken = {disk.target for disk in machine.disks}
        devices_xml.add_config_drive(devices, machine.config_drive, machine.wished, taken)
    devices_xml.add_lines(devices, machine.lines, machine.wished)
    devices_xml.add_small_ones(devices, machine.wished)
    inside_xml.add_devices(devices, machine.grant)
