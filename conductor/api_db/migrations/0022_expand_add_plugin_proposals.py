import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0021_expand_add_cell_quarantine"),
    ]

    operations = [
        migrations.CreateModel(
            name="PluginProposal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("changes", models.JSONField(default=dict)),
                ("question", models.TextField(default="")),
                ("reason", models.CharField(max_length=255)),
                ("by_id", models.CharField(max_length=64)),
                ("by_name", models.CharField(default="", max_length=255)),
                ("created_at", models.DateTimeField()),
                ("state", models.CharField(db_index=True, default="open", max_length=16)),
                ("decided_by", models.CharField(default="", max_length=255)),
                ("decided_at", models.DateTimeField(null=True)),
                ("answer", models.CharField(default="", max_length=255)),
            ],
        ),
    ]
