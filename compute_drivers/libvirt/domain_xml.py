"""Writes the description of a guest that libvirt starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt.virt_type import KVM
from conductor.core.compute_driver import GuestSpec, VolumeConnection

NAMESPACE = "urn:novella:instance"
QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
KERNEL_COMMAND_LINE = "console=ttyS0 no_timer_check panic=-1"
# Translated code of an emulated guest is kept in memory that no flavor counts.
TRANSLATION_CACHE_MB = "64"
NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ElementTree.register_namespace("novella", NAMESPACE)
ElementTree.register_namespace("qemu", QEMU_NAMESPACE)


@dataclass(frozen=True)
class Disk:
    """A disk of a guest; `target` is the name that it has where the guest follows the order, `alias` libvirt's."""

    path: Path
    target: str = ""
    disk_format: str = "qcow2"
    alias: str = ""
    serial: str = ""
    is_read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the guest gets beside what its spec says. Without a kernel the first disk is booted."""

    virt_type: str
    disks: Sequence[Disk]
    console: Path
    kernel: Path | None = None
    ramdisk: Path | None = None
    qemu_arguments: Sequence[str] = ()


def name_of(instance_uuid: str) -> str:
    """The domain's name. libvirt cuts it to twenty characters in paths of sockets."""
    return f"novella-{instance_uuid}"


def alias_of(volume_uuid: str) -> str:
    """libvirt knows the disk of a volume by this; names of users begin with ua-."""
    return f"ua-volume-{volume_uuid}"


def arranged(own: Sequence[Path], volumes: Sequence[VolumeConnection], taken: Collection[str] = ()) -> tuple[Disk, ...]:
    """The guest's own disks and its volumes, each with a free name: the one that a volume asks for where it can be.

    A volume to boot from comes first.
    """
    first = [_disk_of(volume) for volume in volumes if volume.boot_index == 0]
    rest = [_disk_of(volume) for volume in volumes if volume.boot_index != 0]
    wanted = [*first, *map(Disk, own), *rest]
    names = {f"vd{letter}" for letter in ascii_lowercase} - set(taken)
    kept: list[Disk] = []
    for disk in wanted:
        target = disk.target if disk.target in names else ""
        names.discard(target)
        kept.append(replace(disk, target=target))
    free = iter(sorted(names))
    return tuple(disk if disk.target else replace(disk, target=next(free)) for disk in kept)


def _disk_of(volume: VolumeConnection) -> Disk:
    return Disk(
        Path(volume.path),
        target=volume.device_name.rpartition("/")[2],
        disk_format=volume.disk_format,
        alias=alias_of(volume.volume_uuid),
        serial=volume.serial,
        is_read_only=volume.is_read_only,
    )


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
    for disk in machine.disks:
        devices.append(_disk(disk))
    serial = SubElement(devices, "serial", type="file")
    # Without append every start would empty it, and what was read before would be read again.
    SubElement(serial, "source", path=str(machine.console), append="on")
    SubElement(serial, "target", port="0")
    SubElement(SubElement(devices, "video"), "model", type="none")


def disk(described: Disk) -> str:
    """The XML of one disk, to be plugged into a guest that runs."""
    return ElementTree.tostring(_disk(described), encoding="unicode")


def _disk(described: Disk) -> Element:
    is_block = described.path.is_block_device()
    disk = Element("disk", type="block" if is_block else "file", device="disk")
    SubElement(disk, "driver", name="qemu", type=described.disk_format, discard="unmap")
    SubElement(disk, "source", {"dev" if is_block else "file": str(described.path)})
    SubElement(disk, "target", dev=described.target, bus="virtio")
    if described.serial:
        _text(disk, "serial", described.serial)
    if described.is_read_only:
        SubElement(disk, "readonly")
    if described.alias:
        SubElement(disk, "alias", name=described.alias)
    return disk


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = _clean(text)


def _clean(text: str) -> str:
    """XML has no place for some characters that names may have."""
    return NOT_IN_XML.sub("?", text)
