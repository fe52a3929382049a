"""Data of volumes: one sparse file for each under the data directory, which hosts open by its path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from conductor.core import disk_images, disk_room
from conductor.core.errors import DriverError, Invalid
from conductor.plugins import converters

GIB = 1 << 30
LONGEST_COPY_SECONDS = 3600.0
Done = subprocess.CompletedProcess[str]


def path_of(volume_uuid: UUID | str) -> Path:
    """Return the file of a volume's data."""
    return Path(settings.NOVELLA_DATA) / "volumes" / f"{volume_uuid}.raw"


def snapshot_path_of(snapshot_uuid: UUID | str) -> Path:
    """Return the file of a snapshot's data."""
    return Path(settings.NOVELLA_DATA) / "snapshots" / f"{snapshot_uuid}.raw"


def ensure(volume_uuid: UUID | str, size_gb: int) -> None:
    """Create or extend the file to this size; its content stays, and it never shrinks."""
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
    """Create a file of this size that begins with the content of `source`; an existing one is left alone.

    Raises Invalid where the source is larger, DriverError where it cannot be copied.
    """
    path = path_of(volume_uuid)
    if not path.exists():
        _write(path, size_gb, source, disk_format)


def take_snapshot(snapshot_uuid: UUID | str, volume_uuid: UUID | str, size_gb: int) -> None:
    """Copy a volume's data to a snapshot; an existing one is left alone. Raises DriverError."""
    path = snapshot_path_of(snapshot_uuid)
    if not path.exists():
        _write(path, size_gb, path_of(volume_uuid), "raw")


def go_back(volume_uuid: UUID | str, size_gb: int, snapshot_uuid: UUID | str) -> None:
    """Restore the volume's data from the snapshot; no guest may have it open. Raises DriverError."""
    _write(path_of(volume_uuid), size_gb, snapshot_path_of(snapshot_uuid), "raw")


@contextmanager
def exported(volume_uuid: UUID | str, disk_format: str) -> Iterator[BinaryIO]:
    """Yield a volume's data in another format, for reading. Raises DriverError."""
    source = path_of(volume_uuid)
    if disk_format == "raw":
        with source.open("rb") as file:
            yield file
        return
    target = source.with_suffix(f".{disk_format}")
    with _room_for(source):
        yield from _exported(source, target, disk_format)


def _exported(source: Path, target: Path, disk_format: str) -> Iterator[BinaryIO]:
    try:
        if not converters.converted(source, "raw", target, disk_format):
            _require(_convert(source, "raw", target, disk_format), source, target)
        with target.open("rb") as file:
            yield file
    finally:
        target.unlink(missing_ok=True)


def _write(path: Path, size_gb: int, source: Path, disk_format: str) -> None:
    """Copy to a temporary name, and rename when all is durable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        with _room_for(source):
            if not converters.converted(source, disk_format, part, "raw"):
                _require(_copy(source, part, disk_format, size_gb), source, part)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with part.open("r+b") as file:
        os.fchmod(file.fileno(), 0o600)
        found = file.seek(0, os.SEEK_END)
        if found > size_gb * GIB:
            part.unlink()
            raise Invalid(f"The data need {-(-found // GIB)} GB; the volume has {size_gb} GB.")
        file.truncate(size_gb * GIB)
        os.fsync(file.fileno())
    part.replace(path)


def _require(done: Done, source: Path, target: Path) -> None:
    """Raise DriverError with the cause, but without the paths of this machine."""
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        words = cause.replace(str(target.parent), "").replace(str(source.parent), "")
        raise DriverError(f"The data could not be copied: {words[:120]}")


def _copy(source: Path, target: Path, disk_format: str, size_gb: int) -> Done:
    if disk_format != "raw":
        return _convert(source, disk_format, target, "raw", f"--fsize={size_gb * GIB}")
    words = ("cp", "--sparse=always", "--reflink=auto", str(source), str(target))
    return disk_images.run(*words, seconds=LONGEST_COPY_SECONDS)


def _convert(source: Path, disk_format: str, target: Path, wanted: str, *limits: str) -> Done:
    program = ("qemu-img", "convert", "-q", "-U", "-f", disk_format, "-O", wanted, str(source), str(target))
    words = (*disk_images.COPY_LIMITS, *limits, "--", *program)
    return disk_images.run(*words, seconds=LONGEST_COPY_SECONDS, watch=require_room)


def require_room() -> None:
    """Raise StorageFull when the disk of the volumes is full."""
    disk_room.require(Path(settings.NOVELLA_DATA), settings.NOVELLA_KEPT_FREE_GB)


def _room_for(source: Path) -> AbstractContextManager[None]:
    """Reserve the size of `source` against other writers. Raises StorageFull.

    Compressed data grow in a copy: `require_room` is checked again while a format is converted.
    """
    size = source.stat().st_blocks * 512 if source.exists() else 0
    return disk_room.reserved(Path(settings.NOVELLA_DATA), settings.NOVELLA_KEPT_FREE_GB, size)


def remove(volume_uuid: UUID | str) -> None:
    """Delete the data, if there are any."""
    _drop(path_of(volume_uuid))


def remove_snapshot(snapshot_uuid: UUID | str) -> None:
    """Delete the data of a snapshot, if there are any."""
    _drop(snapshot_path_of(snapshot_uuid))


def _drop(path: Path) -> None:
    path.with_suffix(".part").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def room_gb() -> tuple[float, float]:
    """Return the GiB of the storage, and those that are free."""
    folder = Path(settings.NOVELLA_DATA)
    found = os.statvfs(folder)
    return round(found.f_blocks * found.f_frsize / GIB, 2), round(found.f_bavail * found.f_frsize / GIB, 2)
