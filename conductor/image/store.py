"""Data of images: one file for each under the data directory, written atomically."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from conductor.core import disk_images, disk_room
from conductor.core.errors import Conflict, NotFound
from conductor.core.identifiers import uuid_or_none

# While `<uuid>.upload` is locked, a live process writes `<uuid>.part`: the kernel frees the lock of a dead process.
_PART = ".part"
_UPLOAD = ".upload"
# Metadata of data that a host stored: hosts have no database, so a conductor reads them from this file.
_NOTE = ".json"
CHUNK_BYTES = 1 << 20
ROOM_STEP = 16 << 20  # bytes between two checks of the disk's free space


@dataclass(frozen=True, slots=True)
class StoredData:
    """Result of a write: the bytes, and their hex digests."""

    size: int
    md5: str
    sha512: str


def open_image(image_uuid: str) -> BinaryIO:
    """Return the data of an image, for reading. Raises NotFound when there are none."""
    wanted = uuid_or_none(image_uuid)
    try:
        if wanted is not None:
            return _path(wanted).open("rb")
    except FileNotFoundError:
        pass
    raise NotFound(f"No data found for image {image_uuid}")


def path_of(image_uuid: str) -> Path:
    """Return the file of an image's data. Raises NotFound when there are none."""
    with open_image(image_uuid) as file:
        return Path(file.name)


def stated_bytes(image_uuid: UUID, disk_format: str | None) -> int | None:
    """Return the size of the disk in an image's data, where it differs from theirs."""
    return disk_images.stated_bytes(_path(image_uuid), disk_format or "")


@contextmanager
def upload_claim(image_uuid: UUID) -> Iterator[None]:
    """Claim the exclusive right to write this image's data. Raises Conflict while another writer has it.

    At the end only finished data stay on disk.
    """
    lock = _take_lock(image_uuid)
    try:
        yield
    finally:
        _path(image_uuid, _PART).unlink(missing_ok=True)
        _path(image_uuid, _UPLOAD).unlink(missing_ok=True)
        os.close(lock)


def write(image_uuid: UUID, chunks: Iterable[bytes]) -> StoredData:
    """Write the data and make them durable; call it under `upload_claim`. Exceptions of `chunks` pass through.

    Raises StorageFull when less than the reserve would stay free on the disk.
    """
    unchecked = 0
    md5, sha512, size = hashlib.md5(usedforsecurity=False), hashlib.sha512(), 0
    part = _path(image_uuid, _PART)
    with part.open("wb") as file:
        for chunk in chunks:
            if unchecked <= 0:
                disk_room.require(part.parent, settings.NOVELLA_KEPT_FREE_GB, ROOM_STEP)
                unchecked = ROOM_STEP
            unchecked -= len(chunk)
            if chunk == bytes(len(chunk)):  # a hole in place of zeros: disks are mostly empty
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
            md5.update(chunk)
            sha512.update(chunk)
            size += len(chunk)
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    part.replace(_path(image_uuid))
    _sync_directory()
    return StoredData(size=size, md5=md5.hexdigest(), sha512=sha512.hexdigest())


def remove(image_uuid: UUID) -> None:
    """Delete the data of an image, if there are any. Current readers can read to the end."""
    _path(image_uuid, _NOTE).unlink(missing_ok=True)
    _path(image_uuid).unlink(missing_ok=True)


def store_image(image_id: str, disk_format: str, data: BinaryIO) -> None:
    """Store the data of an image from a host, without a database. Earlier data are replaced.

    Raises NotFound for an invalid image id, Conflict while another writer has the image.
    """
    wanted = uuid_or_none(image_id)
    if wanted is None:
        raise NotFound(f"No image found with ID {image_id}")
    with upload_claim(wanted):
        _write_noted(wanted, disk_format, iter(lambda: data.read(CHUNK_BYTES), b""))


def stage(image_uuid: UUID, disk_format: str, chunks: Iterable[bytes]) -> None:
    """Store data that the image adopts later; call it under `upload_claim`. `reported_by_host` finds them."""
    _write_noted(image_uuid, disk_format, chunks)


def _write_noted(image_uuid: UUID, disk_format: str, chunks: Iterable[bytes]) -> None:
    """Write data, then their metadata: where these exist, the data are complete."""
    stored = write(image_uuid, chunks)
    note = _path(image_uuid, _PART)
    note.write_text(json.dumps({"disk_format": disk_format, **asdict(stored)}))
    note.replace(_path(image_uuid, _NOTE))
    _sync_directory()


def reported_by_host(image_uuid: UUID) -> tuple[str, StoredData] | None:
    """Return disk format and figures of data that a host has stored completely; None when there are none."""
    try:
        note = json.loads(_path(image_uuid, _NOTE).read_text())
    except FileNotFoundError:
        return None
    return note.pop("disk_format"), StoredData(**note)


def _directory() -> Path:
    return Path(settings.NOVELLA_IMAGE_DIR)


def _path(image_uuid: UUID, suffix: str = "") -> Path:
    return _directory() / f"{image_uuid}{suffix}"


def _take_lock(image_uuid: UUID) -> int:
    """Return a descriptor that holds the lock on the current upload file."""
    _directory().mkdir(parents=True, exist_ok=True)
    path = _path(image_uuid, _UPLOAD)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise Conflict(f"Data of image {image_uuid} are being uploaded by another request") from None
        os.close(descriptor)  # its last holder removed it after it was opened


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sync_directory() -> None:
    directory = os.open(_directory(), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
