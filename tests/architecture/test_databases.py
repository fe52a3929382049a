"""Tables of each database: cell tables only in cells, the journal in all, everything else in the API's."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connections, models

CELL_LABELS = {"cell_db"}
EVERYWHERE_LABELS = {"journal"}
BOOKKEEPING = {"django_migrations"}


def tables_of(labels: set[str]) -> set[str]:
    every = apps.get_models(include_auto_created=True)
    return {model._meta.db_table for model in every if model._meta.app_label in labels and model._meta.managed}


def test_the_databases_are_the_apis_and_cells() -> None:
    assert list(settings.DATABASES) == ["default", "cell0", *settings.CELLS]


@pytest.mark.parametrize("alias", settings.DATABASES)
def test_tables_lie_where_they_belong(databases: None, alias: str) -> None:
    every_label = {config.label for config in apps.get_app_configs()}
    own = CELL_LABELS if alias != "default" else every_label - CELL_LABELS - EVERYWHERE_LABELS
    found = set(connections[alias].introspection.table_names())
    assert found - BOOKKEEPING == tables_of(own | EVERYWHERE_LABELS)


def test_no_foreign_key_crosses_databases() -> None:
    def room(model: type[models.Model]) -> str:
        label = model._meta.app_label
        return label if label in CELL_LABELS | EVERYWHERE_LABELS else "api"

    crossing = [
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.get_fields()
        if isinstance(field, models.ForeignKey) and room(model) != room(field.related_model)  # type: ignore[arg-type]
    ]
    assert crossing == []
