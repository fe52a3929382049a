"""The file in which a simulated host keeps its guests: other hosts of the machine may look and write, one at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from compute_drivers.fake.notes import Notes
from conductor.core.errors import DriverError

LOCK = ".lock"


class Store:
    """Notes in a JSON file, replaced as a whole. Call `load` and `save` inside of `held`.

    A guest that moves while it runs is in two files at once. Which of them counts is decided by one other file, the
    mark: its creation takes the guest from the one host and gives it to the other in the same instant.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[tuple[int, int, int], Notes] | None = None

    def prepare(self) -> None:
        """Make the folder; raises DriverError when that cannot be or the file is no state of a host."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverError(f"The state file {self.path.name} cannot be kept: {error}") from error
        with held(self):
            self.load()

    def load(self) -> Notes:
        """What counts now: guests that have arrived are here, those that have left are not."""
        return _settled(self._read())

    def save(self, notes: Notes) -> None:
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            # No fsync: real guests do not survive a power cut either.
            part.write_text(notes.to_text())
            os.replace(part, self.path)
            self._seen = (_stamp(self.path), notes)
        except OSError as error:
            raise DriverError(f"The state file {self.path.name} cannot be written: {error}") from error

    def _read(self) -> Notes:
        try:
            stamp = _stamp(self.path)
        except FileNotFoundError:
            return Notes()
        if self._seen is None or self._seen[0] != stamp:
            try:
                self._seen = (stamp, Notes.from_json(json.loads(self.path.read_text())))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise DriverError(f"The state file {self.path.name} cannot be read: {error}") from error
        return self._seen[1]


def _stamp(path: Path) -> tuple[int, int, int]:
    """What another writer of the file changes."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def held(*stores: Store, is_shared: bool = False) -> Iterator[None]:
    """Keep everybody else from these files; `is_shared` lets others look. The kernel frees them when a process dies."""
    with ExitStack() as stack:
        # In one order for all: two moves that cross each other must not wait for each other.
        for path in sorted({store.path for store in stores}):
            try:
                file = stack.enter_context(path.with_name(f"{path.name}{LOCK}").open("a"))
            except OSError as error:
                raise DriverError(f"The state file {path.name} cannot be locked: {error}") from error
            fcntl.flock(file, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield


def _settled(notes: Notes) -> Notes:
    here = {uuid: it for uuid, it in notes.arrivals.items() if it.note is not None and Path(it.mark).exists()}
    gone = {uuid for uuid, note in notes.guests.items() if note.mark and Path(note.mark).exists()}
    if not here and not gone:
        return notes
    stayed = {uuid: note for uuid, note in notes.guests.items() if uuid not in gone}
    come = {uuid: it.note for uuid, it in here.items() if it.note is not None}
    arrivals = {**notes.arrivals, **{uuid: replace(it, note=None, is_here=True) for uuid, it in here.items()}}
    return replace(notes, guests={**stayed, **come}, arrivals=arrivals)
