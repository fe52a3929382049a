"""Disks of guests, by qemu-img: looks at what was uploaded with suspicion, and lays overlays on it."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import FlavorSpec, ImageSpec

FORMATS = ("raw", "qcow2")
ROOT, RESCUE = "root.qcow2", "rescue.qcow2"
MB = 1 << 20
GB = 1 << 30
# An image is a stranger's: looking at it must take neither all memory nor for ever.
LIMITS = ("prlimit", f"--as={GB}", "--cpu=30", "--")
LONGEST_SECONDS = 120.0
QCOW2_MAGIC = b"QFI\xfb"
# Magic, version, where the backing file's name begins, (its length, cluster bits, size,) method of encryption,
# (tables and snapshots,) incompatible features.
QCOW2_HEAD = struct.Struct(">4sIQ16xI36xQ")
QCOW2_EXTERNAL_DATA = 1 << 2


@dataclass(frozen=True, slots=True)
class Backing:
    """An image file that a disk may lie on."""

    path: Path
    disk_format: str
    virtual_bytes: int


def inspect(path: Path, image: ImageSpec) -> Backing:
    """What is in an image file. Raises BuildAborted for what no host should start a guest from."""
    if image.disk_format not in FORMATS:
        raise BuildAborted(
            f"Image {image.image_id} has the disk format {image.disk_format or 'none'}; "
            f"this host takes {' and '.join(FORMATS)}."
        )
    if image.disk_format == "qcow2":
        _refuse_references(path, image)
    # The format is what the image says: a guess could be steered by whoever wrote the first bytes.
    done = _run(*LIMITS, "qemu-img", "info", "--output=json", "-f", image.disk_format, str(path))
    if done.returncode:
        raise BuildAborted(f"The data of image {image.image_id} are not {image.disk_format}.")
    found: dict[str, Any] = json.loads(done.stdout)
    return Backing(path, image.disk_format, int(found["virtual-size"]))


def _refuse_references(path: Path, image: ImageSpec) -> None:
    """Raises BuildAborted for a qcow2 that is not all there: qemu-img itself would already open what it names."""
    with path.open("rb") as file:
        head = file.read(QCOW2_HEAD.size)
    if len(head) < QCOW2_HEAD.size or not head.startswith(QCOW2_MAGIC):
        raise BuildAborted(f"The data of image {image.image_id} are not qcow2.")
    _, version, backing_offset, crypt_method, features = QCOW2_HEAD.unpack(head)
    if backing_offset or (version >= 3 and features & QCOW2_EXTERNAL_DATA):
        raise BuildAborted(f"Image {image.image_id} refers to another file.")
    if crypt_method:
        raise BuildAborted(f"Image {image.image_id} is encrypted.")


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
    done = _run("qemu-img", "create", "-q", "-f", "qcow2", *words, str(path), str(size))
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DriverError(f"The guest's disk could not be made: {cause}")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise DriverError(f"The program {error.filename} is not installed.") from None
    except subprocess.TimeoutExpired:
        raise DriverError("qemu-img did not answer in time.") from None
