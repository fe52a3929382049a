"""The schema migrations say all that the models say, and those that stand for many stand for all of them."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from conductor.management.databases import migrate_all
from conductor.services import readiness

DISK = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
SQUASHED = sorted(key for key in DISK if key[1].startswith("0001_squashed"))


def test_no_migration_is_missing(databases: None) -> None:
    told = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=told, stderr=told)
        is_complete = True
    except SystemExit:
        is_complete = False
    assert is_complete, told.getvalue()


@pytest.mark.parametrize("key", SQUASHED)
def test_one_migration_stands_for_all_up_to_its_number(key: tuple[str, str]) -> None:
    app, name = key
    last = name.removeprefix("0001_squashed_")
    steps = [other for other in DISK if other[0] == app and other[1] != name and other[1][:4] <= last]
    assert sorted(DISK[key].replaces) == sorted(steps)


def test_databases_that_came_step_by_step_are_ready(databases: None) -> None:
    assert readiness.missing() == {}, "what tests begin with is not at the newest schema"
    MigrationRecorder.Migration.objects.filter(name__startswith="0001_squashed").delete()
    assert set(readiness.missing()) == {"default"}
    migrate_all()
    assert readiness.missing() == {}
