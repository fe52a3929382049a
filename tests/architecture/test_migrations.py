"""The schema migrations say all that the models say."""

from __future__ import annotations

import io

from django.core.management import call_command


def test_no_migration_is_missing(databases: None) -> None:
    told = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=told, stderr=told)
        is_complete = True
    except SystemExit:
        is_complete = False
    assert is_complete, told.getvalue()
