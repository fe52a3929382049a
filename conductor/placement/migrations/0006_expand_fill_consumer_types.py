"""Tell what instances and their moves hold from what others do, who are new."""

from typing import Any

from django.db import migrations


def fill(apps: Any, schema_editor: Any) -> None:
    """So far nobody else held anything; a move says so itself when it takes over the next time."""
    consumers = apps.get_model("placement", "Consumer").objects.using(schema_editor.connection.alias)
    consumers.filter(consumer_type=None).update(consumer_type="INSTANCE")


class Migration(migrations.Migration):
    dependencies = [("placement", "0005_expand_hardware")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, elidable=True)]
