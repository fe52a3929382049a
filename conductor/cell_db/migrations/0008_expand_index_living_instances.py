from typing import Any

from django.db import migrations, models


def drop_times_of_deletion(apps: Any, schema_editor: Any) -> None:
    """By hand: on SQLite an AlterField copies the whole table."""
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "cell_db_instance")
    for name, what in found.items():
        if what["index"] and not what["unique"] and what["columns"] == ["deleted_at"] and name != "instance_gone":
            schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(name)}", None)


class Migration(migrations.Migration):
    dependencies = [("cell_db", "0007_expand_add_console_doors")]

    operations = [
        migrations.AddIndex(
            "instance",
            models.Index(
                condition=models.Q(deleted_at__isnull=True), fields=["-created_at", "uuid"], name="instance_alive"
            ),
        ),
        migrations.AddIndex(
            "instance",
            models.Index(condition=models.Q(deleted_at__isnull=False), fields=["deleted_at"], name="instance_gone"),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop_times_of_deletion, migrations.RunPython.noop)],
            state_operations=[migrations.AlterField("instance", "deleted_at", models.DateTimeField(null=True))],
        ),
    ]
