"""The data of backups: a folder for each, with the blocks that it added and a list of all blocks and who holds them.

A block is named by its digest: an incremental backup holds those that its parent has not, and a block whose digest is
wrong is not restored.
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
    """Where the data of a backup are."""
    return Path(settings.NOVELLA_DATA) / "backups" / str(data_uuid)


def take(data_uuid: UUID | str, source: Path, parent_uuid: UUID | str | None = None) -> int:
    """Keep what is in `source`; how many blocks were added. What was kept whole before is not kept again.

    Raises DriverError where the source is gone, or the parent's list.
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
    """Have a volume's data as the backup has them. The old ones are there until the copy is whole.

    Raises DriverError for data that are gone or damaged.
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
    """Whether there is a list of blocks, which is written last."""
    return (folder_of(data_uuid) / INDEX).exists()


def remove(data_uuid: UUID | str) -> None:
    """Drop the data, if there are any; the list first, so that half of them is nothing."""
    folder = folder_of(data_uuid)
    (folder / INDEX).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _index(data_uuid: UUID | str) -> dict[str, Any]:
    """Raises DriverError."""
    try:
        found: dict[str, Any] = json.loads((folder_of(data_uuid) / INDEX).read_text())
    except (OSError, ValueError):
        raise DriverError(f"The data of backup {data_uuid} are gone or cannot be read.") from None
    return found


def _write_index(folder: Path, index: dict[str, Any]) -> None:
    """The backup is whole from the moment that the list has its name."""
    part = folder / f"{INDEX}.part"
    with part.open("w") as file:
        json.dump(index, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / INDEX)


def _add_blocks(target: Path, source: Path, known: dict[str, Any], holder: str) -> dict[str, list[str]]:
    """Every block that is not empty, by its number: its digest and who holds it."""
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
    """Blocks with anything but zeros in them; holes of the file are passed over unread."""
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
    except OSError:  # there are no data behind it
        return None


def _copy_blocks(blocks: dict[str, list[str]], target: BinaryIO) -> None:
    """Raises DriverError for a block that is gone or not what it was."""
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
