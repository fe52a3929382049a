"""Devices of a guest as libvirt wants them described: disks, consoles, and the small ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_lowercase
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt.wishes import DISK_NAMES, Wished
from conductor.core.compute_driver import VolumeConnection

NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
AGENT_CHANNEL = "org.qemu.guest_agent.0"
KB_PER_MB = 1024
# What a guest may draw from the host's randomness: so many bytes in so many milliseconds.
RANDOM_RATE = {"bytes": "1024", "period": "1000"}


@dataclass(frozen=True)
class Disk:
    """A disk of a guest; `target` is the name that it has where the guest follows the order, `alias` libvirt's."""

    path: Path
    target: str = ""
    disk_format: str = "qcow2"
    alias: str = ""
    serial: str = ""
    is_read_only: bool = False
    bus: str = "virtio"
    limits: Mapping[str, int] = field(default_factory=dict)
    cache: str = ""
    is_shared: bool = False


@dataclass(frozen=True)
class Lines:
    """What a guest talks through: sockets of its serial port and its screen, and the file that keeps what it said."""

    log: Path
    serial: Path
    screen: Path


def alias_of(volume_uuid: str) -> str:
    """libvirt knows the disk of a volume by this; names of users begin with ua-."""
    return f"ua-volume-{volume_uuid}"


def arranged(
    own: Sequence[Path],
    volumes: Sequence[VolumeConnection],
    taken: Collection[str] = (),
    *,
    bus: str = "virtio",
    limits: Mapping[str, int] | None = None,
    cache: str = "",
) -> tuple[Disk, ...]:
    """The guest's own disks and its volumes, each with a free name: the one that a volume asks for where it can be.

    A volume to boot from comes first. `cache` is of the guest's own.
    """
    first = [_disk_of(volume) for volume in volumes if volume.boot_index == 0]
    rest = [_disk_of(volume) for volume in volumes if volume.boot_index != 0]
    wanted = [*first, *(Disk(path, cache=cache) for path in own), *rest]
    names = {f"{DISK_NAMES[bus]}{letter}" for letter in ascii_lowercase} - set(taken)
    kept: list[Disk] = []
    for disk in wanted:
        target = disk.target if disk.target in names else ""
        names.discard(target)
        kept.append(replace(disk, target=target, bus=bus, limits=limits or {}))
    free = iter(sorted(names))
    return tuple(disk if disk.target else replace(disk, target=next(free)) for disk in kept)


def _disk_of(volume: VolumeConnection) -> Disk:
    return Disk(
        Path(volume.path),
        target=volume.device_name.rpartition("/")[2],
        disk_format=volume.disk_format,
        alias=alias_of(volume.volume_uuid),
        serial=volume.serial,
        cache="none" if volume.is_shared else "",
        is_shared=volume.is_shared,
        is_read_only=volume.is_read_only,
    )


def disk(described: Disk) -> str:
    """The XML of one disk, to be plugged into a guest that runs."""
    return ElementTree.tostring(disk_element(described), encoding="unicode")


def source_of(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Attributes of a disk and of its source, for a file or a block device."""
    is_block = path.is_block_device()
    return {"type": "block" if is_block else "file"}, {"dev" if is_block else "file": str(path)}


def disk_element(described: Disk) -> Element:
    kind, source = source_of(described.path)
    disk = Element("disk", kind, device="disk")
    driver = SubElement(disk, "driver", name="qemu", type=described.disk_format)
    if described.bus in ("virtio", "scsi", "sata"):
        driver.set("discard", "unmap")
    if described.cache:
        driver.set("cache", described.cache)
    SubElement(disk, "source", source)
    SubElement(disk, "target", dev=described.target, bus=described.bus)
    if described.limits:
        tuning = SubElement(disk, "iotune")
        for name, amount in described.limits.items():
            text(tuning, name, str(amount))
    if described.serial:
        text(disk, "serial", described.serial)
    if described.is_read_only:
        SubElement(disk, "readonly")
    if described.is_shared:
        SubElement(disk, "shareable")
    if described.alias:
        SubElement(disk, "alias", name=described.alias)
    return disk


def add_config_drive(devices: Element, path: Path, wished: Wished, taken: Collection[str]) -> None:
    """A CD, so that it takes no disk's name; on a bus that has none, a read-only disk behind all others."""
    prefix = DISK_NAMES[wished.cdrom_bus]
    name = next(f"{prefix}{letter}" for letter in reversed(ascii_lowercase[:4]) if f"{prefix}{letter}" not in taken)
    is_cd = wished.cdrom_bus != "virtio"
    drive = SubElement(devices, "disk", type="file", device="cdrom" if is_cd else "disk")
    SubElement(drive, "driver", name="qemu", type="raw")
    SubElement(drive, "source", file=str(path))
    SubElement(drive, "target", dev=name if is_cd else f"{prefix}z", bus=wished.cdrom_bus)
    SubElement(drive, "readonly")


def add_lines(devices: Element, lines: Lines, wished: Wished) -> None:
    """Sockets that only this host can open; QEMU keeps what the guest says whether somebody listens or not."""
    serial = SubElement(devices, "serial", type="unix")
    SubElement(serial, "source", mode="bind", path=str(lines.serial))
    # Without append every start would empty it, and what was read before would be read again.
    SubElement(serial, "log", file=str(lines.log), append="on")
    SubElement(serial, "target", port="0")
    model = SubElement(SubElement(devices, "video"), "model", type=wished.video_model)
    if wished.video_model == "none":
        return
    if wished.video_ram_mb:
        model.set("vram", str(wished.video_ram_mb * KB_PER_MB))
    screen = SubElement(devices, "graphics", type="vnc")
    SubElement(screen, "listen", type="socket", socket=str(lines.screen))


def add_small_ones(devices: Element, wished: Wished) -> None:
    """Randomness, watchdog, the agent's channel, a pointer that knows where it is."""
    if wished.has_rng:
        source = SubElement(devices, "rng", model="virtio")
        SubElement(source, "rate", RANDOM_RATE)
        text(source, "backend", "/dev/urandom", model="random")
    if wished.watchdog:
        SubElement(devices, "watchdog", model="i6300esb", action=wished.watchdog)
    if wished.has_agent:
        channel = SubElement(devices, "channel", type="unix")
        SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    if wished.has_tablet:
        SubElement(devices, "input", type="tablet", bus="virtio")


def text(parent: Element, tag: str, words: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = clean(words)


def clean(words: str) -> str:
    """XML has no place for some characters that names may have."""
    return NOT_IN_XML.sub("?", words)
