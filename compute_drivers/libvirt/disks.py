"""Disks of guests in qcow2 format, made by qemu-img: overlays on images, and blank ones."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from compute_drivers.image_cache import SAFE_ID
from conductor.core.disk_images import FORMATS, QCOW2_EXTERNAL_DATA, Backing, run
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import FlavorSpec

ROOT, RESCUE, EPHEMERAL, SWAP = "root.qcow2", "rescue.qcow2", "ephemeral.qcow2", "swap.qcow2"
REBUILD_FOLDER, SNAPSHOT = "new", "snapshot.qcow2"
MB = 1 << 20
GB = 1 << 30
# Magic, version, offset and length of the backing file's name; version 3 continues with features.
QCOW2_HEADER = struct.Struct(">4sIQI")
QCOW2_FEATURES, QCOW2_FEATURES_AT = struct.Struct(">Q"), 72
# Extensions begin here in version 2; version 3 names the length of its header. Each has a type, a length and data.
QCOW2_V2_BYTES, QCOW2_LENGTH_AT, QCOW2_EXTENSION = 72, 100, struct.Struct(">II")
QCOW2_BACKING_FORMAT = 0xE2792ACA
LONGEST_HEADER = 1 << 16
QCOW2_MAGIC = b"QFI\xfb"
# Folders with the folders of guests. The folder of images is beside them.
GUEST_FOLDERS = ("instances", "kept")
# Left over from interrupted calls. Rescued guests stay rescued.
UNFINISHED = (REBUILD_FOLDER, SNAPSHOT)


def create_disks(directory: Path, flavor: FlavorSpec, backing: Backing | None) -> tuple[Path, ...]:
    """Create the guest's disks and return them in the guest's order: root (where there is an image), ephemeral, swap.

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
    for name, size in ((EPHEMERAL, flavor.ephemeral_gb * GB), (SWAP, flavor.swap_mb * MB)):
        if size:
            disks.append(directory / name)
            _create(disks[-1], size)
    return tuple(disks)


def own_disks(directory: Path) -> tuple[Path, ...]:
    """Return the existing disks in the guest's order; the rescue disk comes first."""
    names = (RESCUE, ROOT, EPHEMERAL, SWAP)
    return tuple(directory / name for name in names if (directory / name).exists())


def create_overlay(path: Path, backing: Backing) -> None:
    """Create a disk on top of an image, with the image's size."""
    path.unlink(missing_ok=True)
    _create(path, backing.virtual_bytes, "-F", backing.disk_format, "-b", str(backing.path))


def create_blank(path: Path, size: int) -> None:
    """Create an empty disk of `size` bytes."""
    _create(path, size)


def backing_images(*folders: Path) -> set[str]:
    """Return the names of the image files that back disks in the folders of guests."""
    paths = (path for folder in folders if folder.is_dir() for path in folder.glob("*/**/*.qcow2"))
    return {Path(name).name for name in map(_backing_name, paths) if name}


def lies_on_image(path: Path) -> bool:
    return bool(_backing_name(path))


def backing_of(path: Path) -> Backing | None:
    """Return the image that backs a disk; None for a disk without one.

    Raises DriverError where the disk names any other file. A guest can write its disk's header, and this process may
    be allowed to open files that the guest is not.
    """
    header, name = _read_header(path)
    if not name:
        return None
    image, disk_format = Path(name), _backing_format(header)
    if not _is_own_image(path, image) or disk_format not in FORMATS:
        raise DriverError("The guest's disk lies on a file that is no image of this host.")
    # The image was inspected in its declared format, which need not be the one that the disk names.
    if disk_format != "raw" and _read_header(image)[1]:
        raise DriverError("The guest's disk lies on an image that refers to another file.")
    return Backing(image, disk_format, 0)


