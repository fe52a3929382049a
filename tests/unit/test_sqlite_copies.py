"""Copies of databases that are open: complete, consistent, and without an effect on the locks of their holder."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conductor.compute.host_journal import HostJournal
from tests.sqlite_copies import content_of, copy_of

WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "some.sqlite3"


@pytest.fixture
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE notes (note TEXT)")
        yield connection


def refusal_of_a_writer(path: Path) -> str:
    """Return the error of another process that begins to write."""
    words = [sys.executable, "-c", WRITE, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stderr


def test_a_copy_has_what_is_committed_and_the_writer_keeps_its_lock(
    open_database: sqlite3.Connection, path: Path, tmp_path: Path
) -> None:
    open_database.execute("INSERT INTO notes VALUES ('committed')")
    open_database.execute("BEGIN IMMEDIATE")
    open_database.execute("INSERT INTO notes VALUES ('not yet')")
    for _ in range(2):  # a second copy replaces the first
        with closing(sqlite3.connect(copy_of(path, tmp_path / "copy"))) as copy:
            assert copy.execute("SELECT note FROM notes").fetchall() == [("committed",)]
    assert "database is locked" in refusal_of_a_writer(path)
    open_database.execute("COMMIT")
    assert refusal_of_a_writer(path) == ""


@pytest.mark.parametrize("secure_delete", [0, 1])
def test_deleted_data_are_found(
    open_database: sqlite3.Connection, path: Path, tmp_path: Path, secure_delete: int
) -> None:
    open_database.execute(f"PRAGMA secure_delete={secure_delete}")
    assert b"correct horse" not in content_of(path, tmp_path / "copy")
    open_database.execute("INSERT INTO notes VALUES ('correct horse battery')")
    open_database.execute("DELETE FROM notes")
    assert b"correct horse" in content_of(path, tmp_path / "copy")


def test_a_journal_that_its_agent_holds_is_copied_and_stays_locked(path: Path, tmp_path: Path) -> None:
    with closing(HostJournal(path)) as journal:
        number = journal.next_report_number()
        with closing(sqlite3.connect(copy_of(path, tmp_path / "copy"))) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert copy.execute("SELECT count(*) FROM tokens").fetchall() == [(0,)]
        assert "database is locked" in refusal_of_a_writer(path)
        assert journal.next_report_number() == number + 1


def test_a_missing_database_is_an_error(path: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unable to open database file"):
        copy_of(path, tmp_path / "copy")
    assert not path.exists()
