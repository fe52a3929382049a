"""Pages of a queryset that stay stable while rows are added and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class SortField:
    """Sort by one field (or annotation) that is never null."""

    field: str
    is_descending: bool = False


def page(
    rows: QuerySet[Row],
    order: Sequence[SortField],
    *,
    anchors: QuerySet[Row] | None = None,
    marker: str = "",
    limit: int | None = None,
    is_backwards: bool = False,
) -> list[Row]:
    """Return up to `limit` rows after the row with the uuid `marker`, in `order` and then by uuid.

    With `is_backwards` they are the rows before the marker, or the last ones without a marker, in the same order.
    `anchors` are the rows that may be a marker: more than `rows`, so that pagination goes on when its marker no longer
    matches the filter. Raises Invalid for an unknown marker.
    """
    full_order = [*order, SortField("uuid")]
    if is_backwards:
        full_order = [SortField(part.field, not part.is_descending) for part in full_order]
    if marker:
        rows = rows.filter(_after(rows if anchors is None else anchors, full_order, marker))
    ordered = rows.order_by(*(("-" if part.is_descending else "") + part.field for part in full_order))
    found = list(ordered if limit is None else ordered[:limit])
    return found[::-1] if is_backwards else found


def _after(anchors: QuerySet[Row], order: Sequence[SortField], marker: str) -> Q:
    wanted = uuid_or_none(marker)
    anchor = anchors.filter(uuid=wanted).values(*(part.field for part in order)).first() if wanted else None
    if anchor is None:
        raise Invalid(f"Marker {marker} could not be found.")
    condition = Q()
    equal_so_far = Q()
    for part in order:
        comparison = "lt" if part.is_descending else "gt"
        condition |= equal_so_far & Q(**{f"{part.field}__{comparison}": anchor[part.field]})
        equal_so_far &= Q(**{part.field: anchor[part.field]})
    return condition
