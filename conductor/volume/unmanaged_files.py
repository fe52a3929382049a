"""Unmanaged files of the storage: left by a crash, copied from elsewhere, or released from management.

A file is named by its name without the ending. It is managed while a row has its uuid: that of a volume, a snapshot or
of an image that keeps its data. A row is created before its file, and deleted after it, so a file without a row is
unmanaged.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.volume import store
from conductor.volume.models import ImageSnapshot, Snapshot, Volume

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
VOLUME, SNAPSHOT = "volume", "snapshot"
_ROWS: dict[str, type[Volume] | type[Snapshot]] = {VOLUME: Volume, SNAPSHOT: Snapshot}
_PATHS = {VOLUME: store.path_of, SNAPSHOT: store.snapshot_path_of}
_PREFIXES = {VOLUME: "volume-", SNAPSHOT: "_snapshot-"}


@dataclass(frozen=True, slots=True)
class StorageFile:
    """A file of the storage; `owner` is the uuid of its row, if it has one."""

    name: str
    size_gb: int
    owner: UUID | None = None
    volume: UUID | None = None  # of a managed snapshot


def found(kind: str) -> list[StorageFile]:
    """Return all files of the kind, by name."""
    folder = _folder(kind)
    names = sorted(path.stem for path in folder.glob("*.raw")) if folder.is_dir() else []
    ours = _owned(kind, names)
    shown = []
    for name in names:
        size_gb = _size_gb(_PATHS[kind](name))
        if size_gb is not None:
            owner = uuid_or_none(name)
            is_ours = owner in ours
            shown.append(StorageFile(name, size_gb, owner if is_ours else None, ours.get(owner) if is_ours else None))
    return shown


def require(kind: str, name: str) -> StorageFile:
    """Return an unmanaged file. Raises Invalid for an invalid name, NotFound, Conflict for a managed one."""
    if not NAME.fullmatch(name):
        raise Invalid(
            f"Invalid reference source-name {name[:60]!r}: it is the name of a file without its ending.", field="ref"
        )
    size_gb = _size_gb(_PATHS[kind](name))
    if size_gb is None:
        raise NotFound(f"The storage has no file {name[:60]} to be managed as a {kind}.")
    if _owned(kind, [name]):
        raise Conflict(f"File {name[:60]} is a {kind} of this cloud already.")
    return StorageFile(name, size_gb)


def adopt(kind: str, name: str, uuid: UUID, size_gb: int) -> None:
    """Rename the file to `uuid`, and round it up to GiB. Raises NotFound where another request was faster."""
    target = _PATHS[kind](uuid)
    try:
        _PATHS[kind](name).rename(target)
    except FileNotFoundError:
        raise NotFound(f"The storage has no file {name[:60]} any more.") from None
    with target.open("r+b") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(size_gb * store.GIB)
        os.fsync(file.fileno())


def give_back(kind: str, uuid: UUID, name: str) -> None:
    """Rename a file that `adopt` renamed to its former name."""
    path = _PATHS[kind](uuid)
    if path.exists():
        path.rename(_PATHS[kind](name))


def let_go(kind: str, uuid: UUID) -> None:
    """Rename the file, so that it can be managed again. Repeatable."""
    give_back(kind, uuid, f"{_PREFIXES[kind]}{uuid}")


def _folder(kind: str) -> Path:
    return _PATHS[kind]("x").parent


def _owned(kind: str, names: list[str]) -> dict[UUID | None, UUID | None]:
    """Return the names among these that are uuids of rows, and the volume of each snapshot."""
    uuids = [uuid for uuid in map(uuid_or_none, names) if uuid]
    if not uuids:
        return {}
    volume = "volume__uuid" if kind == SNAPSHOT else "uuid"
    owned: dict[UUID | None, UUID | None] = dict(_ROWS[kind].objects.filter(uuid__in=uuids).values_list("uuid", volume))
    if kind == SNAPSHOT:
        for uuid in ImageSnapshot.objects.filter(snapshot_uuid__in=uuids).values_list("snapshot_uuid", flat=True):
            owned.setdefault(uuid, None)
    return owned


def _size_gb(path: Path) -> int | None:
    try:
        return max(1, -(-path.stat().st_size // store.GIB)) if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None
