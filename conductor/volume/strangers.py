"""Files of the storage that are no volume or snapshot of ours: left over, brought there, or given out of our hands.

A file is named by its name without the ending. It is ours while a row has its uuid; a row comes before its file, and
goes after it, so a file without a row is nobody's.
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
from conductor.volume.models import Snapshot, Volume

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
VOLUME, SNAPSHOT = "volume", "snapshot"
_ROWS: dict[str, type[Volume] | type[Snapshot]] = {VOLUME: Volume, SNAPSHOT: Snapshot}
_PATHS = {VOLUME: store.path_of, SNAPSHOT: store.snapshot_path_of}
_PREFIXES = {VOLUME: "volume-", SNAPSHOT: "_snapshot-"}


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the storage; `owner` is the uuid of the row that has it, if one has."""

    name: str
    size_gb: int
    owner: UUID | None = None
    volume: UUID | None = None  # that a snapshot with an owner is of


def found(kind: str) -> list[Found]:
    """All files of the kind, by name."""
    folder = _folder(kind)
    names = sorted(path.stem for path in folder.glob("*.raw")) if folder.is_dir() else []
    ours = _owned(kind, names)
    shown = []
    for name in names:
        size_gb = _size_gb(_PATHS[kind](name))
        if size_gb is not None:
            owner = uuid_or_none(name)
            is_ours = owner in ours
            shown.append(Found(name, size_gb, owner if is_ours else None, ours.get(owner) if is_ours else None))
    return shown


def require(kind: str, name: str) -> Found:
    """A file that is nobody's. Raises Invalid for a name that is none, NotFound, Conflict for one that is ours."""
    if not NAME.fullmatch(name):
        raise Invalid(
            f"Invalid reference source-name {name[:60]!r}: it is the name of a file without its ending.", field="ref"
        )
    size_gb = _size_gb(_PATHS[kind](name))
    if size_gb is None:
        raise NotFound(f"The storage has no file {name[:60]} to be managed as a {kind}.")
    if _owned(kind, [name]):
        raise Conflict(f"File {name[:60]} is a {kind} of this cloud already.")
    return Found(name, size_gb)


def adopt(kind: str, name: str, uuid: UUID, size_gb: int) -> None:
    """The file is that of `uuid` now, of a whole number of GiB. Raises NotFound where somebody was quicker."""
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
    """The way back from `adopt`."""
    path = _PATHS[kind](uuid)
    if path.exists():
        path.rename(_PATHS[kind](name))


def let_go(kind: str, uuid: UUID) -> None:
    """The file stays under a name of its own, from which it can be managed again. Repeatable."""
    give_back(kind, uuid, f"{_PREFIXES[kind]}{uuid}")


def _folder(kind: str) -> Path:
    return _PATHS[kind]("x").parent


def _owned(kind: str, names: list[str]) -> dict[UUID | None, UUID | None]:
    """Which of the names are uuids of rows, and of which volume a snapshot is."""
    uuids = [uuid for uuid in map(uuid_or_none, names) if uuid]
    volume = "volume__uuid" if kind == SNAPSHOT else "uuid"
    return dict(_ROWS[kind].objects.filter(uuid__in=uuids).values_list("uuid", volume)) if uuids else {}


def _size_gb(path: Path) -> int | None:
    try:
        return max(1, -(-path.stat().st_size // store.GIB)) if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None