def _read_header(path: Path) -> tuple[bytes, str]:
    """Return the first bytes of a qcow2 file and the name of its backing file. Raises DriverError."""
    try:
        with path.open("rb") as file:
            header = file.read(LONGEST_HEADER)
    except OSError as error:
        raise DriverError(f"The guest's disk cannot be read: {error.strerror}.") from error
    if len(header) < QCOW2_LENGTH_AT + 4 or not header.startswith(QCOW2_MAGIC):
        raise DriverError("The guest's disk is damaged.")
    _, version, begin, length = QCOW2_HEADER.unpack_from(header)
    if version >= 3 and QCOW2_FEATURES.unpack_from(header, QCOW2_FEATURES_AT)[0] & QCOW2_EXTERNAL_DATA:
        raise DriverError("The guest's disk refers to another file.")
    if begin and not 0 < begin < begin + length <= len(header):
        raise DriverError("The guest's disk is damaged.")
    return header, header[begin : begin + length].decode(errors="replace") if begin else ""


def _backing_format(header: bytes) -> str:
    version = QCOW2_HEADER.unpack_from(header)[1]
    at = QCOW2_V2_BYTES if version < 3 else int.from_bytes(header[QCOW2_LENGTH_AT : QCOW2_LENGTH_AT + 4], "big")
    while at + QCOW2_EXTENSION.size <= len(header):
        kind, length = QCOW2_EXTENSION.unpack_from(header, at)
        at += QCOW2_EXTENSION.size
        if kind == QCOW2_BACKING_FORMAT:
            return header[at : at + length].decode(errors="replace")
        if not kind:
            break
        at += -(-length // 8) * 8
    return ""


def _is_own_image(path: Path, image: Path) -> bool:
    """Return whether the image is in the folder of images beside the folder of guests that holds the disk."""
    guests = next((folder for folder in path.parents if folder.name in GUEST_FOLDERS), None)
    if guests is None or not SAFE_ID.fullmatch(image.name) or os.path.normpath(image) != str(image):
        return False
    images = guests.parent / "images"
    return images in (image.parent, image.parent.parent)


def remove_unfinished(folders: Iterable[Path]) -> None:
    """Remove what interrupted calls left in the folders of guests. Raises OSError."""
    for path in (folder / name for folder in folders for name in UNFINISHED):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def _backing_name(path: Path) -> str:
    """Return the name of a disk's backing file, unchecked; "" where there is none."""
    try:
        with path.open("rb") as file:
            header = file.read(QCOW2_HEADER.size)
            if len(header) < QCOW2_HEADER.size:
                return ""
            magic, _, begin, length = QCOW2_HEADER.unpack(header)
            if magic != QCOW2_MAGIC or not begin:
                return ""
            file.seek(begin)
            return file.read(length).decode(errors="replace")
    except OSError:  # removed meanwhile
        return ""


def require_unused(directory: Path) -> None:
    """Raises DriverError where a disk or its image cannot be opened, or another process has it open for writing."""
    for path in own_disks(directory):
        backing_of(path)
        if run("qemu-img", "info", "--backing-chain", "-f", "qcow2", str(path)).returncode:
            raise DriverError("The guest's disks cannot be opened: they are damaged, or it still runs elsewhere.")


def grow(path: Path, size: int) -> None:
    """Enlarge a disk to `size` bytes; 0 leaves it. Raises BuildAborted for a disk that is larger."""
    done = run("qemu-img", "info", "--output=json", "-f", "qcow2", str(path))
    if done.returncode:
        raise DriverError("The guest's disk cannot be read.")
    has = int(json.loads(done.stdout)["virtual-size"])
    if size and has > size:
        raise BuildAborted(f"The guest's disk of {-(-has // GB)} GB does not go into {size // GB} GB.")
    if size > has and run("qemu-img", "resize", "-q", "-f", "qcow2", str(path), str(size)).returncode:
        raise DriverError("The guest's disk could not be made larger.")


def copy_disk(source: Path, target: Path, report: Callable[[], None], image: Backing | None = None) -> None:
    """Copy a disk that has no writer; `image`, if any, backs the copy. What `report` raises ends it."""
    backing_of(source)
    backing = ("-F", image.disk_format, "-B", str(image.path)) if image else ()
    words = ("qemu-img", "convert", "-q", "-f", "qcow2", "-O", "qcow2", *backing, str(source), str(target))
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as copying:
        try:
            while copying.poll() is None:
                report()
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
