"""The host's journal: a file that keeps commands and answers, so that no command acts twice or when it is stale."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from conductor.core.errors import Unavailable
from conductor.rpc.codec import encode

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
KEEP_ANSWERS_SECONDS = 86_400.0
# Reports are numbered from the epoch's first number on. Epochs are at least the clock's milliseconds, so that no
# restart is early enough to reuse a number.
NUMBERS_PER_EPOCH = 1 << 16

SCHEMA = """
CREATE TABLE commands (
    step_key TEXT PRIMARY KEY, instance_uuid TEXT NOT NULL, fencing_token INTEGER NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL, state TEXT NOT NULL, answer TEXT, received_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX commands_received ON commands (received_at);
CREATE TABLE tokens (instance_uuid TEXT PRIMARY KEY, highest_token INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL);
"""


class JournalUnusable(Unavailable):
    """The journal of the host cannot be used."""


class HostCommand(Protocol):
    """The fields of every command to a host."""

    UNKEPT: ClassVar[frozenset[str]]
    IS_URGENT: ClassVar[bool]

    @property
    def step_key(self) -> str: ...
    @property
    def fencing_token(self) -> int: ...
    @property
    def instance_uuid(self) -> str: ...


class CommandDecision(Enum):
    """Kind of decision on a received command."""

    RUN = "run"
    BUSY = "busy"  # it is being carried out and will be answered
    ANSWERED = "answered"
    REFUSED = "refused"  # a newer token was seen for its instance


@dataclass(frozen=True, slots=True)
class JournalDecision:
    """The decision, with the kept answer where there is one."""

    decision: CommandDecision
    answer: Mapping[str, Any] | None = None


class HostJournal:
    """One local SQLite file, held by one process at a time. Safe to share between threads.

    Raises JournalUnusable when the file cannot be opened, is damaged, belongs to a newer release or to another
    process that is alive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._in_progress: set[str] = set()
        self._reports = 0
        try:
            self._connection = _open(path)
            self._epoch = self._begin_epoch()
        except (OSError, sqlite3.Error) as error:
            raise JournalUnusable(_advice(path, error)) from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def begin(self, command: HostCommand) -> JournalDecision:
        """Decide about a command and record it before it is carried out, in one durable transaction.

        After RUN the caller must call `finish` or `abandon`. Raises sqlite3.Error, and then nothing was decided.
        """
        with self._lock:
            with self._transaction() as sql:
                outcome = self._decide(sql, command)
            if outcome.decision is CommandDecision.RUN:
                self._in_progress.add(command.step_key)
            return outcome

    def _decide(self, sql: sqlite3.Connection, command: HostCommand) -> JournalDecision:
        row = sql.execute("SELECT answer FROM commands WHERE step_key = ?", (command.step_key,)).fetchone()
        if row and row[0] is not None:
            return JournalDecision(CommandDecision.ANSWERED, json.loads(row[0]))
        if self._highest(command.instance_uuid) > command.fencing_token:
            return JournalDecision(CommandDecision.REFUSED)
        if command.step_key in self._in_progress:
            return JournalDecision(CommandDecision.BUSY)
        self._remember(sql, command)
        return JournalDecision(CommandDecision.RUN)

    def finish(self, step_key: str, answer: Mapping[str, Any]) -> None:
        """Store the answer of a command. A repeated command gets the same answer."""
        with self._lock:
            with self._transaction() as sql:
                sql.execute(
                    "UPDATE commands SET state = 'answered', answer = ? WHERE step_key = ?",
                    (json.dumps(answer), step_key),
                )
            self._in_progress.discard(step_key)

    def abandon(self, step_key: str) -> None:
        """End a command without an answer; a repeated command runs again."""
        with self._lock:
            self._in_progress.discard(step_key)

    def is_stale(self, command: HostCommand) -> bool:
        """Return whether a newer token than the command's was seen for its instance."""
        with self._lock:
            return self._highest(command.instance_uuid) > command.fencing_token

    def next_report_number(self) -> int:
        """Return a number that grows with every report of this host, across restarts too."""
        with self._lock:
            self._reports += 1
            return self._epoch * NUMBERS_PER_EPOCH + self._reports

    def prune(self, older_than_seconds: float = KEEP_ANSWERS_SECONDS) -> int:
        """Delete old commands that are not being carried out and return their number. Tokens are never deleted."""
        with self._lock, self._transaction() as sql:
            old = sql.execute(
                "SELECT step_key FROM commands WHERE received_at < ?", (time.time() - older_than_seconds,)
            )
            keys = [key for (key,) in old if key not in self._in_progress]
            sql.executemany("DELETE FROM commands WHERE step_key = ?", [(key,) for key in keys])
            return len(keys)

    def _highest(self, instance_uuid: str) -> int:
        row = self._connection.execute(
            "SELECT highest_token FROM tokens WHERE instance_uuid = ?", (instance_uuid,)
        ).fetchone()
        return int(row[0]) if row else -1

    def _remember(self, sql: sqlite3.Connection, command: HostCommand) -> None:
        # Without secrets: a repeated command carries them again.
        wire = encode(command)
        body = {name: value for name, value in wire["body"].items() if name not in command.UNKEPT}
        sql.execute(
            "INSERT INTO commands VALUES (?, ?, ?, ?, ?, 'received', NULL, ?)"
            " ON CONFLICT (step_key) DO UPDATE SET fencing_token = excluded.fencing_token",
            (
                command.step_key,
                command.instance_uuid,
                command.fencing_token,
                wire["message"],
                json.dumps(body),
                time.time(),
            ),
        )
        if command.IS_URGENT:  # it changes a command that is running, and must not make that stale
            return
        sql.execute(
            "INSERT INTO tokens VALUES (?, ?)"
            " ON CONFLICT (instance_uuid) DO UPDATE SET highest_token = excluded.highest_token",
            (command.instance_uuid, command.fencing_token),
        )

    def _begin_epoch(self) -> int:
        """Return the next epoch. The clock is its minimum, so that a host that lost its file does not start at one."""
        with self._lock, self._transaction() as sql:
            row = sql.execute("SELECT number FROM epochs").fetchone()
            epoch = max((row[0] if row else 0) + 1, time.time_ns() // 1_000_000)
            sql.execute("INSERT OR REPLACE INTO epochs VALUES (1, ?)", (epoch,))
        return epoch

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction for the block. The caller holds the lock."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # Not by opening it: closing a descriptor would drop the locks of an agent of this process that holds the file.
        os.mknod(path, 0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        # EXCLUSIVE: two agents must not use one file. The kernel releases the lock when the process ends.
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "journal_size_limit=4194304"):
            connection.execute(f"PRAGMA {pragma}")
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"it was written by a newer release (schema {version})")
        if version < SCHEMA_VERSION:
            connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _advice(path: Path, error: Exception) -> str:
    if "locked" in str(error):
        return f"Host journal {path}: another agent that is alive holds it. Stop that one first."
    return (
        f"Host journal {path}: {error}. Mend the file's rights or bring it back from a copy; if you move it away, "
        "an empty one is begun and the host no longer knows which commands are out of date."
    )


class CommandAttempts:
    """Counts how often the agent's process ended during a command, so that no driver ends it for ever.

    Each command that is being carried out has a plain file in `folder`, which outlives a killed process and needs no
    fsync.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.stat().st_mtime < time.time() - KEEP_ANSWERS_SECONDS:  # its command was never repeated
                    path.unlink()

    def begin(self, step_key: str) -> int:
        """Return how often the process ended during this command so far; 0 where the file cannot be used."""
        path, ended = self._path(step_key), 0
        try:
            if path.exists():
                ended = int(path.read_text() or 0)
            path.write_text(str(ended + 1))
        except (OSError, ValueError) as error:
            log.warning("attempts cannot be counted: %s: %s", type(error).__name__, error)
        return ended

    def end(self, step_key: str) -> None:
        """Forget the command: the process has survived it."""
        with suppress(OSError):
            self._path(step_key).unlink(missing_ok=True)

    def _path(self, step_key: str) -> Path:
        return self._folder / quote(step_key, safe="")
