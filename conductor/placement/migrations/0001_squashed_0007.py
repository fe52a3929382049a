import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("placement", "0001_initial"),
        ("placement", "0002_expand_change_counter"),
        ("placement", "0003_expand_trees_traits_and_aggregates"),
        ("placement", "0004_expand_add_reported_traits"),
        ("placement", "0005_expand_hardware"),
        ("placement", "0006_expand_fill_consumer_types"),
        ("placement", "0007_expand_fewer_indexes"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ChangeCounter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("epoch", models.UUIDField(default=uuid.uuid4)),
                ("number", models.BigIntegerField(default=0)),
                ("removed_number", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="ResourceClass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="Trait",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="Consumer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(unique=True)),
                ("project_id", models.CharField(max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("generation", models.BigIntegerField(default=0)),
                ("consumer_type", models.CharField(max_length=255, null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["project_id"], name="consumers_by_project")],
            },
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
                ("reported_traits", models.JSONField(default=list)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="placement.resourceprovider",
                    ),
                ),
                (
                    "root",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="tree",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="HostHardware",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cells", models.JSONField(default=list)),
                ("devices", models.JSONField(default=list)),
                (
                    "provider",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hardware",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProviderTrait",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(db_index=True, max_length=255)),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trait_links",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("provider", "name"), name="trait_once_per_provider")],
            },
        ),
        migrations.CreateModel(
            name="ProviderAggregate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("aggregate_uuid", models.UUIDField(db_index=True)),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="aggregate_links",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "aggregate_uuid"), name="provider_once_per_aggregate")
                ],
            },
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
                    models.UniqueConstraint(fields=("provider", "resource_class"), name="one_inventory_per_class"),
                    models.CheckConstraint(condition=models.Q(("used__gte", 0)), name="no_negative_use"),
                ],
            },
        ),
        migrations.CreateModel(
            name="HardwareClaim",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("grant", models.JSONField()),
                (
                    "consumer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hardware_claims",
                        to="placement.consumer",
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hardware_claims",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("consumer", "provider"), name="one_hardware_claim_per_consumer_and_host"
                    )
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
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allocations",
                        to="placement.consumer",
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
