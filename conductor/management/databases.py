"""Bringing every database to the newest schema."""

from __future__ import annotations

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor


def migrate_all() -> None:
    """Migrate the databases that need it. One after another: Django's migration state is global to the process."""
    for alias in settings.DATABASES:
        executor = MigrationExecutor(connections[alias])
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", database=alias, verbosity=0)
