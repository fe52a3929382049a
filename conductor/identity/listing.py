"""Filters and pages all lists of identity alike: exact filters, `name__contains` and the like, limit and marker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from conductor.core.errors import NotFound

M = TypeVar("M", bound=Model)
OPERATORS = ("contains", "icontains", "startswith", "istartswith", "endswith", "iendswith", "equals", "iequals")
_LOOKUPS = {"equals": "exact", "iequals": "iexact"}


@dataclass(frozen=True)
class IdentityListQuery:
    """Query of a list: `filters` by the names that clients use, e.g. `name` or `name__contains`."""

    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    marker: str = ""


def narrowed(rows: QuerySet[M], question: IdentityListQuery, columns: Mapping[str, str]) -> QuerySet[M]:
    """Return the rows that match. A filter without a column here is ignored."""
    for name, value in question.filters.items():
        plain, _, operator = name.partition("__")
        column = columns.get(plain)
        if column is None:
            continue
        lookup = f"{column}__{_LOOKUPS.get(operator, operator)}" if operator in OPERATORS else column
        rows = rows.filter(**{lookup: value})
    return rows


def paged(rows: QuerySet[M], question: IdentityListQuery, order: str) -> tuple[list[M], bool]:
    """Return one page of rows by `order` and id, and whether more follow. Raises NotFound for an unknown marker."""
    ordered = rows.order_by(order, "pk")
    if question.marker:
        last = rows.model._default_manager.filter(pk=question.marker).values_list(order, flat=True).first()
        if last is None:
            raise NotFound(f"Marker {question.marker} could not be found.")
        ordered = ordered.filter(Q(**{f"{order}__gt": last}) | Q(**{order: last, "pk__gt": question.marker}))
    if question.limit is None:
        return list(ordered), False
    found = list(ordered[: question.limit + 1])
    return found[: question.limit], len(found) > question.limit
