"""Data of backups: a folder for each, with the blocks that it added and an index of all blocks and their folders.

A block is named by its digest: an incremental backup stores those that its parent lacks, and a block with a wrong
digest is not restored.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from django.conf import settings

from conductor.core import disk_room
from conductor.core.errors import DriverError
from conductor.volume.store import GIB, path_of

BLOCK = 4 << 20
INDEX, DATA = "index.json", "data.raw"


def folder_of(data_uuid: UUID | str) -> Path:
    """Return the folder of a backup's data."""
    return Path(settings.NOVELLA_DATA) / "backups" / str(data_uuid)


def take(data_uuid: UUID | str, source: Path, parent_uuid: UUID | str | None = None) -> int:
    """Store the content of `source`. Return how many blocks were added. A backup that is complete is not stored again.

    Raises DriverError where the source, or the parent's index, is missing.
    """
    folder = folder_of(data_uuid)
    if not (folder / INDEX).exists():
        if not source.exists():
            raise DriverError("The data to keep are gone.")
        known = _index(parent_uuid)["blocks"] if parent_uuid else {}
        folder.mkdir(parents=True, exist_ok=True)
        with _room(source.stat().st_blocks * 512):
            blocks = _add_blocks(folder / DATA, source, known, str(data_uuid))
        _write_index(folder, {"block_bytes": BLOCK, "bytes": source.stat().st_size, "blocks": blocks})
    return sum(holder == str(data_uuid) for _, holder in _index(data_uuid)["blocks"].values())


def restore(data_uuid: UUID | str, volume_uuid: UUID | str, size_gb: int) -> None:
    """Restore a volume's data from the backup. The old data stay until the copy is complete.

    Raises DriverError for missing or damaged data.
    """
    target = path_of(volume_uuid)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    index = _index(data_uuid)
    try:
        with _room(len(index["blocks"]) * BLOCK), part.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            _copy_blocks(index["blocks"], file)
            file.truncate(max(size_gb * GIB, index["bytes"]))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(target)


def _room(size: int) -> AbstractContextManager[None]:
    return disk_room.reserved(Path(settings.NOVELLA_DATA), settings.NOVELLA_KEPT_FREE_GB, size)


def is_whole(data_uuid: UUID | str) -> bool:
    """Whether the index exists, which is written last."""
    return (folder_of(data_uuid) / INDEX).exists()


def remove(data_uuid: UUID | str) -> None:
    """Delete the data, if there are any; the index first, so that partial data count as none."""
    folder = folder_of(data_uuid)
    (folder / INDEX).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _index(data_uuid: UUID | str) -> dict[str, Any]:
    """Return the index. Raises DriverError."""
    try:
        found: dict[str, Any] = json.loads((folder_of(data_uuid) / INDEX).read_text())
    except (OSError, ValueError):
        raise DriverError(f"The data of backup {data_uuid} are gone or cannot be read.") from None
    return found


def _write_index(folder: Path, index: dict[str, Any]) -> None:
    """Write the index; its rename completes the backup."""
    part = folder / f"{INDEX}.part"
    with part.open("w") as file:
        json.dump(index, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / INDEX)


def _add_blocks(target: Path, source: Path, known: dict[str, Any], holder: str) -> dict[str, list[str]]:
    """Add every block that is not empty. Return its digest and folder by number."""
    blocks: dict[str, list[str]] = {}
    with target.open("wb") as kept:
        os.fchmod(kept.fileno(), 0o600)
        for number, data in _full_blocks(source):
            digest = hashlib.sha256(data).hexdigest()
            there = known.get(str(number))
            if there and there[0] == digest:
                blocks[str(number)] = there
                continue
            kept.seek(number * BLOCK)
            kept.write(data)
            blocks[str(number)] = [digest, holder]
        kept.flush()
        os.fsync(kept.fileno())
    return blocks


def _full_blocks(source: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks that are not all zeros; holes of the file are skipped unread."""
    empty = bytes(BLOCK)
    with source.open("rb") as file:
        number = _next_data(file, 0)
        while number is not None:
            file.seek(number * BLOCK)
            data = file.read(BLOCK)
            if data != empty[: len(data)]:
                yield number, data
            number = _next_data(file, number + 1)


def _next_data(file: BinaryIO, number: int) -> int | None:
    try:
        return os.lseek(file.fileno(), number * BLOCK, os.SEEK_DATA) // BLOCK
    except OSError:  # no data follow
        return None


def _copy_blocks(blocks: dict[str, list[str]], target: BinaryIO) -> None:
    """Copy blocks to the target. Raises DriverError for a missing or damaged block."""
    files: dict[str, BinaryIO] = {}
    try:
        for number, (digest, holder) in blocks.items():
            if holder not in files:
                files[holder] = _opened(holder)
            offset = int(number) * BLOCK
            files[holder].seek(offset)
            data = files[holder].read(BLOCK)
            if hashlib.sha256(data).hexdigest() != digest:
                raise DriverError(f"Block {number} of backup {holder} is damaged.")
            target.seek(offset)
            target.write(data)
    finally:
        for file in files.values():
            file.close()


def _opened(holder: str) -> BinaryIO:
    try:
        return (folder_of(holder) / DATA).open("rb")
    except OSError:
        raise DriverError(f"The data of backup {holder} are gone.") from None
