"""Every kind of row that belongs to a project or a user has a limit, or a reason why it needs none."""

from __future__ import annotations

from django.apps import apps

from conductor import row_limits

OWNERS = frozenset({"project_id", "user_id", "trustor_id", "owner_id", "tenant_id"})


def test_every_kind_with_an_owner_is_in_one_table() -> None:
    owned = {
        model._meta.label
        for model in apps.get_models()
        if not OWNERS.isdisjoint(field.attname for field in model._meta.concrete_fields)
    }
    assert owned, "the models are there"
    limited = {limit.model for limit in row_limits.LIMITS.values()}
    tables = [limited, set(row_limits.LIMITED_ELSEWHERE), set(row_limits.NOT_MADE_AT_WILL)]
    placed = set().union(*tables)
    assert sorted(owned - placed) == [], "limit them in conductor/row_limits.py, or say why not"
    assert sum(map(len, tables)) == len(placed), "a kind is in one table"
    of_a_part = {label for label in placed - owned if apps.get_model(label)}
    assert of_a_part == {"image.ImageMember"} - owned


def test_every_limit_is_finite_and_of_a_column_that_is_there() -> None:
    for kind, limit in row_limits.LIMITS.items():
        columns = {field.attname for field in apps.get_model(limit.model)._meta.concrete_fields}
        assert (limit.owner in columns, 0 < limit.most <= 1000, bool(limit.words)) == (True, True, True), kind
