"""Every kind of row has a limit, or a reason why it needs none."""

from __future__ import annotations

import re

from django.apps import apps

from conductor import row_limits
from tests.architecture.tree import read

REFERENCE = "docs/reference/api/novella.md"


def test_every_kind_is_in_one_table() -> None:
    """Also kinds without an owner: rows that belong to a volume or a port fill a database as well."""
    models = {model._meta.label for model in apps.get_models()}
    limited = {limit.model for limit in row_limits.LIMITS.values()}
    tables = [limited, set(row_limits.LIMITED_ELSEWHERE), set(row_limits.NOT_MADE_AT_WILL)]
    placed = set().union(*tables)
    assert sorted(models - placed) == [], "limit them in conductor/row_limits.py, or say why not"
    assert sum(map(len, tables)) == len(placed), "a kind is in one table"
    assert sorted(placed - models) == [], "there are no such models any more"


def test_every_limit_is_finite_and_of_a_column_that_is_there() -> None:
    for kind, limit in row_limits.LIMITS.items():
        columns = {field.attname for field in apps.get_model(limit.model)._meta.concrete_fields}
        assert (limit.column in columns, 0 < limit.default <= 1000, bool(limit.owner.name)) == (True, True, True), kind


def test_the_reference_names_every_limit_with_its_default() -> None:
    section = read(REFERENCE).partition("## Limits of rows")[2].partition("\n    PUT ")[0]
    documented = {name: int(most) for name, most in re.findall(r"^\| `(\w+)` \| (\d+) \|", section, re.MULTILINE)}
    assert documented == {kind: limit.default for kind, limit in row_limits.LIMITS.items()}
