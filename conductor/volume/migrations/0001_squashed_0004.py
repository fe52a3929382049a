import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("volume", "0001_initial"),
        ("volume", "0002_expand_sources"),
        ("volume", "0003_expand_types_snapshots_and_more"),
        ("volume", "0004_expand_snapshot_progress"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="GroupType",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("description", models.CharField(max_length=255, null=True)),
                ("is_public", models.BooleanField(default=True)),
                ("specs", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("request_id", models.CharField(max_length=64)),
                ("event_id", models.CharField(max_length=64)),
                ("resource_type", models.CharField(max_length=32)),
                ("resource_uuid", models.UUIDField(null=True)),
                ("level", models.CharField(default="ERROR", max_length=16)),
                ("text", models.CharField(max_length=255)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="QosSpec",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("consumer", models.CharField(default="back-end", max_length=16)),
                ("specs", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="Volume",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(max_length=255, null=True)),
                ("size_gb", models.PositiveIntegerField()),
                ("status", models.CharField(max_length=32)),
                ("availability_zone", models.CharField(default="nova", max_length=255)),
                ("is_bootable", models.BooleanField(default=False)),
                ("metadata", models.JSONField(default=dict)),
                ("image_metadata", models.JSONField(default=dict)),
                ("source_kind", models.CharField(default="", max_length=16)),
                ("source_uuid", models.UUIDField(null=True)),
                ("is_multiattach", models.BooleanField(default=False)),
                ("is_readonly", models.BooleanField(null=True)),
                ("status_is_told", models.BooleanField(default=False)),
                ("group_uuid", models.UUIDField(db_index=True, null=True)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Transfer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, null=True)),
                ("salt", models.CharField(max_length=32)),
                ("key_hash", models.CharField(max_length=64)),
                ("with_snapshots", models.BooleanField(default=True)),
                ("source_project_id", models.CharField(db_index=True, max_length=64)),
                ("destination_project_id", models.CharField(max_length=64, null=True)),
                ("is_accepted", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_index=True)),
                (
                    "volume",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="transfers", to="volume.volume"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Snapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(max_length=255, null=True)),
                ("size_gb", models.PositiveIntegerField()),
                ("status", models.CharField(max_length=32)),
                ("progress", models.CharField(default="", max_length=8)),
                ("status_is_told", models.BooleanField(default=False)),
                ("metadata", models.JSONField(default=dict)),
                ("group_snapshot_uuid", models.UUIDField(db_index=True, null=True)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
                (
                    "volume",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="snapshots", to="volume.volume"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="VolumeAttachment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("instance_uuid", models.UUIDField(db_index=True, null=True)),
                ("host", models.CharField(default="", max_length=255)),
                ("device", models.CharField(max_length=64)),
                ("attached_at", models.DateTimeField(null=True)),
                ("status", models.CharField(default="in-use", max_length=16)),
                ("mode", models.CharField(default="rw", max_length=2)),
                ("connector", models.JSONField(null=True)),
                (
                    "volume",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attachments", to="volume.volume"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="VolumeGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255, null=True)),
                ("description", models.CharField(max_length=255, null=True)),
                ("status", models.CharField(max_length=32)),
                ("volume_types", models.JSONField(default=list)),
                ("availability_zone", models.CharField(default="nova", max_length=255)),
                ("source_group_uuid", models.UUIDField(null=True)),
                ("source_snapshot_uuid", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("group_type", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="volume.grouptype")),
            ],
        ),
        migrations.CreateModel(
            name="GroupSnapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255, null=True)),
                ("description", models.CharField(max_length=255, null=True)),
                ("status", models.CharField(max_length=32)),
                ("created_at", models.DateTimeField(db_index=True)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_snapshots",
                        to="volume.volumegroup",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="VolumeQuotaClass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("resource", models.CharField(max_length=300)),
                ("limit", models.IntegerField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("name", "resource"), name="volume_class_limit_once")],
            },
        ),
        migrations.CreateModel(
            name="VolumeService",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("binary", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("is_disabled", models.BooleanField(default=False)),
                ("disabled_reason", models.CharField(max_length=255, null=True)),
                ("is_frozen", models.BooleanField(default=False)),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("binary", "host"), name="volume_service_once")],
            },
        ),
        migrations.CreateModel(
            name="VolumeType",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255, unique=True)),
                ("description", models.CharField(max_length=255, null=True)),
                ("is_public", models.BooleanField(default=True)),
                ("extra_specs", models.JSONField(default=dict)),
                ("encryption", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
                (
                    "qos_spec",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="types",
                        to="volume.qosspec",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="volume",
            name="volume_type",
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="volume.volumetype"),
        ),
        migrations.CreateModel(
            name="TypeAccess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                (
                    "type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="accesses", to="volume.volumetype"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("type", "project_id"), name="volume_type_access_once")],
            },
        ),
    ]
