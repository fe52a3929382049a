"""Pages of the volume service's lists: like all pages, except for the error of an unknown marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from django.db.models import Model, QuerySet

from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db import pagination
from conductor.db.pagination import SortField

Row = TypeVar("Row", bound=Model)


def order_of(keys: Mapping[str, str], sort: Sequence[tuple[str, bool]]) -> list[SortField]:
    """Return the order of a list. Raises Invalid for a key that cannot be sorted by."""
    for key, _ in sort:
        if key not in keys:
            raise Invalid(f"Invalid sort key: {key[:60]}. It must be one of {', '.join(keys)}.", field="sort_key")
    return [SortField(keys[key], is_descending) for key, is_descending in sort]


def page(
    rows: QuerySet[Row],
    order: Sequence[SortField],
    *,
    anchors: QuerySet[Row],
    marker: str = "",
    limit: int | None = None,
) -> list[Row]:
    """Return a page as listing.page does. Raises NotFound for an unknown marker."""
    if marker and not anchors.filter(uuid=uuid_or_none(marker)).exists():
        raise NotFound(f"Marker {marker[:60]} could not be found.")
    return pagination.page(rows, order, anchors=anchors, marker=marker, limit=limit)
