"""Commit limit of this machine's disk: durable one-row commits per second on one connection."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path


def commits_per_second(directory: Path, seconds: float = 2.0) -> float:
    """Return commits of one updated row per second, with the product's own pragmas (WAL, synchronous=FULL)."""
    with closing(_open(directory / "commit-limit.sqlite3")) as connection:
        connection.execute("INSERT OR REPLACE INTO counter VALUES (1, 0)")
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            _commit_one(connection, 1)
            done += 1
        return done / (time.perf_counter() - began)


def crowded_commits_per_second(directory: Path, connections: int, seconds: float = 2.0) -> float:
    """Return the commits per second on several connections, each with a row of its own; writers wait for each other."""
    path = directory / "crowded-commit-limit.sqlite3"
    with closing(_open(path)) as first:
        first.executemany("INSERT OR REPLACE INTO counter VALUES (?, 0)", [(number,) for number in range(connections)])
    end = time.perf_counter() + seconds

    def commit(number: int) -> int:
        done = 0
        with closing(_open(path)) as connection:
            while time.perf_counter() < end:
                _commit_one(connection, number)
                done += 1
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(connections) as threads:
        done = sum(threads.map(commit, range(connections)))
    return done / (time.perf_counter() - began)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.execute("CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, value INTEGER)")
    return connection


def _commit_one(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE counter SET value = value + 1 WHERE id = ?", (number,))
    connection.execute("COMMIT")


def postgresql_commits_per_second(url: str, seconds: float = 2.0) -> float:
    """Return the commits per second on a PostgreSQL server: an autocommitted UPDATE, one round trip each."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS commit_limit (id INTEGER PRIMARY KEY, value INTEGER)")
        connection.execute("INSERT INTO commit_limit VALUES (1, 0) ON CONFLICT (id) DO NOTHING")
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            connection.execute("UPDATE commit_limit SET value = value + 1 WHERE id = 1")
            done += 1
        return done / (time.perf_counter() - began)
