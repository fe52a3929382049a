"""The gate before a SQLite file: its writers go in order, and those who come together share one commit.

A file has one writer at a time, and the sync at the end of its transaction is the dearest part of it. So who is done
and finds others at the gate leaves his transaction open: the next writes in it, behind a savepoint of his own, and the
last one commits for all. Each goes on once that commit is there, never before. Who is alone commits at once.

The transaction is on the connection of whoever began it. He waits for the commit, so he needs it for nothing else.
As long as it is open the file's door is locked to other processes, whose writers have a gate of their own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.write_door import Door

LONGEST_WAIT_SECONDS = 300.0  # at the gate, or for a commit: far above what is slow, so that nobody waits for ever
LONGEST_OPEN_SECONDS = 0.02  # after that a transaction is committed, whoever else may come
ALONE_SECONDS = 1.0  # after a shared commit has failed: who does it again is not harmed by the same neighbour
HANDED_ON = 0


class CommitFailed(sqlite3.OperationalError):
    """A shared commit came to nothing, maybe for another's fault. All of it was undone and may be done again."""

    sqlstate = "40001"


class _Open:
    """A transaction that more than one may write in."""

    __slots__ = ("driver", "error", "since", "waiting")

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.since = time.monotonic()
        self.waiting: list[threading.Lock] = []  # of those who are done, each released once it is settled
        self.error: BaseException | None = None


