"""The door of a SQLite file, through which the writers of one process after another go.

SQLite has a lock of its own for that, but who finds it taken looks again after pauses that grow to a tenth of a second,
while others slip in. This one is a lock of the kernel's on a file beside it, which dies with whoever holds it.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from typing import IO

from django.db import OperationalError

LONGEST_WAIT_SECONDS = 30.0  # the same that SQLite's own lock is waited for
SHORT_PAUSE_SECONDS = 0.0001  # a commit and a handful of statements take little longer
LONG_PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 0.5  # after that another process hangs, or writes very much, and the pauses are long
IN_MEMORY = ("file:", ":memory:")


class Door:
    """What one process has of the lock; for whoever holds its gate alone."""

    def __init__(self) -> None:
        self._path = ""
        self._file: IO[bytes] | None = None

    def lock(self, path: str) -> None:
        """Wait until no other process writes to the database at `path`. Raises OperationalError after half a minute."""
        if path.startswith(IN_MEMORY):
            return
        if path != self._path:
            self.close()
            self._file, self._path = open(f"{path}-door", "ab"), path  # noqa: SIM115
        assert self._file is not None
        descriptor, began = self._file.fileno(), time.monotonic()
        while not _is_mine(descriptor):
            waited = time.monotonic() - began
            if waited > LONGEST_WAIT_SECONDS:
                raise OperationalError(f"database is locked: another process has been writing to it for {waited:.0f} s")
            time.sleep(SHORT_PAUSE_SECONDS if waited < PATIENCE_SECONDS else LONG_PAUSE_SECONDS)

    def unlock(self) -> None:
        """Let other processes in."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _is_mine(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
