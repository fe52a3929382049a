import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0013_expand_add_triage_snoozes"),
    ]

    operations = [
        migrations.CreateModel(
            name="QuotaRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("user_name", models.CharField(default="", max_length=255)),
                ("wanted", models.JSONField(default=dict)),
                ("had", models.JSONField(default=dict)),
                ("reason", models.CharField(max_length=255)),
                ("state", models.CharField(default="open", max_length=16)),
                ("answer", models.CharField(default="", max_length=255)),
                ("decided_by", models.CharField(default="", max_length=255)),
                ("created_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project_id", "created_at"], name="quota_request_of_project"),
                    models.Index(fields=["state", "created_at"], name="quota_request_by_state"),
                ],
            },
        ),
    ]
