import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("api_db", "0001_initial"),
        ("api_db", "0002_expand_add_flavor_access"),
        ("api_db", "0003_expand_add_leaving_host"),
        ("api_db", "0004_expand_add_findings"),
        ("api_db", "0005_expand_add_host_snapshots"),
        ("api_db", "0006_expand_add_plugin_choices"),
        ("api_db", "0007_expand_date_aggregates"),
        ("api_db", "0008_expand_add_user_quotas"),
        ("api_db", "0009_expand_add_client_requests"),
        ("api_db", "0010_expand_add_console_tokens"),
        ("api_db", "0011_expand_add_saved_views"),
    ]

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
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(null=True)),
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
            name="ClientRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_digest", models.CharField(max_length=64, unique=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("uuid", models.UUIDField(default=uuid.uuid4)),
                ("answer", models.TextField(default="")),
                ("claimed_until", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="ConsoleToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("instance_uuid", models.UUIDField(db_index=True)),
                ("cell", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=16)),
                ("user_id", models.CharField(max_length=64)),
                ("project_id", models.CharField(max_length=64)),
                ("session_key", models.CharField(default="", max_length=64)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
                ("used_at", models.DateTimeField(null=True)),
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
            name="HostSnapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("num_hosts", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
                ("created_at", models.DateTimeField(db_index=True)),
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
            name="PluginChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16, unique=True)),
                ("version", models.PositiveIntegerField(default=0)),
                ("quarantine_number", models.PositiveIntegerField(default=0)),
                ("choice", models.JSONField(default=dict)),
                ("changed_by", models.CharField(default="", max_length=255)),
                ("changed_at", models.DateTimeField(null=True)),
                ("touched_at", models.DateTimeField(null=True)),
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
                ("request", models.JSONField(null=True)),
                ("snapshot_digest", models.CharField(db_default="", default="", max_length=64)),
                ("snapshot_rows", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("kind", models.CharField(max_length=64)),
                ("subject", models.CharField(max_length=255)),
                ("severity", models.CharField(max_length=16)),
                ("cell", models.CharField(default="", max_length=64)),
                ("instance_uuid", models.UUIDField(db_index=True, null=True)),
                ("detail", models.CharField(max_length=1000)),
                ("outcome", models.CharField(default="", max_length=1000)),
                ("times_seen", models.PositiveIntegerField(default=0)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("repaired_at", models.DateTimeField(null=True)),
                ("gone_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["gone_at", "repaired_at", "last_seen_at"], name="finding_open")],
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "subject"), name="one_finding_per_kind_and_subject")
                ],
            },
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
                ("leaving_host", models.CharField(db_default="", default="", max_length=255)),
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
            name="PluginMetric",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=255)),
                ("hour", models.DateTimeField()),
                ("calls", models.BigIntegerField(default=0)),
                ("faults", models.BigIntegerField(default=0)),
                ("overruns", models.BigIntegerField(default=0)),
                ("rejected", models.BigIntegerField(default=0)),
                ("durations", models.JSONField(default=list)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "name", "hour"), name="one_metric_per_plugin_and_hour")
                ],
            },
        ),
        migrations.CreateModel(
            name="PluginQuarantine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=255)),
                ("cause", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=255)),
                ("times", models.PositiveIntegerField(default=0)),
                ("began_at", models.DateTimeField()),
                ("until", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "name"), name="one_quarantine_per_plugin")],
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
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("page", models.CharField(max_length=32)),
                ("user_id", models.CharField(max_length=64)),
                ("project_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(max_length=1000)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user_id", "project_id", "page", "name"), name="one_saved_view_per_name"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UserQuota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=64)),
                ("limit", models.IntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project_id", "user_id", "resource"), name="one_limit_per_user_and_resource"
                    )
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
        migrations.CreateModel(
            name="FlavorAccess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                (
                    "flavor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="access", to="api_db.flavor"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("flavor", "project_id"), name="flavor_access_once")],
            },
        ),
    ]
