from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cell_db", "0008_expand_index_living_instances"),
    ]

    operations = [
        migrations.CreateModel(
            name="GuestCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.CharField(max_length=255)),
                ("counted_at", models.FloatField()),
                ("guests", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("host", "counted_at"), name="one_count_of_host_at_a_time")
                ],
            },
        ),
    ]
