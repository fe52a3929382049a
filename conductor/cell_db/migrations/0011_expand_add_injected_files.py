from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cell_db", "0010_expand_add_drain_deadline_and_note"),
    ]

    operations = [
        migrations.AddField(
            model_name="instance",
            name="injected_files",
            field=models.JSONField(null=True),
        ),
    ]
