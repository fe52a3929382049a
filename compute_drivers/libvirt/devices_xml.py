"""XML of a guest's devices: disks, consoles, random number generator, watchdog, agent channel, tablet."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_lowercase
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt.machine_spec import DISK_NAMES, MachineSpec
from conductor.core.compute_driver import VolumeConnection
from conductor.core.disk_images import Backing

NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
AGENT_CHANNEL = "org.qemu.guest_agent.0"
KB_PER_MB = 1024
# Bytes that a guest may draw from the host's random source in `period` milliseconds.
RANDOM_RATE = {"bytes": "1024", "period": "1000"}


@dataclass(frozen=True)
class Disk:
    """A disk of a guest. `target` is its name in the guest, `alias` libvirt's name for it."""

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
    chain: BackingChain | None = None


@dataclass(frozen=True)
class BackingChain:
    """The image below a disk, named so that libvirt does not read it from a file that a guest can write.

    libvirt leaves the owner of the image as it is, and that of a volume (`is_volume`): other guests use them too.
    """

    below: Backing | None = None
    is_volume: bool = False


@dataclass(frozen=True)
class ConsoleSockets:
    """Sockets of a guest's serial port and screen, and the log of its serial output."""

    log: Path
    serial: Path
    screen: Path


def alias_of(volume_uuid: str) -> str:
    """Return libvirt's name for the disk of a volume; user-defined names begin with ua-."""
    return f"ua-volume-{volume_uuid}"


def arrange_disks(
    own: Sequence[Path],
    volumes: Sequence[VolumeConnection],
    taken: Collection[str] = (),
    *,
    bus: str = "virtio",
    limits: Mapping[str, int] | None = None,
    cache: str = "",
) -> tuple[Disk, ...]:
    """Order the guest's own disks and volumes, and give each a free name: the requested one where possible.

    Args:
        taken: Names that other disks of the guest have.
        cache: Cache mode of the guest's own disks. A volume to boot from comes first.
    """
    first = [_disk_of(volume) for volume in volumes if volume.boot_index == 0]
    rest = [_disk_of(volume) for volume in volumes if volume.boot_index != 0]
    wanted = [*first, *(Disk(path, cache=cache) for path in own), *rest]
    names = {f"{DISK_NAMES[bus]}{letter}" for letter in ascii_lowercase} - set(taken)
    named: list[Disk] = []
    for disk in wanted:
        target = disk.target if disk.target in names else ""
        names.discard(target)
        named.append(replace(disk, target=target, bus=bus, limits=limits or {}))
    free = iter(sorted(names))
    return tuple(disk if disk.target else replace(disk, target=next(free)) for disk in named)


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


def disk_xml(disk: Disk) -> str:
    """Return the XML of one disk, to be attached to a running guest."""
    return ElementTree.tostring(disk_element(disk), encoding="unicode")


def source_of(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes of a disk element and of its source, for a file or a block device."""
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
    add_source(disk, source, described.chain)
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


def add_source(disk: Element, attributes: Mapping[str, str], chain: BackingChain | None) -> Element:
    """Add the source of a disk, and its backing chain where one is given."""
    source = SubElement(disk, "source", dict(attributes))
    if chain is None:
        return source
    if chain.is_volume:
        _keep_owner(source)
    end = SubElement(disk, "backingStore")
    if chain.below is not None:
        end.set("type", "file")
        SubElement(end, "format", type=chain.below.disk_format)
        _keep_owner(SubElement(end, "source", file=str(chain.below.path)))
        SubElement(end, "backingStore")
    return source


def _keep_owner(source: Element) -> None:
    SubElement(source, "seclabel", model="dac", relabel="no")


def add_config_drive(devices: Element, path: Path, spec: MachineSpec, taken: Collection[str]) -> None:
    """Add the config drive as a CD-ROM, or as the last, read-only disk on a bus without CD-ROMs."""
    prefix = DISK_NAMES[spec.cdrom_bus]
    name = next(f"{prefix}{letter}" for letter in reversed(ascii_lowercase[:4]) if f"{prefix}{letter}" not in taken)
    is_cd = spec.cdrom_bus != "virtio"
    drive = SubElement(devices, "disk", type="file", device="cdrom" if is_cd else "disk")
    SubElement(drive, "driver", name="qemu", type="raw")
    SubElement(drive, "source", file=str(path))
    SubElement(drive, "target", dev=name if is_cd else f"{prefix}z", bus=spec.cdrom_bus)
    SubElement(drive, "readonly")


def add_consoles(devices: Element, consoles: ConsoleSockets, spec: MachineSpec) -> None:
    """Add serial port and screen with sockets that only this host can open. QEMU logs the serial output in any case."""
    serial = SubElement(devices, "serial", type="unix")
    SubElement(serial, "source", mode="bind", path=str(consoles.serial))
    # Without append each start would empty the log, and offsets of readers would be wrong.
    SubElement(serial, "log", file=str(consoles.log), append="on")
    SubElement(serial, "target", port="0")
    model = SubElement(SubElement(devices, "video"), "model", type=spec.video_model)
    if spec.video_model == "none":
        return
    if spec.video_ram_mb:
        model.set("vram", str(spec.video_ram_mb * KB_PER_MB))
    screen = SubElement(devices, "graphics", type="vnc")
    SubElement(screen, "listen", type="socket", socket=str(consoles.screen))


def add_small_devices(devices: Element, spec: MachineSpec) -> None:
    """Add random number generator, watchdog, agent channel and tablet."""
    if spec.has_rng:
        source = SubElement(devices, "rng", model="virtio")
        SubElement(source, "rate", RANDOM_RATE)
        text(source, "backend", "/dev/urandom", model="random")
    if spec.watchdog:
        SubElement(devices, "watchdog", model="i6300esb", action=spec.watchdog)
    if spec.has_agent:
        channel = SubElement(devices, "channel", type="unix")
        SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    if spec.has_tablet:
        SubElement(devices, "input", type="tablet", bus="virtio")


def text(parent: Element, tag: str, words: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = clean(words)


def clean(words: str) -> str:
    """Replace characters that XML does not allow."""
    return NOT_IN_XML.sub("?", words)
