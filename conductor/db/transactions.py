"""Write transactions: fair on SQLite, plain on PostgreSQL, and always short."""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.db.models.sql import Query

from conductor.db.group_commit import CommitParticipant

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# SQLSTATE: serialization failure, deadlock. The server has rolled back the whole transaction, so it may be repeated.
SERIALIZATION_FAILURES = frozenset({"40001", "40P01"})
_FIRST_UNCLAIMED = """
    SELECT name FROM unnest(%s::text[]) AS name WHERE pg_try_advisory_xact_lock(hashtextextended(%s || name, 0)) LIMIT 1
"""
TRIES = 5
MOST_AT_ONCE = 64  # more than compete for the same resource at once
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
