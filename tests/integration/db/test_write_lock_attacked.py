"""Failures in the middle of a group commit: no writer gets a wrong result."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction

from conductor.core.errors import Conflict
from conductor.db import group_commit, transactions
from conductor.db.dialect import run
from conductor.db.group_commit import write_lock_of
from conductor.db.transactions import BatchWriter, bare_tx, database_now, is_serialization_failure, write_tx
from conductor.journal.models import Event
from tests.gathering import ALIAS, Write, assert_write_lock_is_free, closing, coming, emit, emitted, emitting, together
from tests.waiting import WAIT_SECONDS

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine commits no earlier, and is alone no shorter."""
    monkeypatch.setattr(group_commit, "LONGEST_OPEN_SECONDS", 3600.0)
    monkeypatch.setattr(group_commit, "ALONE_SECONDS", 3600.0)
    monkeypatch.setattr(write_lock_of(ALIAS), "_alone_until", 0.0)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def filling_the_disk() -> None:
    """SQLite undoes the whole transaction then, not the statement alone."""
    with write_tx(ALIAS):
        _fill()


def filling_it_unmoved() -> None:
    with write_tx(ALIAS), suppress(DatabaseError):
        _fill()


def write_now(kind: str) -> None:
    """Write at once, unlike `emit`, which writes at the end of the transaction."""
    Event.objects.using(ALIAS).create(topic="host:a", kind=kind, data={}, created_at=database_now())


_INSERT_EVENT = "INSERT INTO journal_event (topic, kind, project_id, data, created_at) VALUES ('', %s, '', '{}', {now})"


