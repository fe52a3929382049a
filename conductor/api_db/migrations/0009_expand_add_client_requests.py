import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0008_expand_add_user_quotas"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClientRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_digest", models.CharField(max_length=64, unique=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("uuid", models.UUIDField(default=uuid.uuid4)),
                ("answer", models.TextField(default="")),
                ("claimed_until", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
    ]
