from django.db import migrations, models

KEY = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0022_expand_add_plugin_proposals"),
    ]

    operations = [
        migrations.CreateModel(
            name="HostKey",
            fields=[
                KEY,
                ("host", models.CharField(db_index=True, max_length=255)),
                ("cell", models.CharField(max_length=255)),
                ("key_id", models.CharField(max_length=32, unique=True)),
                ("public_key", models.CharField(max_length=64)),
                ("is_due", models.BooleanField(default=False)),
                ("ends_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="HostEnrollment",
            fields=[
                KEY,
                ("host", models.CharField(max_length=255)),
                ("cell", models.CharField(max_length=255)),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("expires_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ConductorKey",
            fields=[
                KEY,
                ("number", models.PositiveIntegerField(unique=True)),
                ("key_id", models.CharField(max_length=32, unique=True)),
                ("public_key", models.CharField(max_length=64)),
                ("encrypted_private_key", models.TextField()),
                ("signs_from", models.DateTimeField()),
                ("ends_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
        ),
    ]
