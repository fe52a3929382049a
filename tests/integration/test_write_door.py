"""Several processes that write to one SQLite file take turns: none is refused, and who dies is waited for by nobody."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing as closed
from pathlib import Path

import pytest
from django.db import OperationalError, transaction

from conductor import write_door
from conductor.transactions import bare_tx, write_tx
from conductor.write_door import Door
from tests.gathering import ALIAS, Write, assert_gate_is_free, closing, path, tell, telling, told

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
PROCESSES, WRITERS, WRITES = 3, 4, 25

# SQLite's own lock is not waited for here: without a turn of his own a writer is refused at once. So nobody may come
# late: who opens a file first looks whether its log is whole, under that lock and outside the door.
WRITING = f"""
import sys, threading, django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from django.db import connections
from conductor.sql.dialect import run
from conductor.transactions import bare_tx

together = threading.Barrier({WRITERS} + 1, timeout=60)

def write():
    connection = connections["default"]
    run(connection, "SELECT count FROM counter", ())
    run(connection, "PRAGMA busy_timeout = 0", ())
    together.wait()
    together.wait()
    for _ in range({WRITES}):
        with bare_tx("default"):
            [(before,)] = run(connection, "SELECT count FROM counter", ())
            run(connection, "UPDATE counter SET count = %s", (before + 1,))
    connections.close_all()

with ThreadPoolExecutor({WRITERS}) as pool:
    writing = [pool.submit(write) for _ in range({WRITERS})]
    together.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    together.wait()
    for future in writing:
        future.result()
"""
DYING = """
import os, sys, django
django.setup()
from django.db import connections
from conductor.sql.dialect import run
from conductor.transactions import bare_tx
with bare_tx("default"):
    run(connections["default"], "UPDATE counter SET count = 1000", ())
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def another() -> Iterator[Door]:
    """The lock as another process has it."""
    door = Door()
    yield door
    door.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with closed(sqlite3.connect(tmp_path / "api.sqlite3")) as connection, connection:
        # As migrating leaves it: of several who would change the mode at once, SQLite refuses all but one.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE counter (count INTEGER)")
        connection.execute("INSERT INTO counter VALUES (0)")
    return tmp_path


def begun(script: str, data: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"NOVELLA_DATA": str(data), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def counted(data: Path) -> int:
    with closed(sqlite3.connect(data / "api.sqlite3")) as connection:
        return int(connection.execute("SELECT count FROM counter").fetchone()[0])


def test_of_writers_in_several_processes_none_is_refused_and_no_write_is_lost(data: Path) -> None:
    processes = [begun(WRITING, data) for _ in range(PROCESSES)]
    for process in processes:
        await_ready(process)
    for process in processes:
        go_on(process)
    assert [process.wait(120) for process in processes] == [0] * PROCESSES
    assert counted(data) == PROCESSES * WRITERS * WRITES


def test_who_dies_while_he_writes_is_waited_for_by_nobody(data: Path) -> None:
    dying, writing = begun(DYING, data), begun(WRITING, data)
    await_ready(dying)
    await_ready(writing)
    go_on(writing)
    dying.send_signal(signal.SIGKILL)
    assert (dying.wait(60), writing.wait(120)) == (-signal.SIGKILL, 0)
    assert counted(data) == WRITERS * WRITES


def in_djangos() -> None:
    with transaction.atomic(using=ALIAS), write_tx(ALIAS):
        tell("written")


def bare() -> None:
    with bare_tx(ALIAS):
        pass


@pytest.mark.parametrize("write", [telling("written"), in_djangos, bare])
def test_whoever_writes_waits_until_the_other_process_is_done(write: Write, another: Door) -> None:
    another.lock(path())
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(closing(write))
        assert not future.done()
        assert told() == []
        another.unlock()
        future.result(30)
    assert told() == ([] if write is bare else ["written"])
    assert_gate_is_free()


@pytest.mark.parametrize("write", [telling("late"), in_djangos, bare])
def test_who_waits_too_long_is_told_and_has_written_nothing(
    write: Write, another: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_door, "LONGEST_WAIT_SECONDS", 0.02)
    another.lock(path())
    with pytest.raises(OperationalError, match="another process has been writing to it"):
        write()
    another.unlock()
    assert told() == []
    assert_gate_is_free()
    telling("later")()
    assert told() == ["later"]


def test_in_memory_there_is_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another: Door) -> None:
    monkeypatch.chdir(tmp_path)
    another.lock("file:memory?mode=memory&cache=shared")
    another.unlock()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_took_the_place_of_another_has_a_door_of_its_own(tmp_path: Path, another: Door) -> None:
    for name in ("one", "two"):
        another.lock(str(tmp_path / name))
        another.unlock()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one-door", "two-door"]
