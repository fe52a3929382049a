from typing import Any

from django.db import migrations, models

import conductor.journal.event_order

TABLE = "journal_event"
INDEX = "event_order"


def add_index(apps: Any, schema_editor: Any) -> None:
    """Only where places are pairs: elsewhere the key is the order, and an index would cost each write."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"CREATE INDEX IF NOT EXISTS {INDEX} ON {TABLE} (transaction_id, id)")


class Migration(migrations.Migration):
    dependencies = [("journal", "0003_expand_add_foreign_holders_and_secrets")]

    operations = [
        migrations.AddField(
            model_name="event",
            name="transaction_id",
            field=models.BigIntegerField(db_default=conductor.journal.event_order.TransactionId()),
        ),
        migrations.RunPython(add_index, migrations.RunPython.noop),
    ]
