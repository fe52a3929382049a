import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Consumer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("generation", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="ResourceProvider",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("generation", models.BigIntegerField(default=0)),
                ("change_number", models.BigIntegerField(db_index=True, default=0)),
                ("traits", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="Inventory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resource_class", models.CharField(max_length=255)),
                ("total", models.BigIntegerField()),
                ("reserved", models.BigIntegerField(default=0)),
                ("min_unit", models.BigIntegerField(default=1)),
                ("max_unit", models.BigIntegerField(default=2147483647)),
                ("step_size", models.BigIntegerField(default=1)),
                ("allocation_ratio", models.FloatField(default=1.0)),
                ("used", models.BigIntegerField(default=0)),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="inventories",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "resource_class"), name="one_inventory_per_class")
                ],
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resource_class", models.CharField(max_length=255)),
                ("amount", models.BigIntegerField()),
                (
                    "consumer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="allocations", to="placement.consumer"
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("consumer", "provider", "resource_class"), name="one_allocation_per_consumer_and_class"
                    )
                ],
            },
        ),
    ]
