"""Django's DATABASES: SQLite files in the data folder, or databases on PostgreSQL servers; the same code on both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from portal.database_urls import DatabaseUrl
from portal.environment import Environment

# Whoever waits longer than this for a row is told so (503) instead of holding a thread; a transaction takes
# milliseconds, so only a fault waits this long. Between databases nobody detects a deadlock: this ends it.
SERVER_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "30s",
    "client_connection_check_interval": "2s",  # a client that was killed while it waits gives up its locks
    "search_path": "public",
}
# Who freezes inside of a transaction keeps its rows from those who want to go on: no longer than its lease, as
# nobody waits longer for one who froze outside. Not shorter than a busy machine may take between two statements.
LONGEST_IDLE_SECONDS = 30.0
SHORTEST_IDLE_SECONDS = 5.0
# A cut cable is noticed within some ten seconds, on both sides of a write.
NETWORK = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def databases(environment: Environment) -> dict[str, dict[str, Any]]:
    """Every database by its alias: the API's, cell0 and the cells."""
    names = {"default": "api", "cell0": "cell0", **{cell: cell for cell in environment.cells}}
    return {alias: _database(environment, name) for alias, name in names.items()}


def _database(environment: Environment, name: str) -> dict[str, Any]:
    url = environment.database_of(name)
    return _sqlite(environment.data_dir, name) if url is None else _postgresql(url, environment.lease_seconds)


def _sqlite(data_dir: Path, name: str) -> dict[str, Any]:
    # IMMEDIATE: a transaction that reads and then writes must not lose its snapshot to another writer.
    # FULL: what was answered with 2xx survives a power cut, not only a killed process.
    # A write-ahead log of 4,000 pages is moved into the file less often than one of the usual 1,000, and readers still
    # find its pages in a single table.
    # MEMORY: what a savepoint could bring back is kept there, not in a file that is made and deleted each time.
    pragmas = (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000; "
        "PRAGMA journal_size_limit=27000000; PRAGMA temp_store=MEMORY;"
    )
    return {
        "ENGINE": "conductor.sqlite3",
        "NAME": data_dir / f"{name}.sqlite3",
        "CONN_MAX_AGE": None,
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": pragmas},
    }


def _postgresql(url: DatabaseUrl, lease_seconds: float) -> dict[str, Any]:
    idle_seconds = min(max(lease_seconds, SHORTEST_IDLE_SECONDS), LONGEST_IDLE_SECONDS)
    limits = {**SERVER_SETTINGS, "idle_in_transaction_session_timeout": f"{idle_seconds * 1000:.0f}ms"}
    return {
        "ENGINE": "conductor.postgresql",
        "NAME": url.name,
        "USER": url.user,
        "PASSWORD": url.password,
        "HOST": url.host,
        "PORT": str(url.port),
        "CONN_MAX_AGE": 0,  # the engine keeps spare connections for the whole process
        "OPTIONS": {
            **NETWORK,
            "application_name": f"novella {_role()}",
            "options": " ".join(f"-c {name}={value}" for name, value in limits.items()),
            **dict(url.parameters),
        },
    }


def _role() -> str:
    """What this process was started as, for `pg_stat_activity`: "web", "conductor", "up"."""
    return sys.argv[1] if len(sys.argv) > 1 and Path(sys.argv[0]).name == "manage.py" else Path(sys.argv[0]).stem
