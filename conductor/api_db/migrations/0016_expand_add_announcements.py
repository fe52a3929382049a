import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0015_expand_add_plugin_notes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Announcement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("title", models.CharField(max_length=120)),
                ("text", models.CharField(default="", max_length=1000)),
                ("severity", models.CharField(max_length=16)),
                ("begins_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(null=True)),
                ("author", models.CharField(default="", max_length=255)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["begins_at", "ends_at"], name="announcement_by_time")],
            },
        ),
    ]
