from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cell_db", "0011_expand_add_injected_files"),
    ]

    operations = [
        migrations.AddField(
            model_name="service",
            name="kept",
            field=models.JSONField(null=True),
        ),
    ]
