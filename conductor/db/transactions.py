"""Write transactions: fair on SQLite, plain on PostgreSQL, and always short."""

from __future__ import annotations

import functools
import logging
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.db.models.sql import Query

from conductor.db.group_commit import LONGEST_WAIT_SECONDS, CommitParticipant

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Item = TypeVar("Item")

# SQLSTATE: serialization failure, deadlock. The server has rolled back the whole transaction, so it may be repeated.
SERIALIZATION_FAILURES = frozenset({"40001", "40P01"})
_FIRST_UNCLAIMED = """
    SELECT name FROM unnest(%s::text[]) AS name WHERE pg_try_advisory_xact_lock(hashtextextended(%s || name, 0)) LIMIT 1
"""
TRIES = 5
MOST_AT_ONCE = 64  # more than compete for the same resource at once
MOST_IN_A_BATCH = 64
LONGEST_PAUSE_SECONDS = 0.05  # before the second attempt; doubled before each further one

# Rows that a transaction gathers, to be written together at its end: the writers, and the rows per connection.
before_commit: list[Callable[[BaseDatabaseWrapper, list[Any]], None]] = []
_gathered: dict[BaseDatabaseWrapper, list[Any]] = {}


@contextmanager
def write_tx(using: str = "default") -> Iterator[None]:
    """Open a transaction that writes to the database `using`. Never do I/O inside.

    On SQLite the writers of a process take turns, and share commits (`group_commit`). Inside of another transaction it
    is a savepoint.
    """
    connection = connections[using]
    if connection in _gathered:
        with savepoint(using):
            yield
        return
    try:
        with transaction.atomic(using=using):
            _gathered[connection] = []
            try:
                yield
                for write in () if transaction.get_rollback(using) else before_commit:
                    write(connection, _gathered[connection])
            finally:
                del _gathered[connection]
    except BaseException as error:
        raise _failure_of_shared_commit(connection) or error


def _failure_of_shared_commit(connection: Any) -> BaseException | None:
    """Return why a shared commit undid this transaction, which other writers' rows may have caused. None if none
    did.
    """
    return connection.take_failure() if connection.vendor == "sqlite" else None


@contextmanager
def savepoint(using: str) -> Iterator[None]:
    """Open a savepoint. A failure undoes its block, with gathered rows and `on_commit` hooks."""
    gathered = gathered_by(connections[using])
    count = len(gathered or ())
    try:
        with transaction.atomic(using=using):
            yield
    except BaseException:
        if gathered is not None:
            del gathered[count:]
        raise


def gathered_by(connection: BaseDatabaseWrapper) -> list[Any] | None:
    """Return the rows gathered by the transaction on `connection`, to be extended; None outside of `write_tx`."""
    return _gathered.get(connection)


@contextmanager
def bare_tx(using: str) -> Iterator[None]:
    """Open a transaction on SQLite for raw SQL only: without savepoints and `on_commit`.

    Django's own bookkeeping costs as much as the statements of a step. Inside a transaction it joins that one.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        with write_tx(using):
            yield
        return
    connection.ensure_connection()
    part = CommitParticipant(connection)
    try:
        yield
    except BaseException:
        part.undo()
        raise
    part.end()


class BatchWriter(Generic[Item]):
    """Batched writes to SQLite: one thread writes the items of all waiting threads in one transaction.

    Group commit (`group_commit`) shares the sync of a commit; a batch also shares the statements. The first thread that
    finds no leader leads: it waits for its turn to write, takes the items that have come meanwhile, and hands on the
    lead. `write(connection, items)` runs inside the transaction and may raise for any of the items.
    """

    def __init__(self, write: Callable[[BaseDatabaseWrapper, Sequence[Item]], None]) -> None:
        self._write = write
        self._queues: defaultdict[str, BatchQueue[Item]] = defaultdict(BatchQueue)
        os.register_at_fork(after_in_child=self._queues.clear)  # the leading thread does not exist in the child

    def queue_of(self, alias: str) -> BatchQueue[Item]:
        return self._queues[alias]

    def write(self, connection: BaseDatabaseWrapper, item: Item) -> None:
        """Write the item and commit it. Raises what `write` raised for this item."""
        queue, mine = self._queues[connection.alias], _WaitingItem(item)
        leads = queue.join(mine)
        if not leads and not mine.turn.acquire(timeout=LONGEST_WAIT_SECONDS):
            queue.leave(mine)
        if not mine.is_settled:
            self._lead(connection, queue)
        if mine.error is not None:
            raise mine.error

    def _lead(self, connection: BaseDatabaseWrapper, queue: BatchQueue[Item]) -> None:
        """Commit once for all items. If that fails, commit each by itself, so that none fails by another's fault."""
        batch: list[_WaitingItem[Item]] = []
        try:
            with bare_tx(connection.alias):
                batch = queue.take()  # the leader's own item is the oldest
                self._write(connection, [waiting.item for waiting in batch])
        except BaseException as error:
            batch = batch or queue.take()
            if len(batch) == 1:
                batch[0].error = error
            else:
                self._write_each(connection, batch)
        finally:
            for waiting in batch:
                waiting.is_settled = True
            queue.hand_on()
            for waiting in batch:
                waiting.turn.release()

    def _write_each(self, connection: BaseDatabaseWrapper, batch: Sequence[_WaitingItem[Item]]) -> None:
        for waiting in batch:
            try:
                with bare_tx(connection.alias):
                    self._write(connection, [waiting.item])
            except BaseException as error:
                waiting.error = error


