"""Django's DATABASES: SQLite files in the data folder, or PostgreSQL databases, with the same code for both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from portal.database_urls import DatabaseUrl
from portal.environment import Environment

# The first argument of these programs is a command.
PROGRAMS = ("manage.py", "novella")
# A request that waits longer than this for a row lock fails with 503 instead of holding a thread. A transaction takes
# milliseconds, so only a fault waits this long. It also ends deadlocks between databases, which no server detects.
SERVER_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "30s",
    "client_connection_check_interval": "2s",  # a client that was killed while it waits releases its locks
    "search_path": "public",
}
# A process that freezes inside of a transaction keeps its row locks at most as long as its lease, the time after which
# other processes take over from a process that freezes outside of one. The minimum is what a busy machine may take
# between two statements.
LONGEST_IDLE_SECONDS = 30.0
SHORTEST_IDLE_SECONDS = 5.0
CACHED_STATEMENTS = 1024  # of SQLite, per connection
# A lost connection is noticed within some ten seconds, on both sides of a write.
NETWORK = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def databases(environment: Environment) -> dict[str, dict[str, Any]]:
    """Return every database by its alias: the API's, cell0 and the cells."""
    names = {"default": "api", "cell0": "cell0", **{cell: cell for cell in environment.cells}}
    return {alias: _database(environment, name) for alias, name in names.items()}


def _database(environment: Environment, name: str) -> dict[str, Any]:
    url = environment.database_of(name)
    return _sqlite(environment.data_dir, name) if url is None else _postgresql(url, environment.lease_seconds)


def _sqlite(data_dir: Path, name: str) -> dict[str, Any]:
    # IMMEDIATE: a transaction that reads and then writes must not lose its snapshot to another writer.
    # FULL: a change that was answered with 2xx survives a power cut, not only a killed process.
    # A write-ahead log of 4,000 pages is checkpointed less often than one of the default 1,000, and readers still find
    # its pages in a single table.
    # MEMORY: savepoints are kept in memory, not in a file that is created and deleted each time.
    # Each savepoint has a name of its own and so two statements that never come again. The driver's default cache of
    # 128 statements would lose the frequent ones to them, which would be compiled again each time.
    pragmas = (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000; "
        "PRAGMA journal_size_limit=27000000; PRAGMA temp_store=MEMORY;"
    )
    return {
        "ENGINE": "conductor.db.sqlite3",
        "NAME": data_dir / f"{name}.sqlite3",
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": pragmas,
            "cached_statements": CACHED_STATEMENTS,
        },
    }


def _postgresql(url: DatabaseUrl, lease_seconds: float) -> dict[str, Any]:
    idle_seconds = min(max(lease_seconds, SHORTEST_IDLE_SECONDS), LONGEST_IDLE_SECONDS)
    limits = {**SERVER_SETTINGS, "idle_in_transaction_session_timeout": f"{idle_seconds * 1000:.0f}ms"}
    return {
        "ENGINE": "conductor.db.postgresql",
        "NAME": url.name,
        "USER": url.user,
        "PASSWORD": url.password,
        "HOST": url.host,
        "PORT": str(url.port),
        "CONN_MAX_AGE": 0,  # the engine keeps idle connections for the whole process
        "OPTIONS": {
            **NETWORK,
            "application_name": f"novella {_role()}",
            "options": " ".join(f"-c {name}={value}" for name, value in limits.items()),
            **dict(url.parameters),
        },
    }


def _role() -> str:
    """Return the role of this process for `pg_stat_activity`: "web", "conductor", "up"."""
    return sys.argv[1] if len(sys.argv) > 1 and Path(sys.argv[0]).name in PROGRAMS else Path(sys.argv[0]).stem
