"""Number changes from one row, and let no use fall below nothing."""

import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("placement", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ChangeCounter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("epoch", models.UUIDField(default=uuid.uuid4)),
                ("number", models.BigIntegerField(default=0)),
                ("removed_number", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddConstraint(
            model_name="inventory",
            constraint=models.CheckConstraint(condition=models.Q(("used__gte", 0)), name="no_negative_use"),
        ),
    ]
