from typing import Any

from django.db import migrations

from conductor.journal.event_order import CREATE_FUNCTIONS


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


class Migration(migrations.Migration):
    dependencies = [("journal", "0003_expand_add_foreign_holders_and_secrets")]

    operations = [migrations.RunPython(number_by_function, migrations.RunPython.noop)]
