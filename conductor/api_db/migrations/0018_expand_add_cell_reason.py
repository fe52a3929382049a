from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0017_expand_add_budgets"),
    ]

    operations = [
        migrations.AddField(
            model_name="cellmapping",
            name="disabled_reason",
            field=models.CharField(db_default="", default="", max_length=255),
        ),
    ]
