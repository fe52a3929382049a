from django.db import migrations

from conductor.journal.migrations._by_hand import number_by_function


class Migration(migrations.Migration):
    dependencies = [("journal", "0003_expand_add_foreign_holders_and_secrets")]

    operations = [migrations.RunPython(number_by_function, migrations.RunPython.noop)]
