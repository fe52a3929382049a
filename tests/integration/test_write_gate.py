"""Writers of one SQLite file that come together share a commit, and nobody suffers for another."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, transaction

from conductor import write_gate
from conductor.core.errors import Conflict
from conductor.journal.models import StepRecord
from conductor.transactions import bare_tx, database_now, has_crossed, write_tx
from conductor.write_gate import Gate, gate_of
from tests.counting import counted
from tests.gathering import ALIAS, assert_gate_is_free, closing, tell, telling, together, told

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(autouse=True)
def commits(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What others see of the log before each commit at the gate; a slow machine commits no earlier."""
    seen: list[list[str]] = []
    commit = Gate.commit

    def noted(gate: Gate) -> None:
        if gate.open is not None:
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(closing(told)).result(30))
        commit(gate)

    monkeypatch.setattr(Gate, "commit", noted)
    monkeypatch.setattr(write_gate, "LONGEST_OPEN_SECONDS", 60.0)
    monkeypatch.setattr(write_gate, "ALONE_SECONDS", 60.0)
    monkeypatch.setattr(gate_of(ALIAS), "_alone_until", 0.0)  # and as it was, for whoever comes after
    return seen


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def failing() -> None:
    with write_tx(ALIAS):
        tell("undone")
        transaction.on_commit(lambda: tell("never"), using=ALIAS)
        raise Conflict("as asked")


def giving_up() -> None:
    with write_tx(ALIAS):
        tell("given up")
        transaction.set_rollback(True, using=ALIAS)


def breaking_a_constraint() -> None:
    """Of those that are asked at the commit."""
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
        tell("by hand")


def test_who_comes_together_shares_one_commit_and_goes_on_after_it(
    pool: ThreadPoolExecutor, commits: list[list[str]]
) -> None:
    for future in together(pool, *(telling(f"{number}") for number in range(5)), by_hand):
        future.result(30)
    assert commits == [[]]  # one commit, and nothing was seen before
    assert told() == ["first", "0", "1", "2", "3", "4", "by hand"]
    assert_gate_is_free()


def test_who_fails_takes_back_his_own_part_alone(pool: ThreadPoolExecutor, commits: list[list[str]]) -> None:
    one, fails, gives_up, two, last = together(pool, telling("one"), failing, giving_up, telling("two"), failing)
    for future in (fails, last):
        with pytest.raises(Conflict):
            future.result(30)
    for future in (one, gives_up, two):
        future.result(30)
    assert (commits, told()) == ([[]], ["first", "one", "two"])
    assert_gate_is_free()


def test_a_commit_that_fails_is_nobodys_and_may_be_done_again(pool: ThreadPoolExecutor) -> None:
    with pytest.raises(OperationalError) as mine:
        together(pool, telling("one"), breaking_a_constraint)
    assert has_crossed(mine.value)
    assert told() == []
    assert_gate_is_free()
    futures = [pool.submit(closing(write)) for write in (telling("again"), breaking_a_constraint, telling("too"))]
    assert [type(future.exception(30)).__name__ for future in futures] == ["NoneType", "IntegrityError", "NoneType"]
    assert sorted(told()) == ["again", "too"]  # everybody alone, for a while


def test_who_is_in_another_transaction_waits_for_nobodys_commit(
    pool: ThreadPoolExecutor, commits: list[list[str]]
) -> None:
    with transaction.atomic(using="default"):
        (future,) = together(pool, telling("one"))
        assert told()[0] == "first"
    future.result(30)
    assert len(commits) == 2


def test_an_old_transaction_is_left_open_to_nobody(
    pool: ThreadPoolExecutor, commits: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_gate, "LONGEST_OPEN_SECONDS", 0.0)
    for future in together(pool, telling("one"), telling("two")):
        future.result(30)
    assert commits == [[], ["first"], ["first", "one"]]


def test_who_waits_too_long_at_the_gate_is_told(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_gate, "LONGEST_WAIT_SECONDS", 0.05)
    with write_tx(ALIAS):
        with pytest.raises(OperationalError, match="not to be written to"):
            pool.submit(closing(telling("late"))).result(30)
        tell("first")
    assert told() == ["first"]
    assert_gate_is_free()


def test_whose_statements_are_counted_has_a_commit_of_his_own(
    pool: ThreadPoolExecutor, commits: list[list[str]]
) -> None:
    def write() -> None:
        with counted(ALIAS) as seen:
            telling("counted")()
        assert seen.transactions == 1

    for future in together(pool, telling("one"), write, telling("two")):
        future.result(30)
    assert commits == [[], ["first", "one", "counted"]]
    assert told() == ["first", "one", "counted", "two"]
    assert_gate_is_free()
