"""One connection of a process writes to a SQLite file, whichever thread has its turn; each reads through its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from conductor import transactions
from conductor.journal.models import Duty
from conductor.sql import dialect
from conductor.transactions import bare_tx, write_tx

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
ALIAS = "cell1"


def driver() -> Any:
    connections[ALIAS].ensure_connection()
    return connections[ALIAS].connection


def insert(name: str) -> Any:
    """Write a row; the connection that wrote it."""
    text = "INSERT INTO journal_duty (name, owner, done_at) VALUES (%s, %s, {now})"
    dialect.run(connections[ALIAS], text, (name, "ana"))
    return driver()


def note(name: str, scope: AbstractContextManager[None] | None = None) -> Any:
    with scope or write_tx(ALIAS):
        return insert(name)


def fail(scope: AbstractContextManager[None], then: Callable[[], object] = lambda: None) -> None:
    """Write a row in vain."""
    with pytest.raises(KeyError), scope:  # noqa: PT012 - it is what happens at its end that counts
        insert("in vain")
        then()
        raise KeyError


def noted() -> list[str]:
    return list(Duty.objects.using(ALIAS).order_by("name").values_list("name", flat=True))


def test_threads_write_through_one_connection_and_read_through_their_own() -> None:
    own, used = driver(), []

    def work() -> None:
        mine = driver()
        used.extend([note("b"), note("c", bare_tx(ALIAS))])
        assert driver() is mine
        used.append(mine)
        connections.close_all()

    used.append(note("a"))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=30)
    first, second, third, others = used
    assert first is second is third
    assert len({id(own), id(first), id(others)}) == 3
    assert driver() is own
    assert noted() == ["a", "b", "c"]


@pytest.mark.parametrize("scope", [write_tx, bare_tx])
def test_what_fails_is_undone_and_the_next_goes_on(scope: Any) -> None:
    own, writer = driver(), note("a")
    fail(scope(ALIAS))
    assert driver() is own
    assert note("b") is writer
    assert noted() == ["a", "b"]


def test_a_writer_that_was_closed_is_opened_again() -> None:
    note("a")
    fail(write_tx(ALIAS), connections[ALIAS].close)
    assert note("b") is note("c")
    assert noted() == ["a", "b", "c"]


def test_a_transaction_that_was_not_ended_takes_its_connection_along() -> None:
    own, writer = driver(), note("a")
    fail(transactions._writers[ALIAS].lent(connections[ALIAS]), lambda: driver().execute("BEGIN IMMEDIATE"))
    assert driver() is own
    assert note("b") is not writer


def test_the_writer_follows_to_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note("a")
    other = str(tmp_path / "other.sqlite3")
    driver().execute("VACUUM INTO ?", (other,))
    connections[ALIAS].close()
    with monkeypatch.context() as patched:
        patched.setitem(connections[ALIAS].settings_dict, "NAME", other)
        note("b")
        assert noted() == ["a", "b"]
        connections[ALIAS].close()
    note("c")
    assert noted() == ["a", "c"]


def test_a_fork_has_writers_of_its_own() -> None:
    note("a")
    pid = os.fork()
    if not pid:
        os._exit(len(transactions._writers))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert transactions._writers
