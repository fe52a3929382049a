"""The index of names, which models cannot describe: it needs an extension of PostgreSQL."""

from typing import Any

# It is part of PostgreSQL's own packages; a server may lack it, and a role the right to add it.
CAN_HAVE_TRIGRAMS = (
    "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm' "
    "AND (installed_version IS NOT NULL OR has_database_privilege(current_database(), 'CREATE'))"
)


def create_name_index(apps: Any, schema_editor: Any) -> None:
    """Index parts of names: lists search for a part in any case. Without it, they read all names of the project."""
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(CAN_HAVE_TRIGRAMS)
        if cursor.fetchone() is None:
            return
    schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm", None)
    schema_editor.execute(
        "CREATE INDEX instance_names ON cell_db_instance USING gin (upper(name) gin_trgm_ops) WHERE deleted_at IS NULL",
        None,
    )
