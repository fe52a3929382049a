"""What this machine's disk allows: durable one-row commits per second on one connection."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path


def commits_per_second(directory: Path, seconds: float = 2.0) -> float:
    """Commits of one updated row per second, with the product's own pragmas (WAL, synchronous=FULL)."""
    connection = sqlite3.connect(directory / "commit-limit.sqlite3", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.execute("CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, value INTEGER)")
    connection.execute("INSERT OR REPLACE INTO counter VALUES (1, 0)")
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE counter SET value = value + 1 WHERE id = 1")
        connection.execute("COMMIT")
        done += 1
    rate = done / (time.perf_counter() - began)
    connection.close()
    return rate


def postgresql_commits_per_second(url: str, seconds: float = 2.0) -> float:
    """The same on a PostgreSQL server: an UPDATE that commits by itself, one round trip each."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS commit_limit (id INTEGER PRIMARY KEY, value INTEGER)")
        connection.execute("INSERT INTO commit_limit VALUES (1, 0) ON CONFLICT (id) DO NOTHING")
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            connection.execute("UPDATE commit_limit SET value = value + 1 WHERE id = 1")
            done += 1
        return done / (time.perf_counter() - began)
