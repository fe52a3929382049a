"""Disks of containers: files with an ext4 of the flavor's size, mounted while the guest needs them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from compute_drivers import programs
from compute_drivers.host_places import files
from conductor.core.errors import BuildAborted, DriverError

GB = 1 << 30
COPY_SECONDS = 3600.0
RELEASE_SECONDS = 2.0
# A device that an image holds shall be none on this machine.
MOUNT_OPTIONS = "loop,nodev,noatime"


def create(path: Path, size_gb: int, first_id: int) -> None:
    """An empty disk that belongs to root of the containers. Raises DriverError."""
    with files("The disk could not be made"), path.open("xb") as file:
        file.truncate(size_gb * GB)
    owner = f"root_owner={first_id}:{first_id}"
    programs.must("The disk could not be made", "mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-E", owner, str(path))


def mount(disk: Path, place: Path) -> None:
    """Does nothing where it is mounted already. Raises DriverError."""
    if is_mounted(place):
        return
    with files("The disk could not be mounted"):
        place.mkdir(exist_ok=True)
    programs.must("The disk could not be mounted", "mount", "-t", "ext4", "-o", MOUNT_OPTIONS, str(disk), str(place))


def unmount(place: Path) -> None:
    """Also a place where nothing is mounted goes. Raises DriverError."""
    if is_mounted(place):
        backing = _backing_file(place)
        programs.must("The disk could not be unmounted", "sync", "--file-system", str(place))
        programs.must("The disk could not be unmounted", "umount", str(place))
        _wait_until_released(backing)
    with files("The disk could not be unmounted"):
        if place.exists():
            place.rmdir()


def _backing_file(place: Path) -> Path:
    device = os.stat(place).st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file")


def _wait_until_released(backing: Path) -> None:
    """The kernel lets go of a disk a little later; whoever keeps it longer has nothing to write to it any more."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while backing.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def is_mounted(place: Path) -> bool:
    return os.path.ismount(place)


def copy(source: Path, target: Path) -> None:
    """Raises DriverError."""
    words = ("cp", "--sparse=always", "--reflink=auto", str(source), str(target))
    programs.must("The disk could not be copied", *words, seconds=COPY_SECONDS)


def grow(path: Path, size_gb: int) -> None:
    """Raises BuildAborted for a disk that would have to shrink, DriverError."""
    with files("The disk could not be enlarged"):
        now = path.stat().st_size
        if now > size_gb * GB:
            raise BuildAborted(f"The disk has {now // GB} GB and cannot shrink to {size_gb} GB.")
        if now == size_gb * GB:
            return
        os.truncate(path, size_gb * GB)
    if programs.run("e2fsck", "-f", "-y", str(path), seconds=COPY_SECONDS).returncode > 1:
        raise DriverError("The disk could not be enlarged: its file system is damaged.")
    programs.must("The disk could not be enlarged", "resize2fs", str(path), seconds=COPY_SECONDS)
