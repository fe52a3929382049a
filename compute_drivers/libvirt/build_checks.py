"""Checks before a build that need this machine: free memory and disk now, huge pages, processors and PCI devices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compute_drivers import free_room
from compute_drivers.libvirt.host_inventory import KB_PER_MB, NODES, PCI_DEVICES
from compute_drivers.libvirt.spawn import has_root_image
from conductor.core.compute_driver import GuestSpec
from conductor.core.disk_images import FORMATS
from conductor.core.errors import DriverError
from conductor.core.hardware import cpu_sets
from conductor.core.hardware.grants import HardwareGrant
from conductor.core.hardware.request import InstanceCell
from conductor.core.hardware.wire import grant_from_json

SMALL_PAGES_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def require(
    guest: GuestSpec,
    images_dir: Path,
    *,
    nodes: Path = NODES,
    devices: Path = PCI_DEVICES,
    memory_info: Path = free_room.MEMORY_INFO,
) -> None:
    """Raise DriverError where this machine cannot have the guest now."""
    image = guest.image
    if has_root_image(guest) and image.disk_format not in FORMATS:
        raise DriverError(
            f"Guests of this host start from {' and '.join(FORMATS)} images; image {image.image_id} is "
            f"{image.disk_format or 'of no stated format'}."
        )
    grant = grant_from_json(guest.hardware)
    cells = list(_cells_on_huge_pages(grant))
    for cell in cells:
        _require_pages(cell, nodes)
    _require_hardware(grant, devices)
    on_small_pages_mb = guest.flavor.memory_mb - sum(cell.memory_mb for cell in cells)
    free_room.require(image, images_dir, on_small_pages_mb, memory_info=memory_info)


def _cells_on_huge_pages(grant: HardwareGrant) -> Iterator[InstanceCell]:
    for cell in grant.numa.cells if grant.numa else ():
        if (cell.page_size_kb or 0) > SMALL_PAGES_KB:
            yield cell


def _require_pages(cell: InstanceCell, nodes: Path) -> None:
    size_kb = cell.page_size_kb or SMALL_PAGES_KB
    count = nodes / f"node{cell.id}" / "hugepages" / f"hugepages-{size_kb}kB" / "free_hugepages"
    free = int(count.read_text()) if count.exists() else 0
    needed = -(-cell.memory_mb * KB_PER_MB // size_kb)
    if needed > free:
        raise DriverError(
            f"NUMA cell {cell.id} of the host has {free} free pages of {size_kb} KiB now; the server needs {needed}."
        )


def _require_hardware(grant: HardwareGrant, devices: Path) -> None:
    pinned = {cpu for cell in grant.numa.cells for _, cpu in cell.pins} if grant.numa else set()
    missing_cpus = frozenset(pinned) - os.sched_getaffinity(0)
    if missing_cpus:
        raise DriverError(f"The host does not have the processors {cpu_sets.show(missing_cpus)} now.")
    missing = sorted(device.address for device in grant.devices if not (devices / device.address).exists())
    if missing:
        raise DriverError(f"The host does not have the device {', '.join(missing)} now.")
