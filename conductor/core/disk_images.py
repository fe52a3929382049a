"""Inspects and copies disk images safely. Images are untrusted, and image tools open the files that images name."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import ImageSpec

FORMATS = ("raw", "qcow2")
GB = 1 << 30
# Inspecting an image must not take all memory or run for ever.
LIMITS = ("prlimit", f"--as={GB}", "--cpu=30", "--")
# The same for a copy: compressed data take time, and no format needs much memory.
COPY_LIMITS = ("prlimit", f"--as={2 * GB}", "--cpu=3600")
LONGEST_SECONDS = 120.0
LONGEST_COPY_SECONDS = 3600.0
WATCH_SECONDS = 0.5
QCOW2_MAGIC = b"QFI\xfb"
# Magic, version, offset of the backing file's name, (its length, cluster bits,) virtual size, method of encryption,
# (tables and snapshots,) incompatible features.
QCOW2_HEAD = struct.Struct(">4sIQ8xQI36xQ")
QCOW2_EXTERNAL_DATA = 1 << 2


@dataclass(frozen=True, slots=True)
class Backing:
    """An image file that can be the backing file of a disk."""

    path: Path
    disk_format: str
    virtual_bytes: int


def inspect(path: Path, image: ImageSpec) -> Backing:
    """Return the format and size of an image file. Raises BuildAborted for one that no guest should start from."""
    if image.disk_format not in FORMATS:
        raise BuildAborted(
            f"Image {image.image_id} has the disk format {image.disk_format or 'none'}; "
            f"only {' and '.join(FORMATS)} can be booted from."
        )
    if image.disk_format == "qcow2":
        _refuse_references(path, image)
    # Use the format that the image record states: the author of the first bytes could steer a guess.
    done = run(*LIMITS, "qemu-img", "info", "--output=json", "-f", image.disk_format, str(path))
    if done.returncode:
        raise BuildAborted(f"The data of image {image.image_id} are not {image.disk_format}.")
    found: dict[str, Any] = json.loads(done.stdout)
    return Backing(path, image.disk_format, int(found["virtual-size"]))


def stated_bytes(path: Path, disk_format: str) -> int | None:
    """Return the size of the disk in a file as its first bytes state it; None when they state none."""
    if disk_format != "qcow2":
        return None
    with path.open("rb") as file:
        head = file.read(QCOW2_HEAD.size)
    if len(head) < QCOW2_HEAD.size or not head.startswith(QCOW2_MAGIC):
        return None
    return int(QCOW2_HEAD.unpack(head)[3])


def run(
    *words: str, seconds: float = LONGEST_SECONDS, watch: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that must end within `seconds`.

    Args:
        watch: Called now and then while the program runs. The program is killed when it raises.

    Raises:
        DriverError: the program is not installed, or does not end in time.
    """
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError as error:
        raise DriverError(f"The program {error.filename} is not installed.") from None
    ends = time.monotonic() + seconds
    with process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=min(WATCH_SECONDS, max(0.0, ends - time.monotonic())))
                    return subprocess.CompletedProcess(words, process.returncode, output, errors)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= ends:
                        raise DriverError("qemu-img did not answer in time.") from None
                    if watch is not None:
                        watch()
        except BaseException:
            process.kill()
            raise


def copy_over(source: Path, target: Path) -> None:
    """Copy raw data of `source` over the beginning of `target`, which keeps its size. Raises DriverError."""
    size = target.stat().st_size
    done = run("cp", "--sparse=always", "--reflink=auto", str(source), str(target), seconds=LONGEST_COPY_SECONDS)
    if done.returncode:
        raise DriverError("The volume's data could not be copied.")
    if target.stat().st_size < size:
        os.truncate(target, size)


def _refuse_references(path: Path, image: ImageSpec) -> None:
    """Raise BuildAborted for a qcow2 that refers to other files: qemu-img itself would already open them."""
    with path.open("rb") as file:
        head = file.read(QCOW2_HEAD.size)
    if len(head) < QCOW2_HEAD.size or not head.startswith(QCOW2_MAGIC):
        raise BuildAborted(f"The data of image {image.image_id} are not qcow2.")
    _, version, backing_offset, _, crypt_method, features = QCOW2_HEAD.unpack(head)
    if backing_offset or (version >= 3 and features & QCOW2_EXTERNAL_DATA):
        raise BuildAborted(f"Image {image.image_id} refers to another file.")
    if crypt_method:
        raise BuildAborted(f"Image {image.image_id} is encrypted.")
