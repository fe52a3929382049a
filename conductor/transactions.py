"""Write transactions: fair on SQLite, plain elsewhere, and always short."""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.db.models.sql import Query

from conductor import write_gate
from conductor.write_gate import Part

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

# SQLSTATE: serialization failure, deadlock. The server has undone the whole transaction, so it may be done again.
CROSSED = frozenset({"40001", "40P01"})
_FIRST_UNCLAIMED = """
    SELECT name FROM unnest(%s::text[]) AS name WHERE pg_try_advisory_xact_lock(hashtextextended(%s || name, 0)) LIMIT 1
"""
TRIES = 5
MOST_AT_ONCE = 64  # more than come for the same at once
LONGEST_PAUSE_SECONDS = 0.05  # before the second try; doubled before each further one

# Who writes in one statement, at the end of a transaction, what came up piece by piece.
before_commit: list[Callable[[BaseDatabaseWrapper], None]] = []
_gathering: set[BaseDatabaseWrapper] = set()


@contextmanager
def write_tx(using: str = "default") -> Iterator[None]:
    """A transaction that writes to the database behind alias `using`. Never do I/O inside."""
    connection = connections[using]
    if connection.in_atomic_block:
        with _djangos(connection):
            yield
        return
    connection.ensure_connection()
    is_djangos = connection.vendor != "sqlite" or is_watched(connection) or not connection.autocommit
    with _djangos(connection) if is_djangos else _AtGate(connection):
        _gathering.add(connection)
        try:
            yield
            for write in () if connection.needs_rollback else before_commit:
                write(connection)
        finally:
            _gathering.discard(connection)


@contextmanager
def _djangos(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """As Django has it, with others kept out on SQLite, whose writers starve each other for seconds."""
    gate = write_gate.alone(connection.alias) if connection.vendor == "sqlite" else nullcontext()
    with gate, transaction.atomic(using=connection.alias):
        yield


class _AtGate(transaction.Atomic):
    """The outermost transaction of a SQLite file: to Django one of its own, but begun and ended at the gate."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection.alias, savepoint=True, durable=False)
        self._connection = connection

    def __enter__(self) -> None:
        connection = self._connection
        self._part = Part(connection)
        connection.commit_on_exit, connection.needs_rollback = True, False
        connection.autocommit, connection.in_atomic_block = False, True
        connection.atomic_blocks.append(self)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        connection, part = self._connection, self._part
        has_failed = exc_type is not None or connection.needs_rollback or connection.closed_in_transaction
        if part.is_first and (has_failed or is_watched(connection)):
            with part.ended_by_django():
                super().__exit__(exc_type, exc_value, traceback)
            return
        connection.atomic_blocks.pop()
        connection.in_atomic_block, connection.autocommit, connection.errors_occurred = False, True, False
        connection.needs_rollback = connection.closed_in_transaction = False
        hooks, connection.run_on_commit = connection.run_on_commit, []
        if has_failed:
            part.undo()
            return
        part.end()
        connection.run_on_commit = hooks
        connection.run_and_clear_commit_hooks()


def is_gathering(connection: BaseDatabaseWrapper) -> bool:
    """Whether the transaction on `connection` asks those of `before_commit` at its end."""
    return connection in _gathering


@contextmanager
def bare_tx(using: str) -> Iterator[None]:
    """The same on SQLite for statements by hand (`conductor.sql`) and nothing else: no savepoints, no `on_commit`.

    Django's own bookkeeping costs as much as the statements of a step. Inside of a transaction it is that one.
    """
    connection = connections[using]
    if connection.in_atomic_block or is_watched(connection):
        with write_tx(using):
            yield
        return
    connection.ensure_connection()
    part = Part(connection)
    try:
        yield
    except BaseException:
        part.undo()
        raise
    part.end()


def is_watched(connection: BaseDatabaseWrapper) -> bool:
    """Whether somebody counts or logs statements; then they go the long way round, where he sees them."""
    return bool(connection.execute_wrappers or connection.force_debug_cursor or _is_debugged())


@functools.cache
def _is_debugged() -> bool:
    """Asked before each statement, and the same as long as the process lives."""
    return bool(settings.DEBUG)


def has_crossed(error: BaseException) -> bool:
    """Whether two transactions stood in each other's way and this one was undone: nothing else is wrong."""
    return isinstance(error, OperationalError) and getattr(error.__cause__, "sqlstate", "") in CROSSED


def retried(work: Callable[P, R]) -> Callable[P, R]:
    """Do `work` again, after a short random pause, when its transaction crossed another one.

    For functions whose transactions may each be repeated: what an earlier one of them committed must be found again
    or belong to nobody. Inside of a transaction nothing is repeated, as that one has been undone too.
    """

    @functools.wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(1, TRIES):
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if not has_crossed(error) or _is_inside():
                    raise
                log.info("transaction crossed another: %s, try %s", work.__qualname__, tried)
                time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS * 2 ** (tried - 1)))
        return work(*args, **kwargs)

    return wrapped


def _is_inside() -> bool:
    return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))


def one_at_a_time(using: str, *names: str) -> None:
    """Until this transaction ends, whoever else asks for one of `names` waits; inside `write_tx(using)`.

    For what is checked and then written where no row could be held, as a quota is: "project:<id>". Ask before the
    transaction holds rows, and for all names at once: they are taken in order, so nobody waits in a ring.
    """
    if connections[using].vendor == "postgresql":  # SQLite's writers are alone from the start
        with connections[using].cursor() as cursor:
            for name in sorted(set(names)):
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def first_unclaimed(using: str, scope: str, names: Iterable[str]) -> str | None:
    """The first of `names` that no other transaction has got here; it is this one's until it ends. Inside `write_tx`.

    For who would else insert the same as others do, wait for each of them in turn, and lose. Where all that are looked
    at are others', the first; None without names.
    """
    if connections[using].vendor != "postgresql":  # SQLite's writers are alone from the start
        return next(iter(names), None)
    looked_at = list(islice(names, MOST_AT_ONCE))
    with connections[using].cursor() as cursor:
        cursor.execute(_FIRST_UNCLAIMED, [looked_at, scope])
        found = cursor.fetchone()
    return found[0] if found else next(iter(looked_at), None)


def database_now(plus_seconds: float = 0.0) -> Any:
    """The database's clock, as an expression: time that decides anything is never a worker's."""
    if not plus_seconds:
        return Now()
    delta: Combinable = Value(timedelta(seconds=plus_seconds), output_field=DurationField())
    return ExpressionWrapper(Now() + delta, output_field=DateTimeField())


def database_time(using: str = "default") -> datetime:
    """The database's clock as a value: for a time that several rows or databases must share to the digit."""
    query = Query(None)
    query.add_annotation(Now(), "now")
    (now,) = next(iter(query.get_compiler(using=using).results_iter()))
    return now  # type: ignore[no-any-return]
