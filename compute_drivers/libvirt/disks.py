"""Disks of guests, by qemu-img: overlays on images, and blank ones."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from conductor.core.disk_images import Backing, run
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import FlavorSpec

ROOT, RESCUE = "root.qcow2", "rescue.qcow2"
MB = 1 << 20
GB = 1 << 30
# Magic, version, where the name of the file below begins, and its length.
QCOW2_HEAD = struct.Struct(">4sIQI")
QCOW2_MAGIC = b"QFI\xfb"
# Of calls that were cut off: disks of a rebuild, copies of snapshots. What is rescued stays rescued.
UNFINISHED = ("new", "snapshot.qcow2")


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


def images_below(*folders: Path) -> set[str]:
    """The names of the files that disks in the guests' folders lie on."""
    paths = (path for folder in folders if folder.is_dir() for path in folder.glob("*/**/*.qcow2"))
    return {Path(name).name for name in map(_below, paths) if name}


def lies_on_image(path: Path) -> bool:
    return bool(_below(path))


def drop_unfinished(folders: Iterable[Path]) -> None:
    """Remove what killed processes left in the folders of guests. Raises OSError."""
    for path in (folder / name for folder in folders for name in UNFINISHED):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def _below(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(QCOW2_HEAD.size)
            if len(head) < QCOW2_HEAD.size:
                return ""
            magic, _, begin, length = QCOW2_HEAD.unpack(head)
            if magic != QCOW2_MAGIC or not begin:
                return ""
            file.seek(begin)
            return file.read(length).decode(errors="replace")
    except OSError:  # it went meanwhile
        return ""


def require_free(directory: Path) -> None:
    """Raises DriverError where a disk, or what it lies on, cannot be opened, or somebody has it open to write."""
    for path in own_disks(directory):
        if run("qemu-img", "info", "--backing-chain", "-f", "qcow2", str(path)).returncode:
            raise DriverError("The guest's disks cannot be opened: they are damaged, or it still runs elsewhere.")


def grow(path: Path, size: int) -> None:
    """Make a disk as large as `size`, where that is not 0. Raises BuildAborted for one that is larger."""
    done = run("qemu-img", "info", "--output=json", "-f", "qcow2", str(path))
    if done.returncode:
        raise DriverError("The guest's disk cannot be read.")
    has = int(json.loads(done.stdout)["virtual-size"])
    if size and has > size:
        raise BuildAborted(f"The guest's disk of {-(-has // GB)} GB does not go into {size // GB} GB.")
    if size > has and run("qemu-img", "resize", "-q", "-f", "qcow2", str(path), str(size)).returncode:
        raise DriverError("The guest's disk could not be made larger.")


def copy_whole(source: Path, target: Path, tell: Callable[[], None], below: Backing | None = None) -> None:
    """A copy, of a disk that nobody writes to, that lies on `below` or on nothing. What `tell` raises ends it."""
    lies_on = ("-F", below.disk_format, "-B", str(below.path)) if below else ()
    words = ("qemu-img", "convert", "-q", "-f", "qcow2", "-O", "qcow2", *lies_on, str(source), str(target))
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
