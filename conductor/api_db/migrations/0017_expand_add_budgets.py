from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0016_expand_add_announcements"),
    ]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(max_length=64, unique=True)),
                ("amount", models.DecimalField(decimal_places=2, max_digits=14)),
                ("currency", models.CharField(max_length=16)),
                ("thresholds", models.JSONField(default=list)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("set_by", models.CharField(default="", max_length=255)),
                ("updated_at", models.DateTimeField()),
                ("spent", models.DecimalField(decimal_places=4, default=0, max_digits=20)),
                ("forecast", models.DecimalField(decimal_places=4, default=0, max_digits=20)),
                ("counted_at", models.DateTimeField(null=True)),
                ("told_month", models.CharField(default="", max_length=7)),
                ("told_percent", models.PositiveIntegerField(default=0)),
            ],
        ),
    ]
