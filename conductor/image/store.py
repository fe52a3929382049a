"""The data of images: one file for each under the data directory, written whole or not at all."""

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

# While `<uuid>.upload` is locked, somebody who lives writes `<uuid>.part`: the kernel frees the lock of a dead process.
_PART = ".part"
_UPLOAD = ".upload"
# What a host stored is described beside the data: hosts have no database, and a conductor takes it from there.
_NOTE = ".json"
CHUNK_BYTES = 1 << 20
ROOM_STEP = 16 << 20  # so much is written before the disk is looked at again


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written: bytes, and the hex digests of them."""

    size: int
    md5: str
    sha512: str


def open_image(image_uuid: str) -> BinaryIO:
    """The data of an image, for reading. Raises NotFound when there are none."""
    wanted = uuid_or_none(image_uuid)
    try:
        if wanted is not None:
            return _path(wanted).open("rb")
    except FileNotFoundError:
        pass
    raise NotFound(f"No data found for image {image_uuid}")


def path_of(image_uuid: str) -> Path:
    """The file of an image's data. Raises NotFound when there are none."""
    with open_image(image_uuid) as file:
        return Path(file.name)


def stated_bytes(image_uuid: UUID, disk_format: str | None) -> int | None:
    """The size of the disk in an image's data, where that is another than theirs."""
    return disk_images.stated_bytes(_path(image_uuid), disk_format or "")


@contextmanager
def upload_claim(image_uuid: UUID) -> Iterator[None]:
    """Be the only one who writes this image's data. Raises Conflict when somebody is at it already.

    On the way out nothing but finished data stays on disk.
    """
    lock = _take_lock(image_uuid)
    try:
        yield
    finally:
        _path(image_uuid, _PART).unlink(missing_ok=True)
        _path(image_uuid, _UPLOAD).unlink(missing_ok=True)
        os.close(lock)


def write(image_uuid: UUID, chunks: Iterable[bytes]) -> Stored:
    """Write the data and make them durable; call it under `upload_claim`. What `chunks` raises comes through.

    Raises NoRoom when less would stay free on the disk than is kept free.
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
            if chunk.strip(b"\0"):
                file.write(chunk)
            else:  # a hole where there is nothing: disks are mostly empty
                file.seek(len(chunk), os.SEEK_CUR)
            md5.update(chunk)
            sha512.update(chunk)
            size += len(chunk)
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    part.replace(_path(image_uuid))
    _sync_directory()
    return Stored(size=size, md5=md5.hexdigest(), sha512=sha512.hexdigest())


def remove(image_uuid: UUID) -> None:
    """Drop the data of an image, if there are any. Whoever reads them now reads on to the end."""
    _path(image_uuid, _NOTE).unlink(missing_ok=True)
    _path(image_uuid).unlink(missing_ok=True)


def store_image(image_id: str, disk_format: str, data: BinaryIO) -> None:
    """Take the data of an image from a host; no database is asked. What was stored before is replaced.

    Raises NotFound for what is no image id, Conflict while somebody else writes the same image.
    """
    wanted = uuid_or_none(image_id)
    if wanted is None:
        raise NotFound(f"No image found with ID {image_id}")
    with upload_claim(wanted):
        _write_noted(wanted, disk_format, iter(lambda: data.read(CHUNK_BYTES), b""))


def stage(image_uuid: UUID, disk_format: str, chunks: Iterable[bytes]) -> None:
    """Keep data of an image that become its own later; call it under `upload_claim`. `told_by_host` finds them."""
    _write_noted(image_uuid, disk_format, chunks)


def _write_noted(image_uuid: UUID, disk_format: str, chunks: Iterable[bytes]) -> None:
    """The note comes last: where it is, the data are whole."""
    stored = write(image_uuid, chunks)
    note = _path(image_uuid, _PART)
    note.write_text(json.dumps({"disk_format": disk_format, **asdict(stored)}))
    note.replace(_path(image_uuid, _NOTE))
    _sync_directory()


def told_by_host(image_uuid: UUID) -> tuple[str, Stored] | None:
    """Disk format and figures of what a host has stored whole; None when there is nothing."""
    try:
        note = json.loads(_path(image_uuid, _NOTE).read_text())
    except FileNotFoundError:
        return None
    return note.pop("disk_format"), Stored(**note)


def _directory() -> Path:
    return Path(settings.NOVELLA_IMAGE_DIR)


def _path(image_uuid: UUID, suffix: str = "") -> Path:
    return _directory() / f"{image_uuid}{suffix}"


def _take_lock(image_uuid: UUID) -> int:
    """A descriptor that holds the lock on the upload file which stands under its name now."""
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
        os.close(descriptor)  # its last holder removed it between our opening and our locking


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
