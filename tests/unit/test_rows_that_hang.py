"""Manual deletions include all dependent rows: the tables named in SQL match the models."""

from __future__ import annotations

import pytest
from django.db.models import CASCADE, SET_DEFAULT, SET_NULL, Model

from conductor.network import statements as network_statements
from conductor.network.models import Port
from conductor.placement import statements as placement_statements
from conductor.placement.models import Consumer


def hanging_on(model: type[Model]) -> dict[str, str]:
    """Table → column, of rows that must go with one of the model's."""
    found = {}
    for relation in model._meta.related_objects:
        if relation.on_delete is CASCADE:
            found[relation.related_model._meta.db_table] = relation.field.column
        assert relation.on_delete not in (SET_NULL, SET_DEFAULT), f"{relation.name} wants something else than to go"
    for field in model._meta.many_to_many:
        found[field.m2m_db_table()] = field.m2m_column_name()
    return found


@pytest.mark.parametrize(
    ("model", "column", "tables"),
    [
        (Consumer, "consumer_id", placement_statements.CONSUMER_TABLES),
        (Port, "port_id", network_statements.PORT_TABLES),
    ],
)
def test_rows_that_hang_on_what_is_deleted_by_hand_are_deleted_too(
    model: type[Model], column: str, tables: tuple[str, ...]
) -> None:
    assert hanging_on(model) == dict.fromkeys(tables, column)
