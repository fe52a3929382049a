"""Which volumes a caller sees, and lists of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.listing import Order, page
from conductor.volume.models import Volume

SORT_KEYS = {
    "id": "uuid",
    "name": "name",
    "status": "status",
    "size": "size_gb",
    "created_at": "created_at",
    "updated_at": "updated_at",
}
FILTERS = {"name": "name", "status": "status", "availability_zone": "availability_zone"}


@dataclass(frozen=True, slots=True)
class VolumeQuery:
    """Which volumes, in which order, from where on. `filters` are equality by a name of FILTERS."""

    filters: Mapping[str, str] = field(default_factory=dict)
    is_bootable: bool | None = None
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)  # (key, is_descending)
    limit: int | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a project's volumes take."""

    volumes: int
    gigabytes: int


def missing(volume_id: str) -> NotFound:
    """The answer for a volume that is not there, or not the asker's."""
    return NotFound(f"Volume {volume_id} could not be found.")


def get_visible(context: RequestContext, volume_id: str) -> Volume:
    """The volume. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(volume_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise missing(volume_id)
    return row


def list_visible(context: RequestContext, query: VolumeQuery) -> list[Volume]:
    """One page of volumes of the asker's project, or of all for an administrator who asks for that."""
    for key, _ in query.sort:
        if key not in SORT_KEYS:
            raise Invalid(f"Invalid sort key: {key[:60]}. It must be one of {', '.join(SORT_KEYS)}.", field="sort_key")
    anchors = _visible(context)
    rows = anchors if context.is_admin and query.all_projects else anchors.filter(project_id=context.project_id)
    condition = Q()
    for name, value in query.filters.items():
        condition &= Q(**{FILTERS[name]: value})
    if query.is_bootable is not None:
        condition &= Q(is_bootable=query.is_bootable)
    order = [Order(SORT_KEYS[key], is_descending) for key, is_descending in query.sort]
    return page(rows.filter(condition), order, anchors=anchors, marker=query.marker, limit=query.limit)


def usage(project_id: str) -> Usage:
    """What counts against the project's limits."""
    rows = Volume.objects.filter(project_id=project_id)
    return Usage(rows.count(), rows.aggregate(total=Coalesce(Sum("size_gb"), 0))["total"])


def _visible(context: RequestContext) -> QuerySet[Volume]:
    rows = Volume.objects.select_related("attachment")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)
