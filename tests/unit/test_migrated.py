"""Databases that are kept for other runs of the tests are those of this state of the project, and made by one."""

from __future__ import annotations

import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import migrated
from tests.waiting import WAIT_SECONDS

MIGRATION = "conductor/api_db/migrations/0001_initial.py"
IMPORT = re.compile(r"^(?:import|from) ((?:conductor|portal)[\w.]*)(?: import ([\w, ]+))?", re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path in (MIGRATION, "conductor/core/states.py", "conductor/core/faults.py", "portal/settings.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    return tmp_path


def test_the_key_is_of_all_that_decides(project: Path) -> None:
    first = migrated.key(project, "3.40")
    assert migrated.key(project, "3.40") == first
    keys = {first, migrated.key(project, "3.41")}
    (project / MIGRATION).write_text("# another field\n")
    keys.add(migrated.key(project, "3.40"))
    (project / MIGRATION).rename(project / "conductor/api_db/migrations/0002_later.py")
    keys.add(migrated.key(project, "3.40"))
    (project / "portal/settings.py").write_text("CELLS = ('cell1', 'cell2', 'cell3')\n")
    keys.add(last := migrated.key(project, "3.40"))
    assert len(keys) == 5
    (project / "conductor/core/faults.py").write_text("# says nothing of databases\n")
    assert migrated.key(project, "3.40") == last


def test_modules_imported_by_migrations_are_part_of_the_key() -> None:
    sources = {path for pattern in migrated.SOURCES for path in migrated.PROJECT.glob(pattern)}
    migrations = [path for path in sources if path.parent.name == "migrations"]
    assert len(migrations) >= 8
    for path in migrations:
        for module, _ in IMPORT.findall(path.read_text()):
            place = migrated.PROJECT / module.replace(".", "/")
            assert {place.with_suffix(".py"), place / "__init__.py"} & sources, f"{path.name} imports {module}"


def test_one_makes_it_and_all_have_a_copy(tmp_path: Path) -> None:
    together = threading.Barrier(4)
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        (folder / "api").write_text("new")

    def run(number: int) -> str:
        target = tmp_path / str(number)
        together.wait(timeout=WAIT_SECONDS)
        migrated.provide(tmp_path / "cache", "sqlite-1", make, target)
        (target / "own").touch()
        return (target / "api").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4), timeout=WAIT_SECONDS)) == ["new"] * 4
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "cache/sqlite-1").iterdir()] == ["api"]


def test_outdated_databases_are_created_anew_and_removed(tmp_path: Path) -> None:
    def make(message: str) -> migrated.Make:
        def made(folder: Path) -> None:
            folder.mkdir()
            (folder / "api").write_text(message)

        return made

    cache = tmp_path / "cache"
    for name, message in (("sqlite-1", "old"), ("postgresql-1", "another kind"), ("sqlite-2", "new")):
        migrated.provide(cache, name, make(message), tmp_path / name)
        assert (tmp_path / name / "api").read_text() == message
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == ["postgresql-1", "sqlite-2"]


def test_an_incomplete_database_is_never_copied(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "api").write_text("half")
        raise RuntimeError("no space left")

    def make(folder: Path) -> None:
        shutil.copytree(tmp_path / "whole", folder)

    (tmp_path / "whole").mkdir()
    with pytest.raises(RuntimeError):
        migrated.provide(tmp_path / "cache", "sqlite-1", fail, tmp_path / "target")
    assert not (tmp_path / "target").exists()
    migrated.provide(tmp_path / "cache", "sqlite-1", make, tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []
