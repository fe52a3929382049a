import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Aggregate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("metadata", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="BuildRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("run_uuid", models.UUIDField(db_index=True)),
                ("instance", models.JSONField()),
                ("is_deleting", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="CellMapping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=64, unique=True)),
                ("is_disabled", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Flavor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("flavor_id", models.CharField(max_length=255, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("vcpus", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("root_gb", models.PositiveIntegerField(default=0)),
                ("ephemeral_gb", models.PositiveIntegerField(default=0)),
                ("swap_mb", models.PositiveIntegerField(default=0)),
                ("is_public", models.BooleanField(default=True)),
                ("is_disabled", models.BooleanField(default=False)),
                ("rxtx_factor", models.FloatField(default=1.0)),
                ("description", models.TextField(null=True)),
                ("extra_specs", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="InstanceGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("policy", models.CharField(max_length=32)),
                ("rules", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="RequestSpecRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(unique=True)),
                ("spec", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="SchedulingDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("step_key", models.CharField(max_length=128, unique=True)),
                ("run_uuid", models.UUIDField(db_index=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("is_successful", models.BooleanField()),
                ("selections", models.JSONField()),
                ("summary", models.JSONField()),
                ("details", models.JSONField()),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="HostMapping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.CharField(max_length=255, unique=True)),
                (
                    "cell",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="hosts", to="api_db.cellmapping"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="InstanceGroupMember",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(unique=True)),
                ("host", models.CharField(default="", max_length=255)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="api_db.instancegroup"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="InstanceMapping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("vcpus", models.PositiveIntegerField(default=0)),
                ("memory_mb", models.PositiveIntegerField(default=0)),
                ("build_run_uuid", models.UUIDField()),
                ("is_deleted", models.BooleanField(db_index=True, default=False)),
                ("created_at", models.DateTimeField()),
                (
                    "cell",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="instances",
                        to="api_db.cellmapping",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="KeyPair",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_id", models.CharField(db_index=True, max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("key_type", models.CharField(default="ssh", max_length=8)),
                ("public_key", models.TextField()),
                ("fingerprint", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user_id", "name"), name="key_name_once_per_user")],
            },
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("resource", models.CharField(max_length=64)),
                ("limit", models.IntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project_id", "resource"), name="one_limit_per_resource")
                ],
            },
        ),
        migrations.CreateModel(
            name="AggregateHost",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.CharField(db_index=True, max_length=255)),
                (
                    "aggregate",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="hosts", to="api_db.aggregate"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("aggregate", "host"), name="host_once_per_aggregate")],
            },
        ),
    ]
