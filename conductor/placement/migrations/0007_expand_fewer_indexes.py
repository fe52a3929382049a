"""Every index costs each claim: two go that others stand in for."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("placement", "0006_expand_fill_consumer_types")]

    operations = [
        migrations.AddIndex("consumer", models.Index(fields=["project_id"], name="consumers_by_project")),
        migrations.AlterField("consumer", "project_id", models.CharField(max_length=64)),
        migrations.AlterField(
            "allocation",
            "consumer",
            models.ForeignKey(
                "placement.consumer",
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="allocations",
            ),
        ),
    ]
