"""Each claim paid for rows that were looked up although the writer holds them, and for indexes that nobody asks."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("placement", "0007_expand_fewer_indexes")]

    operations = [
        migrations.AlterField(
            "allocation",
            "consumer",
            models.ForeignKey(
                "placement.consumer",
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="allocations",
            ),
        ),
        migrations.AlterField(
            "allocation",
            "provider",
            models.ForeignKey(
                "placement.resourceprovider",
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
            ),
        ),
        migrations.AlterField(
            "inventory",
            "provider",
            models.ForeignKey(
                "placement.resourceprovider",
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="inventories",
            ),
        ),
        migrations.AlterField("resourceprovider", "name", models.CharField(max_length=255)),
        migrations.AddConstraint(
            "resourceprovider", models.UniqueConstraint(fields=["name"], name="one_provider_per_name")
        ),
    ]
