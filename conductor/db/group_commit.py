"""Group commit for SQLite: the writers of a file take turns, and concurrent ones share one commit.

Requests, which clients wait for, go before background work, which gets every fourth turn while both wait.

A file has one writer at a time, and the sync at the end of its transaction is its most expensive part. So a writer that
is done and finds others waiting leaves its transaction open: the next one writes in it, behind a savepoint of its own,
and the last one commits for all. Each continues once that commit is done, never before. A lone writer commits at once.

The transaction is on the connection of the writer that began it. That thread waits for the commit, so it does not use
the connection. While it is open the file is locked for other processes, whose writers have a queue of their own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import defaultdict, deque
from contextlib import suppress
from threading import get_ident
from typing import Any

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.core.request_priority import is_for_request

LONGEST_WAIT_SECONDS = 300.0  # in the queue, or for a commit: far above any slow case, so that no thread waits for ever
LONGEST_OPEN_SECONDS = 0.02  # after that a transaction is committed, even if others wait
ALONE_SECONDS = 1.0  # after a failed shared commit: the retry shares with no other writer
HANDED_ON = 0
REQUESTS_IN_A_ROW = 3  # turns of requests before one of the background, while both wait


class _Queue:
    """Waiting writers of a file: two queues, of requests and of background work."""

    def __init__(self) -> None:
        self._requests: deque[threading.Lock] = deque()
        self._others: deque[threading.Lock] = deque()
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._requests) + len(self._others)

    def append(self, turn: threading.Lock) -> None:
        (self._requests if is_for_request() else self._others).append(turn)

    def pop_next(self) -> threading.Lock:
        if self._requests and (self._in_a_row < REQUESTS_IN_A_ROW or not self._others):
            self._in_a_row += 1
            return self._requests.popleft()
        self._in_a_row = 0
        return self._others.popleft()

    def remove(self, turn: threading.Lock) -> bool:
        """Remove a waiting writer. False when it no longer waits."""
        found = next((queue for queue in (self._requests, self._others) if turn in queue), None)
        if found is not None:
            found.remove(turn)
        return found is not None


class CommitFailed(sqlite3.OperationalError):
    """A shared commit failed, maybe by another writer's fault. All of it was rolled back and may be repeated."""

    sqlstate = "40001"


class _Open:
    """An open transaction that several writers may use."""

    __slots__ = ("driver", "error", "since", "waiting")

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.since = time.monotonic()
        self.waiting: list[threading.Lock] = []  # of finished writers, each released once the transaction is settled
        self.error: BaseException | None = None


class WriteLock:
    """Write lock of one file. Only its holder may call methods other than `enter`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue = _Queue()
        self._holder: int | None = None
        self._alone_until = 0.0
        self.open: _Open | None = None

    @property
    def is_mine(self) -> bool:
        return self._holder == get_ident()

    @property
    def is_shared(self) -> bool:
        """Whether a finished writer may leave its transaction open: others wait, and it is young."""
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
        """Admit the next writer, which then ends an open transaction. Without one it is committed now."""
        while not self._hand_on():
            self.commit()

    def commit(self) -> None:
        """Commit the open transaction, and release all threads that wait for it."""
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
        for waiting in done.waiting:
            waiting.release()

    def _hand_on(self) -> bool:
        """Admit the next writer. False when a transaction must be committed first."""
        with self._lock:
            if self._queue:
                self._holder = HANDED_ON
                self._queue.pop_next().release()
                return True
            if self.open is None:
                self._holder = None
            return self.open is None

    def _stand_back(self, turn: threading.Lock) -> None:
        """Give up waiting, unless the turn has come in that moment."""
        with self._lock:
            if self._queue.remove(turn):
                return
        self.leave()


_write_locks: defaultdict[str, WriteLock] = defaultdict(WriteLock)
os.register_at_fork(after_in_child=_write_locks.clear)  # holders do not exist in the child


def write_lock_of(alias: str) -> WriteLock:
    return _write_locks[alias]


class CommitParticipant:
    """One writer's part between its turn and the commit, alone or with others."""

    __slots__ = ("_connection", "_own", "_write_lock", "is_first")

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        """Take the turn and begin. The connection is open, and in no transaction."""
        self._connection = connection
        self._own = connection.connection
        self._write_lock = write_lock = write_lock_of(connection.alias)
        write_lock.enter()
        self.is_first = write_lock.open is None
        try:
            if write_lock.open is None:
                self._own.execute("BEGIN IMMEDIATE")
                write_lock.open = _Open(self._own)
            else:
                write_lock.open.driver.execute("SAVEPOINT part")
                connection.connection = write_lock.open.driver
        except BaseException as error:
            self._blame(error)
            write_lock.commit()
            write_lock.leave()
            with connection.wrap_database_errors:
                raise

    def end(self) -> None:
        """Commit, alone or with others. Raises when that fails, and then nothing is stored."""
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
            self._raise_if_failed(begun)

    def undo(self) -> None:
        """Undo this part. The parts of others in the same transaction stay.

        Their changes may be the cause of the error. So it is not raised before they are committed. If that fails,
        CommitFailed is raised instead.
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
            self._raise_if_failed(begun)

    def _undo_all(self, begun: _Open) -> None:
        self._write_lock.open = None
        try:
            begun.driver.rollback()
        except BaseException:
            self._connection.close()  # a connection that cannot roll back is of no use
        finally:
            self._write_lock.leave()

    def _settle(self, begun: _Open) -> None:
        """Wait until the open transaction is committed, or has failed, by a waiting writer or by this thread."""
        if self._write_lock.is_shared and not _is_elsewhere():
            self._wait_for(begun)
        else:
            self._write_lock.commit()
            self._write_lock.leave()
        self._connection.connection = self._own

    def _wait_for(self, begun: _Open) -> None:
        """Leave the transaction to the waiting writers, and continue when one of them has committed it."""
        self._connection.connection = None  # they may write on it
        settled = threading.Lock()
        settled.acquire()
        begun.waiting.append(settled)
        self._write_lock.leave()
        if not settled.acquire(timeout=LONGEST_WAIT_SECONDS):
            raise OperationalError("A commit did not end: what became of it is not known.")

    def _mine(self) -> _Open:
        begun = self._write_lock.open
        assert begun is not None, "it is open until its holder ends it"
        return begun

    def _blame(self, error: BaseException) -> None:
        """Fail a broken transaction: all its writers get the error, and nothing of it is stored."""
        if self._write_lock.open is not None:
            self._write_lock.open.error = error

    def _raise_if_failed(self, begun: _Open) -> None:
        if self.is_first and begun.waiting:
            self._connection.close()  # others may have left the connection broken
        with self._connection.wrap_database_errors:
            if not begun.waiting and begun.error is not None:
                raise begun.error
            raise CommitFailed("The commit that was shared with others failed.") from begun.error


def roll_back(driver: Any) -> None:
    """Roll back, unless that is done already, or the connection is closed."""
    with suppress(sqlite3.Error):
        driver.rollback()


def _is_elsewhere() -> bool:
    """Whether this thread is also in a transaction of another database. Then it must not wait for others' commits."""
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
