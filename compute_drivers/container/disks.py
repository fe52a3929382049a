"""Disks of containers: files with an ext4 file system of the flavor's size, loop-mounted while in use."""

from __future__ import annotations

import os
import time
from pathlib import Path

from compute_drivers import programs
from compute_drivers.host_paths import os_errors_as
from conductor.core.errors import BuildAborted, DriverError

GB = 1 << 30
COPY_SECONDS = 3600.0
RELEASE_SECONDS = 2.0
# nodev: device files in an image must not work on this machine.
MOUNT_OPTIONS = "loop,nodev,noatime"


def create(path: Path, size_gb: int, first_id: int) -> None:
    """Create an empty disk that root of the containers owns. Raises DriverError."""
    with os_errors_as("The disk could not be made"), path.open("xb") as file:
        file.truncate(size_gb * GB)
    owner = f"root_owner={first_id}:{first_id}"
    programs.check_output(
        "The disk could not be made", "mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-E", owner, str(path)
    )


def mount(disk: Path, mount_point: Path) -> None:
    """Mount a disk, unless something is mounted there already. Raises DriverError."""
    if is_mounted(mount_point):
        return
    with os_errors_as("The disk could not be mounted"):
        mount_point.mkdir(exist_ok=True)
    programs.check_output(
        "The disk could not be mounted", "mount", "-t", "ext4", "-o", MOUNT_OPTIONS, str(disk), str(mount_point)
    )


def unmount(mount_point: Path) -> None:
    """Unmount a disk and remove the mount point. Raises DriverError."""
    if is_mounted(mount_point):
        backing = _backing_file(mount_point)
        programs.check_output("The disk could not be unmounted", "sync", "--file-system", str(mount_point))
        programs.check_output("The disk could not be unmounted", "umount", str(mount_point))
        _wait_until_released(backing)
    with os_errors_as("The disk could not be unmounted"):
        if mount_point.exists():
            mount_point.rmdir()


def _backing_file(mount_point: Path) -> Path:
    device = os.stat(mount_point).st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file")


def _wait_until_released(backing: Path) -> None:
    """Wait until the kernel has released the loop device, which happens shortly after the unmount.

    A device that is held longer has nothing left to write.
    """
    deadline = time.monotonic() + RELEASE_SECONDS
    while backing.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def is_mounted(mount_point: Path) -> bool:
    return os.path.ismount(mount_point)


def copy(source: Path, target: Path) -> None:
    """Copy a disk, keeping it sparse. Raises DriverError."""
    words = ("cp", "--sparse=always", "--reflink=auto", str(source), str(target))
    programs.check_output("The disk could not be copied", *words, seconds=COPY_SECONDS)


def grow(path: Path, size_gb: int) -> None:
    """Enlarge a disk and its file system. Raises BuildAborted for a disk that would have to shrink, DriverError."""
    with os_errors_as("The disk could not be enlarged"):
        now = path.stat().st_size
        if now > size_gb * GB:
            raise BuildAborted(f"The disk has {now // GB} GB and cannot shrink to {size_gb} GB.")
        if now == size_gb * GB:
            return
        os.truncate(path, size_gb * GB)
    if programs.run("e2fsck", "-f", "-y", str(path), seconds=COPY_SECONDS).returncode > 1:
        raise DriverError("The disk could not be enlarged: its file system is damaged.")
    programs.check_output("The disk could not be enlarged", "resize2fs", str(path), seconds=COPY_SECONDS)
