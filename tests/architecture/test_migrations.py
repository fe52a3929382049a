"""The schema migrations are up to date with the models."""

from __future__ import annotations

import io

from django.core.management import call_command


def test_no_migration_is_missing(databases: None) -> None:
    reported = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=reported, stderr=reported)
        is_complete = True
    except SystemExit:
        is_complete = False
    assert is_complete, reported.getvalue()
