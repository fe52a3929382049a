import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api_db", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="FlavorAccess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                (
                    "flavor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="access", to="api_db.flavor"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("flavor", "project_id"), name="flavor_access_once")],
            },
        ),
    ]
