"""The commands of the guide to backups, run beside a process that writes."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conductor.compute.host_journal import HostJournal
from tests.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "upgrade-and-back-up.md"
DATABASES, JOURNAL, RESTORE = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NAMES = ("api", "cell0", "cell1", "cell2")
WRITER = """
import sqlite3, sys
databases = [sqlite3.connect(f"var/{name}.sqlite3", isolation_level=None) for name in sys.argv[1:]]
for sql in databases:
    sql.execute("PRAGMA journal_mode=WAL")
    sql.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)")
for number in range(1, 1_000_000):
    for sql in databases:
        sql.execute("INSERT INTO notes VALUES (?, ?)", (number, "x" * 1000))
    print(number, flush=True)
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["sh", "-e", "-c", script]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "var").mkdir()
    return tmp_path


@pytest.fixture
def writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes numbered rows to all databases; it has written some."""
    words = [sys.executable, "-c", WRITER, *NAMES]
    with (folder / "written").open("w") as output:
        process = subprocess.Popen(words, cwd=folder, stdout=output, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait(60)


def numbers_in(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [number for (number,) in sql.execute("SELECT id FROM notes ORDER BY id")]


def written(folder: Path) -> int:
    lines = (folder / "written").read_text().split("\n")[:-1]
    return int(lines[-1]) if lines else 0


def wait_for_rows(folder: Path, process: subprocess.Popen[str], count: int) -> None:
    wait_until(f"{count} rows", lambda: process.poll() is not None or written(folder) >= count)
    assert process.poll() is None


def test_databases_are_copied_while_they_are_written(folder: Path, writer: subprocess.Popen[str]) -> None:
    wait_for_rows(folder, writer, 50)
    before = written(folder)
    done = run(DATABASES, folder)
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        copy = folder / "copies" / f"{name}.sqlite3"
        found = numbers_in(copy)
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= before
        assert copy.stat().st_mode & 0o777 == 0o600
    assert "output file already exists" in run(DATABASES, folder).stderr
    wait_for_rows(folder, writer, written(folder) + 10)  # the writer is not disturbed
    writer.kill()
    writer.wait(60)
    last = written(folder)
    assert numbers_in(folder / "var" / "api.sqlite3")[:last] == list(range(1, last + 1))


def test_a_copy_is_put_in_place(folder: Path, writer: subprocess.Popen[str]) -> None:
    wait_for_rows(folder, writer, 20)
    assert run(DATABASES, folder).returncode == 0
    copied = numbers_in(folder / "copies" / "api.sqlite3")
    writer.kill()
    writer.wait(60)
    assert (folder / "var" / "api.sqlite3-wal").exists()
    assert run(RESTORE, folder).returncode == 0
    assert numbers_in(folder / "var" / "api.sqlite3") == copied


def test_a_journal_is_copied_once_its_agent_has_ended(folder: Path) -> None:
    path = folder / "var" / "agents" / "host-1.sqlite3"
    with closing(HostJournal(path)) as journal:
        number = journal.next_report_number()
        done = run(JOURNAL.replace(", 30)", ", 1)"), folder)
        assert "database is locked" in done.stderr
    done = run(JOURNAL, folder)
    assert (done.returncode, done.stderr) == (0, "")
    with closing(HostJournal(folder / "copies" / "agents" / "host-1.sqlite3")) as copy:
        assert copy.next_report_number() > number
