"""Maps volumes to disks of a running guest, and swaps, resizes and copies volumes. It loads libvirt."""

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

from compute_drivers.libvirt.accounts import permissions_of
from compute_drivers.libvirt.devices_xml import BackingChain, add_source, alias_of, source_of
from conductor.core.compute_driver import VolumeConnection
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

NAMESPACE, PREFIX = "urn:novella:volumes", "volumes"
ALIAS = re.compile(r"ua-volume-([0-9a-f-]{36})(?:-[0-9]+)?")
NO_JOB = {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN}
COPY = libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
POLL_SECONDS = 0.1


class GuestVolumes:
    """Volumes of one guest.

    libvirt never changes the alias of a disk, so a swapped volume is recorded in the domain's metadata by its path.
    """

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def alias(self, volume_uuid: str) -> str:
        """Return libvirt's alias of the volume's disk; "" where the guest does not have the volume."""
        disk = self._disks().get(volume_uuid)
        return "" if disk is None else _alias(disk)

    def free_alias(self, volume_uuid: str) -> str:
        """Return an unused alias for the volume; another volume may have been attached under its default one."""
        taken = {_alias(disk) for disk in self._elements()}
        wanted = alias_of(volume_uuid)
        names = (wanted, *(f"{wanted}-{number}" for number in range(2, 2 + len(taken))))
        return next(name for name in names if name not in taken)

    @property
    def chain(self) -> BackingChain | None:
        """Return the chain to describe volumes with; a guest with its own account leaves their owners unchanged."""
        label = ElementTree.fromstring(self._domain.XMLDesc()).find("seclabel[@model='dac'][@type='static']")
        return None if label is None else BackingChain(is_volume=True)

    def permissions(self) -> dict[str, int]:
        """Return the permissions that the guest's account needs for its present volumes, by path."""
        found = {_path(disk): disk.find("readonly") is not None for disk in self._elements()}
        return {path: permissions_of(is_read_only=is_read_only) for path, is_read_only in found.items() if path}

    def swap(self, old_uuid: str, volume: VolumeConnection, report: Callable[[float], None]) -> None:
        """Copy a volume and switch the guest to the copy when both are equal. What `report` raises ends it."""
        disks = self._disks()
        if old_uuid not in disks:
            if volume.volume_uuid in disks:
                return  # already swapped
            raise DriverError("The guest does not have the volume that is to be swapped.")
        name = _target(disks[old_uuid])
        size = int(self._domain.blockInfo(name)[0])
        target_xml = _target_xml(volume, size, self.chain)
        self._abort_job(name)  # of an interrupted call
        self._record(volume.path, volume.volume_uuid)
        self._domain.blockCopy(name, target_xml, {}, COPY)
        try:
            self._wait_until_ready(name, report)
            self._domain.blockJobAbort(name, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        except BaseException:
            self._abort_job(name)
            raise
        self.update_size(volume)

    def update_size(self, volume: VolumeConnection) -> None:
        """Show the guest the size of an enlarged volume: now where libvirt can, otherwise at its next start.

        libvirt can resize a swapped volume since 10.0.
        """
        name = _target(self._disks()[volume.volume_uuid])
        if volume.disk_format != "raw" or (capacity := _capacity(volume.path)) <= int(self._domain.blockInfo(name)[0]):
            return
        try:
            self._domain.blockResize(name, capacity, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        except libvirt.libvirtError as error:
            log.info("volume is resized at the next start: %s %s: %s", self._domain.name(), name, error)

    def _wait_until_ready(self, name: str, report: Callable[[float], None]) -> None:
        while not self._is_ready(name):
            job = self._domain.blockJobInfo(name)
            if not job:
                raise DriverError("The copy of the volume ended before it was complete.")
            report(job["cur"] / job["end"] if job["end"] else 0.0)
            time.sleep(POLL_SECONDS)

    def _is_ready(self, name: str) -> bool:
        mirrors = (disk.find("mirror") for disk in self._elements() if _target(disk) == name)
        return any(mirror is not None and mirror.get("ready") == "yes" for mirror in mirrors)

    def _abort_job(self, name: str) -> None:
        try:
            if self._domain.blockJobInfo(name):
                self._domain.blockJobAbort(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in NO_JOB:
                raise

    # -- volumes and disks

    def _disks(self) -> dict[str, Element]:
        """Return the disk elements by volume uuid."""
        recorded = {entry.get("path"): entry.get("uuid", "") for entry in self._records()}
        found = {}
        for disk in self._elements():
            path = _path(disk)
            match = ALIAS.fullmatch(_alias(disk))
            uuid = recorded.get(path) or (match[1] if match else "")
            found[uuid] = disk
        return found

    def _elements(self) -> list[Element]:
        """Return the disk elements that are volumes."""
        disks = ElementTree.fromstring(self._domain.XMLDesc()).findall("devices/disk")
        return [disk for disk in disks if ALIAS.fullmatch(_alias(disk))]

    def _records(self) -> list[Element]:
        try:
            element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
            text = self._domain.metadata(element, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CURRENT)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise
            return []
        return list(ElementTree.fromstring(text))

    def _record(self, path: str, volume_uuid: str) -> None:
        """Record which volume is at `path`, before the switch: a path without a disk is ignored.

        libvirt drops the record when the guest is off.
        """
        kept = Element(PREFIX)
        kept.extend(entry for entry in self._records() if entry.get("path") != path)
        SubElement(kept, "volume", path=path, uuid=volume_uuid)
        text = ElementTree.tostring(kept, encoding="unicode")
        element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        self._domain.setMetadata(element, text, PREFIX, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _alias(disk: Element) -> str:
    alias = disk.find("alias")
    return "" if alias is None else alias.get("name", "")


def _path(disk: Element) -> str:
    source = disk.find("source")
    return "" if source is None else source.get("file") or source.get("dev") or ""


def _target(disk: Element) -> str:
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


def _target_xml(volume: VolumeConnection, size: int, chain: BackingChain | None) -> str:
    """Return the XML of the copy's target. QEMU copies between equal sizes, so a larger volume is cut to `size`."""
    disk, attributes = source_of(Path(volume.path))
    element = Element("disk", disk)
    source = add_source(element, attributes, chain)
    SubElement(element, "driver", type=volume.disk_format)
    if volume.disk_format == "raw":
        capacity = _capacity(volume.path)
        if capacity < size:
            raise DriverError(f"The other volume has {capacity} bytes, fewer than the {size} of the first.")
        if capacity > size:
            slices = SubElement(source, "slices")
            SubElement(slices, "slice", type="storage", offset="0", size=str(size))
    return ElementTree.tostring(element, encoding="unicode")


def _capacity(path: str) -> int:
    """Return the bytes of a file or block device."""
    try:
        with open(path, "rb") as opened:
            return opened.seek(0, os.SEEK_END)
    except OSError as error:
        raise DriverError(f"The other volume cannot be opened: {error.strerror}.") from error
