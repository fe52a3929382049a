import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0019_expand_add_console_shares"),
    ]

    operations = [
        migrations.CreateModel(
            name="SnapshotSchedule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("user_name", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=16)),
                ("subject_uuid", models.UUIDField(db_index=True)),
                ("subject_name", models.CharField(default="", max_length=255)),
                ("every", models.CharField(max_length=8)),
                ("hours", models.PositiveIntegerField(default=0)),
                ("weekday", models.CharField(default="", max_length=10)),
                ("minute", models.PositiveIntegerField()),
                ("zone", models.CharField(max_length=64)),
                ("keep", models.PositiveIntegerField()),
                ("due_at", models.DateTimeField()),
                ("look_at", models.DateTimeField(db_index=True)),
                ("last_at", models.DateTimeField(null=True)),
                ("run_uuid", models.UUIDField(null=True)),
                ("state", models.CharField(max_length=16)),
                ("words", models.CharField(default="", max_length=255)),
                ("ended_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
        ),
    ]
