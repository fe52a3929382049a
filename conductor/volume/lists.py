"""Pages of what the volume service lists: as all pages, but for a marker that is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from django.db.models import Model, QuerySet

from conductor import listing
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.listing import Order

Row = TypeVar("Row", bound=Model)


def order_of(keys: Mapping[str, str], sort: Sequence[tuple[str, bool]]) -> list[Order]:
    """Raises Invalid for a key that nothing is sorted by."""
    for key, _ in sort:
        if key not in keys:
            raise Invalid(f"Invalid sort key: {key[:60]}. It must be one of {', '.join(keys)}.", field="sort_key")
    return [Order(keys[key], is_descending) for key, is_descending in sort]


def page(
    rows: QuerySet[Row], order: Sequence[Order], *, anchors: QuerySet[Row], marker: str = "", limit: int | None = None
) -> list[Row]:
    """As listing.page. Raises NotFound for an unknown marker."""
    if marker and not anchors.filter(uuid=uuid_or_none(marker)).exists():
        raise NotFound(f"Marker {marker[:60]} could not be found.")
    return listing.page(rows, order, anchors=anchors, marker=marker, limit=limit)
