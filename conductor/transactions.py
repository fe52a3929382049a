"""Write transactions: fair on SQLite, plain elsewhere, and always short."""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.db.models.sql import Query

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

# SQLSTATE: serialization failure, deadlock. The server has undone the whole transaction, so it may be done again.
CROSSED = frozenset({"40001", "40P01"})
TRIES = 5
LONGEST_PAUSE_SECONDS = 0.05  # before the second try; doubled before each further one

# SQLite has one writer and an unfair busy loop: competing connections starve each other for seconds.
# One lock per file and process makes writers queue in order.
_writers: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)

# Who writes in one statement, at the end of a transaction, what came up piece by piece.
before_commit: list[Callable[[BaseDatabaseWrapper], None]] = []
_gathering: set[BaseDatabaseWrapper] = set()


@contextmanager
def write_tx(using: str = "default") -> Iterator[None]:
    """A transaction that writes to the database behind alias `using`. Never do I/O inside."""
    connection = connections[using]
    gate = _writers[using] if connection.vendor == "sqlite" else nullcontext()
    is_outermost = not connection.in_atomic_block
    with gate, _Outermost(using) if is_outermost else transaction.atomic(using=using):
        if not is_outermost:
            yield
            return
        _gathering.add(connection)
        try:
            yield
            for write in () if connection.needs_rollback else before_commit:
                write(connection)
        finally:
            _gathering.discard(connection)


class _Outermost(transaction.Atomic):
    """A transaction of Django; on SQLite begun and committed by its driver, which costs half as much.

    Only what goes well and is watched by nobody: all else is Django's own way, from the same state.
    """

    def __init__(self, using: str) -> None:
        super().__init__(using, savepoint=True, durable=False)
        self._connection = connections[using]

    def __enter__(self) -> None:
        connection = self._connection
        connection.ensure_connection()
        if connection.vendor != "sqlite" or is_watched(connection) or not connection.autocommit:
            super().__enter__()
            return
        connection.commit_on_exit, connection.needs_rollback = True, False
        with connection.wrap_database_errors:
            connection.connection.execute("BEGIN IMMEDIATE")
        connection.autocommit, connection.in_atomic_block = False, True
        connection.atomic_blocks.append(self)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        connection = self._connection
        has_failed = exc_type is not None or connection.needs_rollback or connection.closed_in_transaction
        if has_failed or connection.vendor != "sqlite" or is_watched(connection):
            super().__exit__(exc_type, exc_value, traceback)
            return
        try:
            with connection.wrap_database_errors:
                connection.connection.commit()
        except DatabaseError as error:
            super().__exit__(type(error), error, error.__traceback__)
            raise
        connection.atomic_blocks.pop()
        connection.in_atomic_block, connection.autocommit, connection.errors_occurred = False, True, False
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
    database = connection.connection
    with _writers[using]:
        try:
            database.execute("BEGIN IMMEDIATE")
            yield
            database.commit()
        except BaseException:
            with connection.wrap_database_errors:
                database.rollback()
                raise


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