class _WaitingItem(Generic[Item]):
    """An item to be written, and the thread that waits for it."""

    __slots__ = ("error", "is_settled", "item", "turn")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_settled = False
        self.error: BaseException | None = None
        self.turn = threading.Lock()  # released when the item is done, or when this thread leads next
        self.turn.acquire()


class BatchQueue(Generic[Item]):
    """Items to be written to one file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_WaitingItem[Item]] = []
        self._is_led = False

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, mine: _WaitingItem[Item]) -> bool:
        """Wait with the other threads. Return whether this thread leads."""
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        return leads

    def take(self) -> list[_WaitingItem[Item]]:
        with self._lock:
            batch, self._waiting = self._waiting[:MOST_IN_A_BATCH], self._waiting[MOST_IN_A_BATCH:]
        return batch

    def hand_on(self) -> None:
        """Let the thread with the oldest item lead next."""
        with self._lock:
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].turn.release()

    def leave(self, mine: _WaitingItem[Item]) -> None:
        """Give up waiting, unless this thread has just become the leader: no other thread would lead then."""
        with self._lock:
            if mine.turn.acquire(blocking=False):
                return
            if mine in self._waiting:
                self._waiting.remove(mine)
        raise OperationalError("A commit did not end: what became of it is not known.")


def is_serialization_failure(error: BaseException) -> bool:
    """Whether two transactions conflicted and this one was rolled back. Nothing else is wrong."""
    return isinstance(error, OperationalError) and getattr(error.__cause__, "sqlstate", "") in SERIALIZATION_FAILURES


def retried(work: Callable[P, R]) -> Callable[P, R]:
    """Repeat `work`, after a short random pause, when its transaction conflicted with another one.

    It is for functions whose transactions may each be repeated: a repetition must find, or not depend on, rows that an
    earlier one committed. Inside of a transaction nothing is repeated, as that one has been rolled back too.
    """

    @functools.wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(1, TRIES):
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if not is_serialization_failure(error) or _is_inside():
                    raise
                log.info("transaction crossed another: %s, try %s", work.__qualname__, tried)
                time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS * 2 ** (tried - 1)))
        return work(*args, **kwargs)

    return wrapped


def _is_inside() -> bool:
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))


def each_in_turn(items: Iterable[T], act: Callable[[T], R]) -> list[R | Exception]:
    """Call `act` for each item. Return the results, or the errors raised: none fails by another's fault.

    In an open transaction `act` must be a savepoint. Errors that undo the transaction are raised.
    """
    results: list[R | Exception] = []
    for item in items:
        try:
            results.append(act(item))
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            results.append(error)
    return results


def one_at_a_time(using: str, *names: str) -> None:
    """Lock `names` until this transaction ends. Other requests for one of them wait. Call it inside `write_tx(using)`.

    It is for checks before a write where no row can be locked, such as of a quota: "project:<id>". Lock before the
    transaction locks rows, and all names at once: they are taken in order, which prevents deadlocks.
    """
    if connections[using].vendor == "postgresql":  # SQLite's writers are exclusive from the start
        with connections[using].cursor() as cursor:
            for name in sorted(set(names)):
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def first_unclaimed(using: str, scope: str, names: Iterable[str]) -> str | None:
    """Lock and return the first of `names` that no other transaction has locked. Call it inside `write_tx`.

    It is for transactions that would otherwise insert the same rows, wait for each other, and lose. If all names are
    locked by others, return the first one. None without names.
    """
    if connections[using].vendor != "postgresql":  # SQLite's writers are exclusive from the start
        return next(iter(names), None)
    looked_at = list(islice(names, MOST_AT_ONCE))
    with connections[using].cursor() as cursor:
        cursor.execute(_FIRST_UNCLAIMED, [looked_at, scope])
        found = cursor.fetchone()
    return found[0] if found else next(iter(looked_at), None)


def database_now(plus_seconds: float = 0.0) -> Any:
    """Return an expression for the database's clock, as a worker's own clock must decide nothing."""
    if not plus_seconds:
        return Now()
    delta: Combinable = Value(timedelta(seconds=plus_seconds), output_field=DurationField())
    return ExpressionWrapper(Now() + delta, output_field=DateTimeField())


def database_time(using: str = "default") -> datetime:
    """Return the database's time as a value: for a time that several rows or databases must share exactly."""
    query = Query(None)
    query.add_annotation(Now(), "now")
    (now,) = next(iter(query.get_compiler(using=using).results_iter()))
    return now  # type: ignore[no-any-return]
