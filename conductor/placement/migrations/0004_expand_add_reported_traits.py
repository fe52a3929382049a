"""Tell the traits that hosts report from those that operators give."""

from typing import Any

from django.db import migrations, models


def fill(apps: Any, schema_editor: Any) -> None:
    """So far hosts were the only ones who gave any."""
    providers = apps.get_model("placement", "ResourceProvider").objects.using(schema_editor.connection.alias)
    providers.update(reported_traits=models.F("traits"))


class Migration(migrations.Migration):
    dependencies = [("placement", "0003_expand_trees_traits_and_aggregates")]

    operations = [
        migrations.AddField(
            model_name="resourceprovider", name="reported_traits", field=models.JSONField(default=list)
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=True),
    ]
