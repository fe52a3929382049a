from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cell_db", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="service", name="report_digest", field=models.CharField(default="", max_length=64)
        ),
        migrations.AddField(model_name="service", name="unsettled", field=models.JSONField(default=dict)),
        migrations.AddField(model_name="consolelog", name="host", field=models.CharField(default="", max_length=255)),
    ]
