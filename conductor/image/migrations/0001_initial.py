import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
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
    ]
