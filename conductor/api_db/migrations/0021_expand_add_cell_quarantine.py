from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0020_expand_add_snapshot_schedules"),
    ]

    operations = [
        migrations.AddField(
            model_name="cellmapping",
            name="quarantined_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="cellmapping",
            name="quarantined_by",
            field=models.CharField(db_default="", default="", max_length=255),
        ),
        migrations.AddField(
            model_name="cellmapping",
            name="quarantine_reason",
            field=models.CharField(db_default="", default="", max_length=255),
        ),
    ]
