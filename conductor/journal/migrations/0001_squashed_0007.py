import uuid

import django.db.models.deletion
from django.db import migrations, models

import conductor.core.states
from conductor.journal.migrations._by_hand import drop_idle, number_by_function


class Migration(migrations.Migration):
    replaces = [
        ("journal", "0001_initial"),
        ("journal", "0002_expand_add_audit_and_orders"),
        ("journal", "0003_expand_add_foreign_holders_and_secrets"),
        ("journal", "0004_expand_add_event_order"),
        ("journal", "0005_expand_add_notifications"),
        ("journal", "0006_expand_add_duties"),
        ("journal", "0007_expand_drop_idle_indexes"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("action", models.CharField(db_index=True, max_length=64)),
                ("result", models.CharField(max_length=16)),
                ("user_id", models.CharField(db_index=True, max_length=64)),
                ("user_name", models.CharField(default="", max_length=255)),
                ("asker_project_id", models.CharField(default="", max_length=64)),
                ("on_behalf_of", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, default="", max_length=64)),
                ("run_uuid", models.UUIDField(db_index=True, null=True)),
                ("instance_uuid", models.UUIDField(db_index=True, null=True)),
                ("reason", models.CharField(default="", max_length=255)),
                ("error", models.JSONField(null=True)),
                ("details", models.JSONField(default=dict)),
                ("request_id", models.CharField(default="", max_length=64)),
                ("remote_address", models.CharField(default="", max_length=64)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="Duty",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True)),
                ("owner", models.CharField(default="", max_length=64)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("done_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic", models.CharField(db_index=True, max_length=128)),
                ("kind", models.CharField(max_length=64)),
                ("run_uuid", models.UUIDField(db_index=True, null=True)),
                ("instance_uuid", models.UUIDField(null=True)),
                ("project_id", models.CharField(default="", max_length=64)),
                ("data", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ForeignFence",
            fields=[
                ("run_uuid", models.UUIDField(primary_key=True, serialize=False)),
                ("fencing_token", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="NotificationDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sink", models.CharField(max_length=128)),
                ("message_id", models.UUIDField(db_index=True)),
                ("event_type", models.CharField(max_length=128)),
                ("outcome", models.CharField(max_length=16)),
                ("detail", models.CharField(default="", max_length=255)),
                ("tried_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="NotificationPlace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sink", models.CharField(max_length=128, unique=True)),
                ("reached", models.BigIntegerField()),
                ("owner", models.CharField(max_length=64, null=True)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField()),
                ("last_error", models.CharField(default="", max_length=255)),
            ],
        ),
        migrations.CreateModel(
            name="OutboxMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step_key", models.CharField(max_length=128, unique=True)),
                ("run_uuid", models.UUIDField(db_index=True)),
                ("queue", models.CharField(max_length=64)),
                ("host", models.CharField(db_index=True, max_length=255)),
                ("body", models.JSONField()),
                ("is_owed", models.BooleanField(default=False)),
                ("send_again_at", models.DateTimeField(db_index=True)),
                ("times_sent", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("flow", models.CharField(max_length=64)),
                ("flow_version", models.PositiveIntegerField(default=0)),
                ("action", models.CharField(max_length=64)),
                ("state", models.CharField(default=conductor.core.states.RunState["QUEUED"], max_length=24)),
                ("queue", models.CharField(max_length=64)),
                ("instance_uuid", models.UUIDField(db_index=True, null=True)),
                ("instance_name", models.CharField(default="", max_length=255)),
                ("parent_uuid", models.UUIDField(db_index=True, null=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("user_name", models.CharField(default="", max_length=255)),
                ("request_id", models.CharField(db_index=True, max_length=64)),
                ("context", models.JSONField(default=dict)),
                ("inputs", models.JSONField(default=dict)),
                ("secrets", models.JSONField(db_default={}, default=dict)),
                ("resources", models.JSONField(default=list, null=True)),
                ("variables", models.JSONField(default=dict)),
                ("plan", models.JSONField(default=list)),
                ("position", models.PositiveIntegerField(default=0)),
                ("direction", models.CharField(default="do", max_length=4)),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("owner", models.CharField(max_length=64, null=True)),
                ("fencing_token", models.BigIntegerField(default=0)),
                ("lease_expires_at", models.DateTimeField(null=True)),
                ("wake_at", models.DateTimeField()),
                ("waits_for", models.JSONField(null=True)),
                ("is_cancellable", models.BooleanField(db_default=True, default=True)),
                ("is_cancel_requested", models.BooleanField(default=False)),
                ("cancel_reason", models.CharField(default="", max_length=255)),
                ("orders", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("leftovers", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["state", "wake_at"], name="run_due")],
            },
        ),
        migrations.CreateModel(
            name="ResourceLock",
            fields=[
                ("resource", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("holder_uuid", models.UUIDField(db_index=True, null=True)),
                ("holder_alias", models.CharField(default="", max_length=64)),
                ("holder_action", models.CharField(default="", max_length=64)),
                ("granted_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="locks",
                        to="journal.workflowrun",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LeaseGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.CharField(max_length=64)),
                ("reason", models.CharField(max_length=64)),
                ("granted_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="journal.workflowrun"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StepRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                ("direction", models.CharField(default="do", max_length=4)),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("try_number", models.PositiveIntegerField(default=1)),
                ("name", models.CharField(max_length=64)),
                ("state", models.CharField(default=conductor.core.states.StepState["RUNNING"], max_length=16)),
                ("host", models.CharField(default="", max_length=255)),
                ("worker", models.CharField(default="", max_length=64)),
                ("step_key", models.CharField(max_length=128, unique=True)),
                ("fencing_token", models.BigIntegerField()),
                ("result", models.JSONField(null=True)),
                ("answer", models.JSONField(null=True)),
                ("progress", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="journal.workflowrun",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "direction", "index", "attempt", "try_number"), name="one_record_per_try"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LockWait",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resource", models.CharField(db_index=True, max_length=128)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lock_waits", to="journal.workflowrun"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("resource", "run"), name="one_wait_per_run_and_resource")
                ],
            },
        ),
        migrations.RunPython(number_by_function, migrations.RunPython.noop),
        migrations.RunPython(drop_idle, migrations.RunPython.noop),
    ]
