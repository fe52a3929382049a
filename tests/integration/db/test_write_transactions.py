"""Write transactions are Django's, however they begin and end: commits, rollbacks, and on-commit hooks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from django.db import IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError

from conductor import events
from conductor.core.errors import Conflict
from conductor.db.transactions import database_now, savepoint, write_tx
from conductor.journal.models import Event, StepRecord
from tests.counting import counted

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ALIAS = "cell1"


def emit(kind: str) -> None:
    events.append(ALIAS, events.EventSubject("host:a"), kind)


def emitted() -> list[str]:
    return list(Event.objects.using(ALIAS).order_by("pk").values_list("kind", flat=True))


def assert_is_as_before() -> None:
    """Check that nothing of a transaction is left on the connection: the next one writes and commits."""
    connection = connections[ALIAS]
    assert (connection.in_atomic_block, connection.get_autocommit(), connection.atomic_blocks) == (False, True, [])
    assert (connection.needs_rollback, connection.run_on_commit, connection.savepoint_ids) == (False, [], [])
    before = emitted()
    with write_tx(ALIAS):
        emit("next")
    assert emitted() == [*before, "next"]


def test_on_commit_hooks_see_the_commit_and_may_write() -> None:
    seen: list[list[str]] = []

    def follow() -> None:
        assert not connections[ALIAS].in_atomic_block
        seen.append(emitted())
        with write_tx(ALIAS):
            emit("second")

    with write_tx(ALIAS):
        emit("first")
        transaction.on_commit(follow, using=ALIAS)
        assert seen == []
    assert seen == [["first"]]
    assert emitted() == ["first", "second"]
    assert_is_as_before()


def fail() -> None:
    raise Conflict("as asked")


def break_a_constraint() -> None:
    """Break a constraint that is checked at the commit."""
    StepRecord.objects.using(ALIAS).create(
        run_id=0, index=0, direction="do", attempt=1, name="x", step_key="x", fencing_token=1, started_at=database_now()
    )


@pytest.mark.parametrize(("last", "error"), [(fail, Conflict), (break_a_constraint, IntegrityError)])
def test_a_failure_inside_or_at_the_commit_leaves_nothing(last: Callable[[], None], error: type[Exception]) -> None:
    followed: list[str] = []

    def write() -> None:
        with write_tx(ALIAS):
            emit("undone")
            transaction.on_commit(lambda: followed.append("undone"), using=ALIAS)
            last()

    with pytest.raises(error):
        write()
    assert (emitted(), followed) == ([], [])
    assert_is_as_before()


def emit_and_fail() -> None:
    with savepoint(ALIAS):
        emit("undone")
        fail()


def test_a_savepoint_is_rolled_back_alone() -> None:
    with write_tx(ALIAS):
        emit("kept")
        with pytest.raises(Conflict):
            emit_and_fail()
        with write_tx(ALIAS):
            emit("inside")
    assert emitted() == ["kept", "inside"]
    assert_is_as_before()


def test_a_rolled_back_transaction_ends_without_an_error_or_a_trace() -> None:
    with write_tx(ALIAS):
        emit("undone")
        transaction.set_rollback(True, using=ALIAS)
        with pytest.raises(TransactionManagementError):
            emitted()
    assert emitted() == []
    assert_is_as_before()


def test_calls_begun_while_counting_is_off_may_end_while_it_is_on() -> None:
    with write_tx(ALIAS):
        emit("first")
        tail = ExitStack()
        seen = tail.enter_context(counted(ALIAS))
    tail.close()
    assert (emitted(), seen.transactions) == (["first"], 1)
    assert_is_as_before()
    with counted(ALIAS), write_tx(ALIAS):
        emit("counted from within")
    assert_is_as_before()
