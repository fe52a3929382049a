"""Writes the description of a guest that libvirt starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt.virt_type import KVM
from conductor.core.compute_driver import GuestSpec

NAMESPACE = "urn:novella:instance"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
KERNEL_COMMAND_LINE = "console=ttyS0 no_timer_check panic=-1"
# Translated code of an emulated guest is kept in memory that no flavor counts.
TRANSLATION_CACHE_MB = "64"
NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ElementTree.register_namespace("novella", NAMESPACE)
ElementTree.register_namespace("qemu", QEMU_NAMESPACE)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the guest gets beside what its spec says. Disks are qcow2; without a kernel the first one is booted."""

    virt_type: str
    disks: Sequence[Path]
    console: Path
    kernel: Path | None = None
    ramdisk: Path | None = None
    qemu_arguments: Sequence[str] = ()


def name_of(instance_uuid: str) -> str:
    """The domain's name. libvirt cuts it to twenty characters in paths of sockets."""
    return f"novella-{instance_uuid}"


def build(guest: GuestSpec, machine: Machine) -> str:
    """The domain's XML."""
    domain = Element("domain", type=machine.virt_type)
    _text(domain, "name", name_of(guest.instance_uuid))
    _text(domain, "uuid", guest.instance_uuid)
    _add_metadata(domain, guest)
    _text(domain, "memory", str(guest.flavor.memory_mb), unit="MiB")
    _text(domain, "vcpu", str(guest.flavor.vcpus))
    _add_boot(domain, guest, machine)
    _add_processor(domain, machine)
    SubElement(domain, "clock", offset="utc")
    for event, answer in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _text(domain, event, answer)
    _add_devices(domain, machine)
    if machine.qemu_arguments:
        command_line = SubElement(domain, f"{{{QEMU_NAMESPACE}}}commandline")
        for word in machine.qemu_arguments:
            SubElement(command_line, f"{{{QEMU_NAMESPACE}}}arg", value=_clean(word))
    return ElementTree.tostring(domain, encoding="unicode")


def _add_metadata(domain: Element, guest: GuestSpec) -> None:
    """By this mark we tell our guests from others of the same hypervisor."""
    mark = SubElement(SubElement(domain, "metadata"), f"{{{NAMESPACE}}}instance")
    for name, value in (("uuid", guest.instance_uuid), ("name", guest.name), ("project", guest.project_id)):
        _text(mark, f"{{{NAMESPACE}}}{name}", value)


def _add_boot(domain: Element, guest: GuestSpec, machine: Machine) -> None:
    boot = SubElement(domain, "os")
    _text(boot, "type", "hvm", arch="x86_64", machine="pc")
    if machine.kernel is None:
        SubElement(boot, "boot", dev="hd")
        return
    _text(boot, "kernel", str(machine.kernel))
    if machine.ramdisk is not None:
        _text(boot, "initrd", str(machine.ramdisk))
    _text(boot, "cmdline", guest.image.properties.get("os_command_line") or KERNEL_COMMAND_LINE)


def _add_processor(domain: Element, machine: Machine) -> None:
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    if machine.virt_type == KVM:
        SubElement(domain, "cpu", mode="host-passthrough")
    else:
        _text(SubElement(features, "tcg"), "tb-cache", TRANSLATION_CACHE_MB, unit="MiB")


def _add_devices(domain: Element, machine: Machine) -> None:
    devices = SubElement(domain, "devices")
    SubElement(devices, "controller", type="usb", model="none")
    for index, path in enumerate(machine.disks):
        disk = SubElement(devices, "disk", type="file", device="disk")
        SubElement(disk, "driver", name="qemu", type="qcow2", discard="unmap")
        SubElement(disk, "source", file=str(path))
        SubElement(disk, "target", dev=f"vd{chr(ord('a') + index)}", bus="virtio")
    serial = SubElement(devices, "serial", type="file")
    # Without append every start would empty it, and what was read before would be read again.
    SubElement(serial, "source", path=str(machine.console), append="on")
    SubElement(serial, "target", port="0")
    SubElement(SubElement(devices, "video"), "model", type="none")


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = _clean(text)


def _clean(text: str) -> str:
    """XML has no place for some characters that names may have."""
    return NOT_IN_XML.sub("?", text)
