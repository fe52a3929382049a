"""Databases at the newest schema, made once and copied: running every schema migration costs ten seconds.

    migrated.copy_files(data_dir)                    # SQLite: api.sqlite3, cell0.sqlite3, … into a data folder
    server = migrated.start_server(folder)           # PostgreSQL: a server that holds novella_api, novella_cell0, …

They are made by the product's own commands, kept in a cache folder of the checkout and found again by a key of all
that decides what they look like: what has changed is created anew. The first process creates them while others wait.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.locks import locked
from tests.services import postgresql

PROJECT = Path(__file__).resolve().parents[1]
CACHE = PROJECT / ".pytest_cache" / "migrated"
SECONDS = 300.0
# All that the result depends on: the migrations and what they import, the models (whose permissions are stored, too),
# which databases there are and how they are made, and the libraries' versions.
SOURCES = (
    "conductor/*/migrations/*.py",
    "conductor/*/models.py",
    "conductor/*/models/*.py",
    "conductor/core/states.py",
    "conductor/journal/event_order.py",
    "conductor/cells/router.py",
    "conductor/management/databases.py",
    "conductor/db/postgresql/*.py",
    "conductor/db/triggers.py",
    "portal/settings.py",
    "portal/databases.py",
    "requirements/base.lock",
    "tests/migrated.py",
    "tests/services/postgresql.py",
)
Make = Callable[[Path], None]


def copy_files(data_dir: Path) -> None:
    """Put the SQLite files into a data folder, which may be there already."""
    _copy("sqlite", sqlite3.sqlite_version, _make_files, data_dir)


def start_server(folder: Path, *, is_durable: bool = True) -> postgresql.Service:
    """Return a PostgreSQL server of the caller's own in `folder`, with every database."""
    _copy("postgresql", postgresql.binaries().parent.name, _make_server, folder)
    return postgresql.start_there(folder, is_durable=is_durable)


def key(project: Path, version: str) -> str:
    """Return the key of the databases for this state of the project and this version of the library."""
    seen = hashlib.sha256(version.encode())
    for path in sorted(path for pattern in SOURCES for path in project.glob(pattern)):
        seen.update(f"\n{path.relative_to(project)}\n".encode())
        seen.update(path.read_bytes())
    return seen.hexdigest()[:24]


def _copy(kind: str, version: str, make: Make, target: Path) -> None:
    provide(CACHE, f"{kind}-{key(PROJECT, version)}", make, target)


def provide(cache: Path, name: str, make: Make, target: Path) -> None:
    """Copy what is kept under `name` to `target`; `make` is called first where there is none. Its elders go."""
    kind = name.partition("-")[0]
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{kind}.lock"):
        kept = cache / name
        if not kept.exists():
            for old in cache.glob(f"{kind}-*"):
                shutil.rmtree(old)
            part = cache / f"{kind}-part"  # removes what a process left that died while it created one
            make(part)
            part.rename(kept)
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", f"{kept}/.", str(target)], check=True, timeout=SECONDS)


def _make_files(folder: Path) -> None:
    made = folder.with_name(f"{folder.name}-data")
    shutil.rmtree(made, ignore_errors=True)
    _migrate(NOVELLA_DATA=str(made))
    folder.mkdir()
    for path in made.glob("*.sqlite3"):
        path.rename(folder / path.name)
    assert not list(made.glob("*.sqlite3-*")), "a log was left that belongs to the files"
    shutil.rmtree(made)


def _make_server(folder: Path) -> None:
    server = postgresql.start(folder, is_durable=False)
    data_dir = folder / "var"
    try:
        _migrate(NOVELLA_DATA=str(data_dir), NOVELLA_DATABASE_URL=server.url)
    finally:
        server.stop()
    shutil.rmtree(data_dir)


def _migrate(**variables: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.migrated"],
        env={**inherited, **variables, "DJANGO_SETTINGS_MODULE": "portal.settings"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def main() -> None:
    import django

    django.setup()
    from django.db import connections

    from conductor.management import databases

    databases.create_missing()
    databases.migrate_all()
    connections.close_all()


if __name__ == "__main__":
    main()
