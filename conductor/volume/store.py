"""The data of volumes: one sparse file for each under the data directory, which hosts open by its path."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import UUID

from django.conf import settings

from conductor.core import disk_images
from conductor.core.errors import DriverError, Invalid

GIB = 1 << 30
LONGEST_COPY_SECONDS = 3600.0


def path_of(volume_uuid: UUID | str) -> Path:
    """Where the data of a volume are."""
    return Path(settings.NOVELLA_DATA) / "volumes" / f"{volume_uuid}.raw"


def ensure(volume_uuid: UUID | str, size_gb: int) -> None:
    """Have a file of this size; what is in it stays, and it never shrinks."""
    path = path_of(volume_uuid)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < size_gb * GIB:
            os.ftruncate(descriptor, size_gb * GIB)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fill(volume_uuid: UUID | str, size_gb: int, source: Path, disk_format: str) -> None:
    """Have a file of this size that begins with what is in `source`; one that is there is left alone.

    Raises Invalid where that is larger, DriverError where it cannot be copied.
    """
    path = path_of(volume_uuid)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    done = _copy(source, part, disk_format)
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DriverError(f"The data could not be copied: {cause.replace(str(part.parent), '')[:120]}")
    with part.open("r+b") as file:
        os.fchmod(file.fileno(), 0o600)
        found = file.seek(0, os.SEEK_END)
        if found > size_gb * GIB:
            part.unlink()
            raise Invalid(f"The data need {-(-found // GIB)} GB; the volume has {size_gb} GB.")
        file.truncate(size_gb * GIB)
        os.fsync(file.fileno())
    part.replace(path)


def _copy(source: Path, target: Path, disk_format: str) -> subprocess.CompletedProcess[str]:
    if disk_format == "raw":
        words: tuple[str, ...] = ("cp", "--sparse=always", "--reflink=auto", str(source), str(target))
    else:
        words = ("qemu-img", "convert", "-q", "-f", disk_format, "-O", "raw", str(source), str(target))
    return disk_images.run(*words, seconds=LONGEST_COPY_SECONDS)


def remove(volume_uuid: UUID | str) -> None:
    """Drop the data, if there are any."""
    path_of(volume_uuid).with_suffix(".part").unlink(missing_ok=True)
    path_of(volume_uuid).unlink(missing_ok=True)
