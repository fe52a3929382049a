from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("identity", "0002_expand_add_identity_v3"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="preferences",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
