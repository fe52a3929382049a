"""Group commit of writers on one SQLite file: they share a commit, and one's failure does not affect the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from django.db import OperationalError, transaction

from conductor.core.errors import Conflict
from conductor.core.request_priority import for_request
from conductor.db import group_commit
from conductor.db.group_commit import WriteLock, write_lock_of
from conductor.db.transactions import bare_tx, database_now, is_serialization_failure, write_tx
from conductor.journal.models import StepRecord
from tests.gathering import ALIAS, assert_write_lock_is_free, closing, emit, emitted, emitting, together
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(autouse=True)
def commits(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Returns other connections' view of the log before each group commit; a slow machine commits no earlier."""
    seen: list[list[str]] = []
    commit = WriteLock.commit

    def noted(write_lock: WriteLock) -> None:
        if write_lock.open is not None:
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(closing(emitted)).result(WAIT_SECONDS))
        commit(write_lock)

    monkeypatch.setattr(WriteLock, "commit", noted)
    monkeypatch.setattr(group_commit, "LONGEST_OPEN_SECONDS", 3600.0)
    monkeypatch.setattr(group_commit, "ALONE_SECONDS", 3600.0)
    monkeypatch.setattr(write_lock_of(ALIAS), "_alone_until", 0.0)  # restored for later tests
    return seen


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def failing() -> None:
    with write_tx(ALIAS):
        emit("undone")
        transaction.on_commit(lambda: emit("never"), using=ALIAS)
        raise Conflict("as asked")


def giving_up() -> None:
    with write_tx(ALIAS):
        emit("given up")
        transaction.set_rollback(True, using=ALIAS)


def breaking_a_constraint() -> None:
    """Break a constraint that is checked at the commit."""
    with write_tx(ALIAS):
        StepRecord.objects.using(ALIAS).create(
            run_id=0,
            index=0,
            direction="do",
            attempt=1,
            name="x",
            step_key="x",
            fencing_token=1,
            started_at=database_now(),
        )


def by_hand() -> None:
    with bare_tx(ALIAS):
        emit("by hand")


def test_concurrent_writers_share_one_commit_and_continue_after_it(
    pool: ThreadPoolExecutor, commits: list[list[str]]
) -> None:
    for future in together(pool, *(emitting(f"{number}") for number in range(5)), by_hand):
        future.result(WAIT_SECONDS)
    assert commits == [[]]  # one commit, and nothing was seen before
    assert emitted() == ["first", "0", "1", "2", "3", "4", "by hand"]
    assert_write_lock_is_free()


def test_a_failed_writer_rolls_back_only_its_own_changes(pool: ThreadPoolExecutor, commits: list[list[str]]) -> None:
    one, fails, gives_up, two, last = together(pool, emitting("one"), failing, giving_up, emitting("two"), failing)
    for future in (fails, last):
        with pytest.raises(Conflict):
            future.result(WAIT_SECONDS)
    for future in (one, gives_up, two):
        future.result(WAIT_SECONDS)
    assert (commits, emitted()) == ([[]], ["first", "one", "two"])
    assert_write_lock_is_free()


def test_a_failed_group_commit_fails_for_all_writers_and_can_be_retried(pool: ThreadPoolExecutor) -> None:
    with pytest.raises(OperationalError) as mine:
        together(pool, emitting("one"), breaking_a_constraint)
    assert is_serialization_failure(mine.value)
    assert emitted() == []
    assert_write_lock_is_free()
    futures = [pool.submit(closing(write)) for write in (emitting("again"), breaking_a_constraint, emitting("too"))]
    assert [type(future.exception(WAIT_SECONDS)).__name__ for future in futures] == [
        "NoneType",
        "IntegrityError",
        "NoneType",
    ]
    assert sorted(emitted()) == ["again", "too"]  # each writer by itself for a while


def test_a_writer_inside_another_transaction_does_not_join_a_group_commit(
    pool: ThreadPoolExecutor, commits: list[list[str]]
) -> None:
    with transaction.atomic(using="default"):
        (future,) = together(pool, emitting("one"))
        assert emitted()[0] == "first"
    future.result(WAIT_SECONDS)
    assert len(commits) == 3  # two of this file, and the one of the other transaction


def test_an_old_transaction_is_not_left_open(
    pool: ThreadPoolExecutor, commits: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_OPEN_SECONDS", 0.0)
    for future in together(pool, emitting("one"), emitting("two")):
        future.result(WAIT_SECONDS)
    assert commits == [[], ["first"], ["first", "one"]]


def test_a_writer_that_waits_too_long_gets_an_error(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_WAIT_SECONDS", 0.05)
    with write_tx(ALIAS):
        with pytest.raises(OperationalError, match="not to be written to"):
            pool.submit(closing(emitting("late"))).result(WAIT_SECONDS)
        emit("first")
    assert emitted() == ["first"]
    assert_write_lock_is_free()


def test_requests_go_before_the_background_which_gets_every_fourth_turn() -> None:
    write_lock, served, lock = WriteLock(), [], threading.Lock()

    def write(name: str) -> None:
        with for_request() if name == "request" else nullcontext():
            write_lock.enter()
        with lock:
            served.append(name)
        write_lock.leave()

    write_lock.enter()
    threads = []
    for name in ["background"] * 3 + ["request"] * 8:
        threads.append(threading.Thread(target=write, args=(name,)))
        threads[-1].start()
        wait_until("it waits", lambda: len(write_lock._queue) == len(threads), pause=0.001)
    write_lock.leave()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert served == ["request"] * 3 + ["background"] + ["request"] * 3 + ["background"] + ["request"] * 2 + [
        "background"
    ]


def test_a_request_that_gives_up_waiting_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_WAIT_SECONDS", 0.05)
    write_lock = WriteLock()
    write_lock.enter()

    def write() -> None:
        with for_request(), pytest.raises(OperationalError):
            write_lock.enter()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(WAIT_SECONDS)
    assert len(write_lock._queue) == 0
    write_lock.leave()
    write_lock.enter()  # it is free again
    write_lock.leave()
