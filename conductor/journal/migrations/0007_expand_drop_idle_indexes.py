import django.db.models.deletion
from django.db import migrations, models

from conductor.journal.migrations._by_hand import drop_idle


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
