"""Which disk of a guest is which volume, also after one took the place of another while the guest ran."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import libvirt

from compute_drivers.libvirt.devices_xml import alias_of, source_of
from conductor.core.compute_driver import VolumeConnection
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

NAMESPACE, PREFIX = "urn:novella:volumes", "volumes"
ALIAS = re.compile(r"ua-volume-([0-9a-f-]{36})(?:-[0-9]+)?")
NO_JOB = {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN}
COPY = libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
POLL_SECONDS = 0.1


class GuestVolumes:
    """libvirt names a disk when it comes, and never again: what was swapped since is noted beside it, by its path."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def alias(self, volume_uuid: str) -> str:
        """By this libvirt knows the volume's disk; "" where the guest has it not."""
        disk = self._disks().get(volume_uuid)
        return "" if disk is None else _name(disk)

    def free_alias(self, volume_uuid: str) -> str:
        """Another volume may have come under this one's name."""
        taken = {_name(disk) for disk in self._elements()}
        wanted = alias_of(volume_uuid)
        names = (wanted, *(f"{wanted}-{number}" for number in range(2, 2 + len(taken))))
        return next(name for name in names if name not in taken)

    def swap(self, old_uuid: str, volume: VolumeConnection, tell: Callable[[float], None]) -> None:
        """Copy, and go on with the copy from the moment in which both are the same. What `tell` raises ends it."""
        disks = self._disks()
        if old_uuid not in disks:
            if volume.volume_uuid in disks:
                return  # it was swapped before
            raise DriverError("The guest does not have the volume that is to be swapped.")
        name = _target(disks[old_uuid])
        size = int(self._domain.blockInfo(name)[0])
        wanted = _described(volume, size)
        self._drop_job(name)  # of a call that was cut off
        self._note(volume.path, volume.volume_uuid)
        self._domain.blockCopy(name, wanted, {}, COPY)
        try:
            self._follow(name, tell)
            self._domain.blockJobAbort(name, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        except BaseException:
            self._drop_job(name)
            raise
        self.show_all(volume)

    def show_all(self, volume: VolumeConnection) -> None:
        """What a larger volume has more, at once where libvirt can, else at the guest's next start.

        Of one that was swapped it can from 10.0 on.
        """
        name = _target(self._disks()[volume.volume_uuid])
        if volume.disk_format != "raw" or (has := _bytes_of(volume.path)) <= int(self._domain.blockInfo(name)[0]):
            return
        try:
            self._domain.blockResize(name, has, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        except libvirt.libvirtError as error:
            log.info("a volume shows its size later: %s %s: %s", self._domain.name(), name, error)

    def _follow(self, name: str, tell: Callable[[float], None]) -> None:
        while not self._is_ready(name):
            job = self._domain.blockJobInfo(name)
            if not job:
                raise DriverError("The copy of the volume ended before it was complete.")
            tell(job["cur"] / job["end"] if job["end"] else 0.0)
            time.sleep(POLL_SECONDS)

    def _is_ready(self, name: str) -> bool:
        mirrors = (disk.find("mirror") for disk in self._elements() if _target(disk) == name)
        return any(mirror is not None and mirror.get("ready") == "yes" for mirror in mirrors)

    def _drop_job(self, name: str) -> None:
        try:
            if self._domain.blockJobInfo(name):
                self._domain.blockJobAbort(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in NO_JOB:
                raise

    # -- which is which

    def _disks(self) -> dict[str, Element]:
        noted = {entry.get("path"): entry.get("uuid", "") for entry in self._notes()}
        found = {}
        for disk in self._elements():
            source = disk.find("source")
            path = "" if source is None else source.get("file") or source.get("dev") or ""
            first = ALIAS.fullmatch(_name(disk))
            uuid = noted.get(path) or (first[1] if first else "")
            found[uuid] = disk
        return found

    def _elements(self) -> list[Element]:
        """Those of volumes."""
        disks = ElementTree.fromstring(self._domain.XMLDesc()).findall("devices/disk")
        return [disk for disk in disks if ALIAS.fullmatch(_name(disk))]

    def _notes(self) -> list[Element]:
        try:
            element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
            told = self._domain.metadata(element, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CURRENT)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise
            return []
        return list(ElementTree.fromstring(told))

    def _note(self, path: str, volume_uuid: str) -> None:
        """Before the switch: a path that no disk has says nothing. It is forgotten when the guest is off."""
        kept = Element(PREFIX)
        kept.extend(entry for entry in self._notes() if entry.get("path") != path)
        SubElement(kept, "volume", path=path, uuid=volume_uuid)
        text = ElementTree.tostring(kept, encoding="unicode")
        element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        self._domain.setMetadata(element, text, PREFIX, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _name(disk: Element) -> str:
    alias = disk.find("alias")
    return "" if alias is None else alias.get("name", "")


def _target(disk: Element) -> str:
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


def _described(volume: VolumeConnection, size: int) -> str:
    """QEMU copies between equals: what a larger volume has more is left out."""
    disk, attributes = source_of(Path(volume.path))
    wanted = Element("disk", disk)
    source = SubElement(wanted, "source", attributes)
    SubElement(wanted, "driver", type=volume.disk_format)
    if volume.disk_format == "raw":
        has = _bytes_of(volume.path)
        if has < size:
            raise DriverError(f"The other volume has {has} bytes, fewer than the {size} of the first.")
        if has > size:
            slices = SubElement(source, "slices")
            SubElement(slices, "slice", type="storage", offset="0", size=str(size))
    return ElementTree.tostring(wanted, encoding="unicode")


def _bytes_of(path: str) -> int:
    """Of a file or a block device."""
    try:
        with open(path, "rb") as opened:
            return opened.seek(0, os.SEEK_END)
    except OSError as error:
        raise DriverError(f"The other volume cannot be opened: {error.strerror}.") from error
