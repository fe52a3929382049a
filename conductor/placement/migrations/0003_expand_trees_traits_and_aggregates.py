"""Let providers form trees and be in aggregates, find them by their traits, and name what no standard names."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

ROWS_AT_ONCE = 1000


def plant(apps: Any, schema_editor: Any) -> None:
    """Every provider so far is the root of its own tree, and has links for its traits."""
    alias = schema_editor.connection.alias
    providers = apps.get_model("placement", "ResourceProvider").objects.using(alias)
    links = apps.get_model("placement", "ProviderTrait")
    providers.filter(root=None).update(root_id=models.F("pk"))
    rows = providers.values_list("pk", "traits").iterator(ROWS_AT_ONCE)
    links.objects.using(alias).bulk_create(
        [links(provider_id=pk, name=name) for pk, names in rows for name in names], batch_size=ROWS_AT_ONCE
    )


class Migration(migrations.Migration):
    dependencies = [("placement", "0002_expand_change_counter")]

    operations = [
        migrations.CreateModel(
            name="ResourceClass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="Trait",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255, unique=True)),
            ],
        ),
        migrations.AddField(
            model_name="consumer", name="consumer_type", field=models.CharField(max_length=255, null=True)
        ),
        migrations.AddField(
            model_name="resourceprovider",
            name="parent",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="children",
                to="placement.resourceprovider",
            ),
        ),
        migrations.AddField(
            model_name="resourceprovider",
            name="root",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="tree",
                to="placement.resourceprovider",
            ),
        ),
        migrations.CreateModel(
            name="ProviderAggregate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("aggregate_uuid", models.UUIDField(db_index=True)),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="aggregate_links",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "aggregate_uuid"), name="provider_once_per_aggregate")
                ],
            },
        ),
        migrations.CreateModel(
            name="ProviderTrait",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(db_index=True, max_length=255)),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trait_links",
                        to="placement.resourceprovider",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("provider", "name"), name="trait_once_per_provider")],
            },
        ),
        migrations.RunPython(plant, migrations.RunPython.noop, elidable=True),
    ]
