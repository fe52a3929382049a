from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0012_expand_add_subscriptions"),
    ]

    operations = [
        migrations.CreateModel(
            name="TriageSnooze",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=300, unique=True)),
                ("reason", models.CharField(max_length=255)),
                ("until", models.DateTimeField(db_index=True)),
                ("level", models.PositiveSmallIntegerField()),
                ("hurt", models.PositiveIntegerField()),
                ("user_id", models.CharField(max_length=64)),
                ("user_name", models.CharField(default="", max_length=255)),
                ("created_at", models.DateTimeField()),
            ],
        ),
    ]
