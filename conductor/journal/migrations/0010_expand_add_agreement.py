from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("journal", "0009_expand_seal_audit_records"),
    ]

    operations = [
        migrations.AddField(
            model_name="workflowrun",
            name="agreement",
            field=models.JSONField(null=True),
        ),
    ]