class Gate:
    """Who may write to one file. All but `enter` is for its holder alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        self._holder: int | None = None
        self._alone_until = 0.0
        self.open: _Open | None = None
        self.door = Door()

    @property
    def is_mine(self) -> bool:
        return self._holder == get_ident()

    @property
    def is_shared(self) -> bool:
        """Whether who is done may leave his transaction open: others wait, and it is young."""
        begun = self.open
        if not self._queue or begun is None or begun.error is not None:
            return False
        now = time.monotonic()
        return now - begun.since < LONGEST_OPEN_SECONDS and now > self._alone_until

    def enter(self) -> None:
        """Wait for the turn to write."""
        if self.is_mine:
            raise RuntimeError("This thread is inside already: it would wait for itself.")
        with self._lock:
            if self._holder is None:
                self._holder = get_ident()
                return
            turn = threading.Lock()
            turn.acquire()
            self._queue.append(turn)
        try:
            has_come = turn.acquire(timeout=LONGEST_WAIT_SECONDS)
        except BaseException:
            self._stand_back(turn)
            raise
        if not has_come:
            self._stand_back(turn)
            raise OperationalError(f"The database was not to be written to for {LONGEST_WAIT_SECONDS:.0f} seconds.")
        self._holder = get_ident()

    def leave(self) -> None:
        """Let the next one in. What is open is his to end; with nobody there it is committed now."""
        while not self._hand_on():
            self.commit()

    def commit(self) -> None:
        """Commit what is open, and let all go on who wait for that."""
        done, self.open = self.open, None
        if done is None:
            return
        try:
            if done.error is None:
                done.driver.execute("COMMIT")
        except BaseException as error:
            done.error = error
        if done.error is not None:
            roll_back(done.driver)
            if done.waiting:
                self._alone_until = time.monotonic() + ALONE_SECONDS
        self.door.unlock()
        for waiting in done.waiting:
            waiting.release()

    def _hand_on(self) -> bool:
        """False when there is something to commit first."""
        with self._lock:
            if self._queue:
                self._holder = HANDED_ON
                self._queue.popleft().release()
                return True
            if self.open is None:
                self._holder = None
            return self.open is None

    def _stand_back(self, turn: threading.Lock) -> None:
        """Give up waiting; the turn may have come in that moment."""
        with self._lock:
            if turn in self._queue:
                self._queue.remove(turn)
                return
        self.leave()


_gates: defaultdict[str, Gate] = defaultdict(Gate)
os.register_at_fork(after_in_child=_gates.clear)  # whoever held one is not there


def gate_of(alias: str) -> Gate:
    return _gates[alias]


class Part:
    """What one writer does between entering the gate and the commit, alone or with others."""

    __slots__ = ("_connection", "_gate", "_own", "is_first")

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        """Enter and begin. The connection is open, and in no transaction."""
        self._connection = connection
        self._own = connection.connection
        self._gate = gate = gate_of(connection.alias)
        gate.enter()
        self.is_first = gate.open is None
        try:
            if gate.open is None:
                gate.door.lock(_path(connection))
                self._own.execute("BEGIN IMMEDIATE")
                gate.open = _Open(self._own)
            else:
                gate.open.driver.execute("SAVEPOINT part")
                connection.connection = gate.open.driver
        except BaseException as error:
            self._blame(error)
            gate.commit()
            gate.door.unlock()
            gate.leave()
            with connection.wrap_database_errors:
                raise

    def end(self) -> None:
        """Have it committed; raises when that fails, and nothing of it is there then."""
        begun = self._mine()
        try:
            if not self.is_first:
                begun.driver.execute("RELEASE part")
            elif not begun.driver.in_transaction:
                raise sqlite3.OperationalError("The transaction was undone under way: the disk may be full.")
        except BaseException as error:
            self._blame(error)
        self._settle(begun)
        if begun.error is not None:
            self._tell(begun)

    def undo(self) -> None:
        """Leave nothing of it; what others have done in the same transaction stays.

        What they did may be why it is undone. So nobody hears of that before it is committed, and when that fails it is
        CommitFailed which he hears.
        """
        begun = self._mine()
        if self.is_first:
            self._undo_all(begun)
            return
        is_blamed = False
        try:
            begun.driver.execute("ROLLBACK TO part")
            begun.driver.execute("RELEASE part")
        except BaseException as error:
            self._blame(error)
            is_blamed = True
        self._settle(begun)
        if begun.error is not None and not is_blamed:
            self._tell(begun)

    def _undo_all(self, begun: _Open) -> None:
        self._gate.open = None
        try:
            begun.driver.rollback()
        except BaseException:
            self._connection.close()  # what cannot even be rolled back is of no use
        finally:
            self._gate.door.unlock()
            self._gate.leave()

    def _settle(self, begun: _Open) -> None:
        """Go on once what is open is committed, or has failed: by those who wait at the gate, or here and now."""
        if self._gate.is_shared and not _is_elsewhere():
            self._wait_for(begun)
        else:
            self._gate.commit()
            self._gate.leave()
        self._connection.connection = self._own

    def _wait_for(self, begun: _Open) -> None:
        """Leave the transaction to those who wait at the gate, and go on when one of them has committed it."""
        self._connection.connection = None  # it may be the one that they write on
        settled = threading.Lock()
        settled.acquire()
        begun.waiting.append(settled)
        self._gate.leave()
        if not settled.acquire(timeout=LONGEST_WAIT_SECONDS):
            raise OperationalError("A commit did not end: what became of it is not known.")

    @contextmanager
    def ended_by_django(self) -> Iterator[None]:
        """Inside, Django ends the transaction: somebody watches by now, or it has failed. No one else is in it yet."""
        self._gate.open = None
        try:
            yield
        finally:
            self._gate.door.unlock()
            self._gate.leave()

    def _mine(self) -> _Open:
        begun = self._gate.open
        assert begun is not None, "it is open until its holder ends it"
        return begun

    def _blame(self, error: BaseException) -> None:
        """The transaction itself is broken: all who wrote in it are told, and none of it stays."""
        if self._gate.open is not None:
            self._gate.open.error = error

    def _tell(self, begun: _Open) -> None:
        if self.is_first and begun.waiting:
            self._connection.close()  # others may have left it broken
        with self._connection.wrap_database_errors:
            if not begun.waiting and begun.error is not None:
                raise begun.error
            raise CommitFailed("The commit that was shared with others failed.") from begun.error


@contextmanager
def alone(alias: str) -> Iterator[None]:
    """The gate for whoever writes in a transaction of Django's, which is open to nobody else."""
    gate = gate_of(alias)
    if gate.is_mine:
        yield
        return
    gate.enter()
    try:
        gate.commit()
        gate.door.lock(_path(connections[alias]))
        yield
    finally:
        gate.door.unlock()
        gate.leave()


def _path(connection: BaseDatabaseWrapper) -> str:
    return str(connection.settings_dict["NAME"])


def roll_back(driver: Any) -> None:
    """It may be rolled back, or closed, already."""
    with suppress(sqlite3.Error):
        driver.rollback()


def _is_elsewhere() -> bool:
    """Whether this thread is in a transaction of another database too: whoever is must not wait for others' commits."""
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
