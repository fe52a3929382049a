"""Processes of one machine watch each other through locked files, which the kernel unlocks when their process dies."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from conductor.core.membership import Member, OnGone, life_of

log = logging.getLogger(__name__)

FOLDER = "workers"
# A file gets its final name once it is locked, so a file that can be locked belongs to a dead process.
DRAFT = "."
# Maximum delay until a new process is watched. Its death is then noticed at once, as a watcher waits for the lock.
LOOK_SECONDS = 0.1
STOP_SECONDS = 5.0


class FileWatch:
    """This process's own file, and one thread for each file of another process, which waits for its lock."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER
        self._stopped = threading.Event()
        self._looker: threading.Thread | None = None
        self._watched: set[str] = set()
        self._own = ""
        self._held = -1

    def join(self, me: Member, on_gone: OnGone) -> None:
        self._own = me.worker
        try:
            self._hold(me)
        except OSError as error:
            log.warning("this process's death will be noticed by its leases only: %s: %s", self._folder, error.strerror)
        self._looker = threading.Thread(target=self._look, args=(on_gone,), name="death-watch-files", daemon=True)
        self._looker.start()

    def leave(self) -> None:
        """Stop watching. The waiting threads stay and report nothing, as a wait for a file lock cannot be cancelled."""
        self._stopped.set()
        if self._looker is not None:
            self._looker.join(STOP_SECONDS)
        if self._held >= 0:
            (self._folder / self._own).unlink(missing_ok=True)
            os.close(self._held)
            self._held = -1

    def members(self) -> Sequence[Member]:
        """Return the members whose files are locked."""
        found = []
        for name in self._names():
            try:
                with (self._folder / name).open() as file:
                    if not _is_free(file.fileno()):
                        found.append(Member(worker=name, name=file.read()))
            except OSError:  # it ended in between
                continue
        return found

    def _hold(self, me: Member) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{DRAFT}{me.worker}"
        self._held = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        os.write(self._held, me.name.encode())
        draft.rename(self._folder / me.worker)

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if not name.startswith(DRAFT))
        except OSError:
            return []

    def _look(self, on_gone: OnGone) -> None:
        while True:
            names = set(self._names()) - {self._own}
            self._watched &= names
            for name in sorted(names - self._watched):
                self._watched.add(name)
                threading.Thread(target=self._await_end, args=(name, on_gone), name="death-watch", daemon=True).start()
            if self._stopped.wait(LOOK_SECONDS):
                return

    def _await_end(self, name: str, on_gone: OnGone) -> None:
        path = self._folder / name
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH)  # all waiting watchers wake, as any of them may be the next to die
                if self._stopped.is_set():
                    return
                on_gone(life_of(name))
                path.unlink(missing_ok=True)
        except OSError:  # it was removed meanwhile: by its process at a clean end, or by another watcher
            return


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
