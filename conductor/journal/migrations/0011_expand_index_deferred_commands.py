from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("journal", "0010_expand_add_agreement"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="outboxmessage",
            index=models.Index(condition=models.Q(is_owed=True), fields=["host"], name="outbox_deferred"),
        ),
    ]