def _fill() -> None:
    driver = connections[ALIAS].connection
    pages, free, size = (
        driver.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    driver.execute(f"PRAGMA max_page_count = {pages + 1}")
    try:
        run(connections[ALIAS], _INSERT_EVENT, ("x" * size * (free + 10),))
    finally:
        driver.execute("PRAGMA max_page_count = 1000000")


def closing_the_connection() -> None:
    with write_tx(ALIAS):
        emit("cut off")
        connections[ALIAS].close()


def was_refused(future: Future[Any]) -> bool:
    error = future.exception(WAIT_SECONDS)
    return error is not None and is_serialization_failure(error)


def first(
    pool: ThreadPoolExecutor, begin: Write, *writes: Callable[[], Any]
) -> tuple[DatabaseError, list[Future[Any]]]:
    """Return the error of the first writer, which begins this way, and the others' futures."""
    futures: list[Future[Any]] = []

    def write() -> None:
        with write_tx(ALIAS):
            write_now("first")
            begin()
            futures.extend(coming(pool, *writes))

    with pytest.raises(DatabaseError) as raised:
        write()
    return raised.value, futures


@pytest.mark.parametrize("spoil", [filling_the_disk, filling_it_unmoved])
def test_a_writer_that_breaks_the_shared_transaction_fails_it_for_all(pool: ThreadPoolExecutor, spoil: Write) -> None:
    mine, futures = first(pool, lambda: None, emitting("one"), spoil, emitting("two"), emitting("three"))
    one, broken, two, three = futures
    assert is_serialization_failure(mine)
    assert was_refused(one)
    assert isinstance(broken.exception(WAIT_SECONDS), OperationalError)
    assert (two.result(WAIT_SECONDS), three.result(WAIT_SECONDS)) == (None, None)
    assert emitted() == ["two", "three"]  # a failed write reports its failure, and nothing else
    emitting("again")()
    assert emitted()[-1] == "again"
    assert_write_lock_is_free()


def test_a_writer_that_closes_its_connection_loses_only_its_own_rows(pool: ThreadPoolExecutor) -> None:
    with write_tx(ALIAS):
        write_now("first")
        one, _closed, two = coming(pool, emitting("one"), closing_the_connection, emitting("two"))
    assert (one.result(WAIT_SECONDS), two.result(WAIT_SECONDS)) == (None, None)
    assert emitted() == ["first", "one", "two"]
    assert_write_lock_is_free()


def test_a_lost_transaction_is_not_left_open(pool: ThreadPoolExecutor) -> None:
    def begin() -> None:
        with suppress(DatabaseError):
            _fill()

    mine, (one,) = first(pool, begin, emitting("one"))
    assert "undone under way" in str(mine)
    one.result(WAIT_SECONDS)
    assert emitted() == ["one"]
    assert_write_lock_is_free()


class Full:
    """A connection on whose disk there is no room for a commit."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return self._driver.execute(statement, *values)


def test_a_commit_on_a_full_disk_fails_for_all_writers_and_leaves_nothing(pool: ThreadPoolExecutor) -> None:
    def begin() -> None:
        begun = write_lock_of(ALIAS).open
        assert begun is not None
        begun.driver = Full(begun.driver)

    mine, futures = first(pool, begin, emitting("one"), refused, emitting("two"))
    assert is_serialization_failure(mine)
    assert [was_refused(future) for future in futures] == [True] * 3  # each writer gets the error of its own refusal
    assert emitted() == []
    for future in [pool.submit(closing(emitting(kind))) for kind in ("one", "two")]:
        future.result(WAIT_SECONDS)
    assert sorted(emitted()) == ["one", "two"]
    assert_write_lock_is_free()


def refused() -> list[list[str]]:
    """Return the first writer's view when it is refused, and the view of all others afterwards."""
    seen: list[list[str]] = []
    with suppress(Conflict), write_tx(ALIAS):
        write_now("mine")
        seen.append(emitted())
        raise Conflict("as asked")
    return [*seen, emitted()]


def test_no_request_is_refused_for_uncommitted_rows(pool: ThreadPoolExecutor) -> None:
    futures: list[Future[Any]] = []

    def dawdling() -> None:
        with write_tx(ALIAS), suppress(TimeoutError):
            write_now("late")
            futures[1].result(0.1)

    with write_tx(ALIAS):
        write_now("first")
        futures.extend(coming(pool, emitting("one"), refused, dawdling))
    _, early, _ = futures
    assert early.result(WAIT_SECONDS) == [["first", "one", "mine"], ["first", "one", "late"]]
    assert_write_lock_is_free()


def test_hooks_run_after_the_commit_that_was_shared_and_fail_alone(pool: ThreadPoolExecutor) -> None:
    seen: list[list[str]] = []

    def hooked(kind: str, hook: Write) -> Write:
        def write() -> None:
            with write_tx(ALIAS):
                emit(kind)
                transaction.on_commit(lambda: seen.append(emitted()), using=ALIAS)
                transaction.on_commit(hook, using=ALIAS)

        return write

    def failing() -> None:
        raise Conflict("as asked")

    one, two, three = together(
        pool, hooked("one", emitting("of one")), hooked("two", failing), hooked("three", emitting("of three"))
    )
    assert isinstance(two.exception(WAIT_SECONDS), Conflict)
    assert (one.result(WAIT_SECONDS), three.result(WAIT_SECONDS)) == (None, None)
    assert [kinds[:4] for kinds in seen] == [["first", "one", "two", "three"]] * 3
    assert sorted(emitted()[4:]) == ["of one", "of three"]
    assert_write_lock_is_free()


def test_inner_transactions_are_undone_alone_and_none_is_durable(pool: ThreadPoolExecutor) -> None:
    def nested() -> None:
        with write_tx(ALIAS):
            write_now("outer")
            with suppress(Conflict), write_tx(ALIAS):
                write_now("inner")
                raise Conflict("as asked")
            with pytest.raises(RuntimeError, match="durable"), transaction.atomic(using=ALIAS, durable=True):
                emit("never")
            assert emitted() == ["first", "one", "outer"]  # its own, and what commits with it

    for future in together(pool, emitting("one"), nested, emitting("two")):
        future.result(WAIT_SECONDS)
    assert emitted() == ["first", "one", "outer", "two"]
    assert_write_lock_is_free()


def test_entering_the_write_lock_twice_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="wait for itself"), bare_tx(ALIAS), bare_tx(ALIAS):
        pass
    assert_write_lock_is_free()


def test_a_thread_that_stopped_waiting_for_a_batch_leads_no_other(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, go_on = threading.Event(), threading.Event()

    def write(connection: Any, batch: Any) -> None:
        writes.set()
        assert go_on.wait(WAIT_SECONDS)

    monkeypatch.setattr(transactions, "LONGEST_WAIT_SECONDS", 0.05)
    writer: BatchWriter[str] = BatchWriter(write)
    leader = pool.submit(closing(lambda: writer.write(connections[ALIAS], "first")))
    assert writes.wait(WAIT_SECONDS)
    with pytest.raises(OperationalError, match="did not end"):
        pool.submit(closing(lambda: writer.write(connections[ALIAS], "late"))).result(WAIT_SECONDS)
    go_on.set()
    leader.result(WAIT_SECONDS)
    writer.write(connections[ALIAS], "next")  # this thread leads
