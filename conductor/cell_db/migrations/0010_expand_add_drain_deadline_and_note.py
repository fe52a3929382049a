from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cell_db", "0009_expand_add_guest_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="drain",
            name="deadline_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="drain",
            name="is_late",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="service",
            name="maintenance_note",
            field=models.CharField(db_default="", default="", max_length=1000),
        ),
    ]
