"""Databases: creates those that a PostgreSQL server does not have yet, and migrates all to the newest schema."""

from __future__ import annotations

import json
from contextlib import closing, suppress

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, ProgrammingError, connections
from django.db.backends.base.base import NO_DB_ALIAS, BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

# Processes that start together must not migrate at the same time; the lock's number is unique within a database.
MIGRATING = 0x4E6F7665
ALWAYS_THERE = ("postgres", "template1")  # databases of each server, as `createdb` tries them
# Lists are merged across databases, so all must sort alike, and as SQLite does: by code point.
COLLATIONS = ("C", "POSIX", "ucs_basic", "C.UTF-8", "C.utf8")


def migrate_all() -> None:
    """Migrate the databases that need it, one after another: Django's migration state is global to the process."""
    for alias in settings.DATABASES:
        connection = connections[alias]
        if connection.vendor == "postgresql":
            _migrate_alone(alias, connection)
        else:
            _migrate(alias, connection)


def create_missing() -> list[str]:
    """Create the missing PostgreSQL databases; returns their names. Raises CommandError with the fix."""
    made = []
    for alias in settings.DATABASES:
        connection = connections[alias]
        if connection.vendor == "postgresql" and _create(connection):
            made.append(str(connection.settings_dict["NAME"]))
    return made


def _migrate(alias: str, connection: BaseDatabaseWrapper) -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", database=alias, verbosity=0)
    else:
        executor.check_replacements()  # a squashed migration is recorded once all that it replaces are


def _migrate_alone(alias: str, connection: BaseDatabaseWrapper) -> None:
    _require_collation(alias, connection)
    with connection.cursor() as cursor:
        # Changing a large table may take longer than any request may.
        cursor.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
        try:
            _migrate(alias, connection)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATING])
            cursor.execute("RESET statement_timeout; RESET lock_timeout")


def _require_collation(alias: str, connection: BaseDatabaseWrapper) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_jsonb(pg_database) FROM pg_database WHERE datname = current_database()")
            ((row,),) = cursor.fetchall()
    except OperationalError as error:
        raise _refused(alias, connection, error) from None
    found = json.loads(row)  # the whole row: its columns depend on the server's version
    own = found.get("datlocale") or found.get("daticulocale")
    collation = own if found.get("datlocprovider", "c") != "c" and own else found["datcollate"]
    if collation not in COLLATIONS:
        name = connection.settings_dict["NAME"]
        raise CommandError(
            f"The database {name} sorts by {collation}, so lists of several cells could not be merged. Create it with: "
            f"{_creation(str(name))}"
        )


def _create(connection: BaseDatabaseWrapper) -> bool:
    name = str(connection.settings_dict["NAME"])
    try:
        with closing(_server_of(connection)) as server, server.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if cursor.fetchone():
                return False
            try:
                cursor.execute(_creation(name))
            except ProgrammingError as error:
                if _sqlstate(error) == "42P04":  # another process created it meanwhile
                    return False
                raise CommandError(
                    f"The database {name} is missing and this role may not make it. As the server's administrator: "
                    f"{_creation(name)}"
                ) from None
    except OperationalError as error:
        raise _refused(connection.alias, connection, error) from None
    return True


def _server_of(connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Connect to the server, while the database itself may be missing. Raises OperationalError."""
    *first, last = (
        type(connection)({**connection.settings_dict, "NAME": name}, alias=NO_DB_ALIAS) for name in ALWAYS_THERE
    )
    for server in first:
        with suppress(OperationalError):
            server.ensure_connection()
            return server
    last.ensure_connection()
    return last


def _creation(name: str) -> str:
    # The name is an operator's, of letters, digits and _ only: portal/database_urls.py ensures that.
    return f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"


def _sqlstate(error: DatabaseError) -> str:
    return str(getattr(error.__cause__, "sqlstate", "") or "")


def _refused(alias: str, connection: BaseDatabaseWrapper, error: DatabaseError) -> CommandError:
    """Return an error with the server's message, which names address, role and database, never the password."""
    words = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
    place = connection.settings_dict
    variable = "NOVELLA_DATABASE_URL"
    return CommandError(f"{variable}: no connection to {place['NAME']} on {place['HOST']}:{place['PORT']}: {words}")
