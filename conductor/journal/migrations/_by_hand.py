"""Parts of the journal schema that models cannot describe: triggers, functions and partial indexes."""

from typing import Any

# The upper bits of the keys of the locks of writers of events, see `conductor.journal.event_order`; the lower 40 are a
# number of the log.
WRITING = 7002
NUMBER_BITS = 40

# A transaction records its start once: the setting ends with it, as the lock does, even
# when only a savepoint is rolled back.
CREATE_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION journal_event_newest() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM journal_event_id_seq
$$;
CREATE OR REPLACE FUNCTION journal_event_number() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF coalesce(current_setting('novella.writes_events', true), '') = '' THEN
        PERFORM pg_advisory_xact_lock_shared(({WRITING}::bigint << {NUMBER_BITS}) | journal_event_newest());
        PERFORM set_config('novella.writes_events', 'yes', true);
    END IF;
    RETURN nextval('journal_event_id_seq');
END $$;
CREATE OR REPLACE FUNCTION journal_event_settled() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    newest bigint := journal_event_newest();  -- first: who locks after we look takes numbers above this one
    lowest bigint;
BEGIN
    SELECT min(((classid::bigint << 32) | objid::bigint) & ((1::bigint << {NUMBER_BITS}) - 1)) INTO lowest
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> {NUMBER_BITS - 32} = {WRITING}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(newest, lowest);
END $$;
"""

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
