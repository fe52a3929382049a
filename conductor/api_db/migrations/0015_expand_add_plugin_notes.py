from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0014_expand_add_quota_requests"),
    ]

    operations = [
        migrations.AddField(
            model_name="pluginmetric",
            name="differed",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="PluginConformance",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=255)),
                ("level", models.CharField(max_length=16)),
                ("distribution", models.CharField(default="", max_length=255)),
                ("version", models.CharField(default="", max_length=64)),
                ("kept", models.PositiveIntegerField(default=0)),
                ("broken", models.JSONField(default=list)),
                ("untried", models.PositiveIntegerField(default=0)),
                ("shown_at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField()),
                ("recorded_by", models.CharField(default="", max_length=255)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "name"), name="one_conformance_per_plugin")],
            },
        ),
        migrations.CreateModel(
            name="PluginNote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=255)),
                ("source", models.CharField(max_length=16)),
                ("level", models.CharField(default="", max_length=16)),
                ("text", models.CharField(max_length=300)),
                ("place", models.CharField(default="", max_length=200)),
                ("times", models.PositiveIntegerField(default=1)),
                ("began_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["kind", "name", "source", "id"], name="plugin_note_of_plugin")],
            },
        ),
    ]
