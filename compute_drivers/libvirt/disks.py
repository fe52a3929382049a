"""Disks of guests, by qemu-img: overlays on images, and blank ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conductor.core.disk_images import Backing, run
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import FlavorSpec

ROOT, RESCUE = "root.qcow2", "rescue.qcow2"
MB = 1 << 20
GB = 1 << 30


def create_disks(directory: Path, flavor: FlavorSpec, backing: Backing | None) -> tuple[Path, ...]:
    """The guest's disks in the order in which it sees them: root (where there is an image), ephemeral, swap.

    Raises BuildAborted when the image does not fit into the flavor.
    """
    disks: list[Path] = []
    if backing is not None:
        size = flavor.root_gb * GB or backing.virtual_bytes
        if backing.virtual_bytes > size:
            needed = -(-backing.virtual_bytes // GB)
            raise BuildAborted(f"The image needs a disk of {needed} GB; the flavor has {flavor.root_gb} GB.")
        disks.append(directory / ROOT)
        _create(disks[-1], size, "-F", backing.disk_format, "-b", str(backing.path))
    for name, size in (("ephemeral", flavor.ephemeral_gb * GB), ("swap", flavor.swap_mb * MB)):
        if size:
            disks.append(directory / f"{name}.qcow2")
            _create(disks[-1], size)
    return tuple(disks)


def own_disks(directory: Path) -> tuple[Path, ...]:
    """The disks that are there, in the order in which the guest sees them; the rescue system's comes first."""
    names = (RESCUE, ROOT, "ephemeral.qcow2", "swap.qcow2")
    return tuple(directory / name for name in names if (directory / name).exists())


def create_overlay(path: Path, backing: Backing) -> None:
    """A disk on an image, as large as that."""
    path.unlink(missing_ok=True)
    _create(path, backing.virtual_bytes, "-F", backing.disk_format, "-b", str(backing.path))


def create_blank(path: Path, size: int) -> None:
    """An empty disk of `size` bytes."""
    _create(path, size)


def copy_whole(source: Path, target: Path, tell: Callable[[], None]) -> None:
    """A copy that lies on nothing else, of a disk that nobody writes to. What `tell` raises ends it."""
    words = ("qemu-img", "convert", "-q", "-O", "qcow2", str(source), str(target))
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as copying:
        try:
            while copying.poll() is None:
                tell()
                with suppress(subprocess.TimeoutExpired):
                    copying.wait(0.2)
        finally:
            copying.kill()
        if copying.returncode:
            raise DriverError("The guest's disk could not be copied.")


def _create(path: Path, size: int, *words: str) -> None:
    done = run("qemu-img", "create", "-q", "-f", "qcow2", *words, str(path), str(size))
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DriverError(f"The guest's disk could not be made: {cause}")
