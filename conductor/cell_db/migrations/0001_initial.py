import uuid

from django.db import migrations, models

import conductor.core.states


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ConsoleLog",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(unique=True)),
                ("offset", models.BigIntegerField(default=0)),
                ("text", models.TextField(default="")),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="InstanceFault",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_uuid", models.UUIDField(db_index=True)),
                ("code", models.PositiveIntegerField(default=500)),
                ("message", models.CharField(max_length=255)),
                ("details", models.TextField(default="")),
                ("decision_uuid", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ComputeNode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("host", models.CharField(db_index=True, max_length=255)),
                ("node", models.CharField(max_length=255)),
                ("driver", models.CharField(max_length=64)),
                ("is_simulated", models.BooleanField(default=False)),
                ("hypervisor_type", models.CharField(max_length=64)),
                ("hypervisor_version", models.PositiveIntegerField(default=0)),
                ("host_ip", models.CharField(default="127.0.0.1", max_length=64)),
                ("report", models.JSONField(default=dict)),
                ("running_guests", models.PositiveIntegerField(default=0)),
                ("change_number", models.BigIntegerField(db_index=True, default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("host", "node"), name="one_node_per_host_and_name")],
            },
        ),
        migrations.CreateModel(
            name="Instance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("hostname", models.CharField(max_length=255)),
                ("description", models.CharField(max_length=255, null=True)),
                ("vm_state", models.CharField(default=conductor.core.states.VmState["BUILDING"], max_length=32)),
                ("task_state", models.CharField(max_length=32, null=True)),
                ("power_state", models.IntegerField(default=conductor.core.states.PowerState["NOSTATE"])),
                ("host", models.CharField(db_index=True, max_length=255, null=True)),
                ("node", models.CharField(max_length=255, null=True)),
                ("availability_zone", models.CharField(default="", max_length=255)),
                ("pinned_availability_zone", models.CharField(default="", max_length=255)),
                ("flavor", models.JSONField()),
                ("image", models.JSONField()),
                ("networks", models.JSONField(default=list)),
                ("addresses", models.JSONField(default=list)),
                ("metadata", models.JSONField(default=dict)),
                ("tags", models.JSONField(default=list)),
                ("scheduler_hints", models.JSONField(default=dict)),
                ("security_groups", models.JSONField(default=list)),
                ("key_name", models.CharField(max_length=255, null=True)),
                ("public_key", models.TextField(default="")),
                ("user_data", models.TextField(null=True)),
                ("config_drive", models.CharField(default="", max_length=8)),
                ("disk_config", models.CharField(default="MANUAL", max_length=8)),
                ("access_ip_v4", models.CharField(default="", max_length=64)),
                ("access_ip_v6", models.CharField(default="", max_length=64)),
                ("reservation_id", models.CharField(db_index=True, max_length=32)),
                ("launch_index", models.PositiveIntegerField(default=0)),
                ("is_locked", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
                ("launched_at", models.DateTimeField(null=True)),
                ("terminated_at", models.DateTimeField(null=True)),
                ("deleted_at", models.DateTimeField(db_index=True, null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["project_id", "-created_at", "uuid"], name="instance_list")],
            },
        ),
        migrations.CreateModel(
            name="Service",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("binary", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("availability_zone", models.CharField(default="nova", max_length=255)),
                ("version", models.PositiveIntegerField(default=1)),
                ("is_disabled", models.BooleanField(default=False)),
                ("disabled_reason", models.CharField(max_length=255, null=True)),
                ("is_forced_down", models.BooleanField(default=False)),
                ("is_simulated", models.BooleanField(default=False)),
                ("report_number", models.BigIntegerField(default=0)),
                ("last_seen_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("binary", "host"), name="one_service_per_host")],
            },
        ),
    ]
