import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("image", "0001_initial"),
        ("image", "0002_expand_add_members"),
        ("image", "0003_expand_catalogs"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Image",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("status", models.CharField(default="queued", max_length=16)),
                ("visibility", models.CharField(default="shared", max_length=16)),
                ("disk_format", models.CharField(max_length=16, null=True)),
                ("container_format", models.CharField(max_length=16, null=True)),
                ("size", models.BigIntegerField(null=True)),
                ("virtual_size", models.BigIntegerField(null=True)),
                ("checksum", models.CharField(max_length=32, null=True)),
                ("os_hash_value", models.CharField(max_length=128, null=True)),
                ("min_disk_gb", models.PositiveIntegerField(default=0)),
                ("min_ram_mb", models.PositiveIntegerField(default=0)),
                ("is_protected", models.BooleanField(default=False)),
                ("is_hidden", models.BooleanField(default=False)),
                ("is_simulated", models.BooleanField(default=False)),
                ("tags", models.JSONField(default=list)),
                ("properties", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
                ("deleted_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Namespace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80, unique=True)),
                ("display_name", models.CharField(max_length=80, null=True)),
                ("description", models.CharField(max_length=500, null=True)),
                ("visibility", models.CharField(default="private", max_length=16)),
                ("is_protected", models.BooleanField(default=False)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("created_at", models.DateTimeField(db_index=True)),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ImageMember",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("status", models.CharField(default="pending", max_length=16)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "image",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="image.image"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("image", "project_id"), name="image_member_once")],
            },
        ),
        migrations.CreateModel(
            name="Definition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=80)),
                ("body", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "namespace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="definitions", to="image.namespace"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("namespace", "kind", "name"), name="definition_once")],
            },
        ),
    ]
