"""What the schema of the journal needs beyond what its models say."""

from typing import Any

from conductor.journal.event_order import CREATE_FUNCTIONS

# Nothing is searched by these alone: the first column of another index serves, or the number that a reader stands at.
IDLE = {
    "journal_event": ("instance_uuid", "project_id"),
    "journal_steprecord": ("run_id",),
    "journal_workflowrun": ("owner", "wake_at"),
}
# PostgreSQL has another index of each text beside it, for searches by its beginning.
PREFIXES = {
    "journal_event": ("topic", "project_id"),
    "journal_steprecord": ("step_key",),
    "journal_workflowrun": ("owner", "project_id", "request_id"),
}


def number_by_function(apps: Any, schema_editor: Any) -> None:
    """Only where commits may overtake each other. The numbers given so far stay, and those to come go on from them."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for statement in (
        "ALTER TABLE journal_event ALTER COLUMN id DROP IDENTITY IF EXISTS",
        "CREATE SEQUENCE IF NOT EXISTS journal_event_id_seq OWNED BY journal_event.id",
        "SELECT setval('journal_event_id_seq', max(id)) FROM journal_event HAVING max(id) IS NOT NULL",
        CREATE_FUNCTIONS,
        "ALTER TABLE journal_event ALTER COLUMN id SET DEFAULT journal_event_number()",
    ):
        schema_editor.execute(statement, None)


def drop_idle(apps: Any, schema_editor: Any) -> None:
    """By hand: on SQLite an AlterField copies the whole table, and the journal is the largest there is."""
    connection = schema_editor.connection
    for table in IDLE:
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, table)
        for name, what in found.items():
            if is_idle(table, name, what):
                schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(name)}", None)


def is_idle(table: str, name: str, what: dict[str, Any]) -> bool:
    if not what["index"] or what["unique"] or len(what["columns"]) != 1:
        return False
    (column,) = what["columns"]
    return column in IDLE[table] or (name.endswith("_like") and column in PREFIXES[table])
