from typing import Any

import django.db.models.deletion
from django.db import migrations, models

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


class Migration(migrations.Migration):
    dependencies = [("journal", "0006_expand_add_duties")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop_idle, migrations.RunPython.noop)],
            state_operations=[
                migrations.AlterField("event", "instance_uuid", models.UUIDField(null=True)),
                migrations.AlterField("event", "project_id", models.CharField(default="", max_length=64)),
                migrations.AlterField(
                    "steprecord",
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="journal.workflowrun",
                    ),
                ),
                migrations.AlterField("workflowrun", "owner", models.CharField(max_length=64, null=True)),
                migrations.AlterField("workflowrun", "wake_at", models.DateTimeField()),
            ],
        )
    ]
