import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0018_expand_add_cell_reason"),
    ]

    operations = [
        migrations.AddField(
            model_name="consoletoken",
            name="share_uuid",
            field=models.UUIDField(null=True),
        ),
        migrations.CreateModel(
            name="ConsoleShare",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("instance_uuid", models.UUIDField(db_index=True)),
                ("kind", models.CharField(max_length=16)),
                ("project_id", models.CharField(max_length=64)),
                ("user_id", models.CharField(max_length=64)),
                ("user_name", models.CharField(max_length=255)),
                ("user_project_id", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
    ]
