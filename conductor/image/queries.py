"""Queries and lists of the images that a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet, Value
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Coalesce

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.time_filters import TimeFilter
from conductor.db.pagination import SortField, page
from conductor.db.time_filters import condition
from conductor.image.models import Image, ImageMember

# Sort keys of lists. No value may be null: pagination compares them.
SORT_KEYS: dict[str, Any] = {
    "created_at": F("created_at"),
    "updated_at": F("updated_at"),
    "id": F("uuid"),
    "name": F("name"),
    "status": F("status"),
    "owner": F("project_id"),
    "min_disk": F("min_disk_gb"),
    "min_ram": F("min_ram_mb"),
    "size": Coalesce("size", Value(-1)),
    "disk_format": Coalesce("disk_format", Value("")),
    "container_format": Coalesce("container_format", Value("")),
    "checksum": Coalesce("checksum", Value("")),
}
TIMES = ("created_at", "updated_at")
NUMBERS = {"min_disk": "min_disk_gb", "min_ram": "min_ram_mb", "size": "size", "virtual_size": "virtual_size"}
VISIBILITY_CHOICES = ("public", "private", "shared", "community", "all")
MEMBER_STATUSES = ("pending", "accepted", "rejected", "all")


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """Query of images: filters, order and marker. Lists mean "any of these"; tags mean "all of these"."""

    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tags: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    visibility: str | None = None
    member_status: str = "accepted"
    is_hidden: bool = False
    is_protected: bool | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)  # by NUMBERS
    size_min: int | None = None
    size_max: int | None = None
    times: Sequence[TimeFilter] = ()  # by TIMES
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)  # (key, is_descending)
    limit: int = 25
    marker: str = ""


def _uuids(values: Sequence[str]) -> Q:
    return Q(uuid__in=[wanted for wanted in map(uuid_or_none, values) if wanted])


def _any_of(column: str) -> Callable[[Sequence[str]], Q]:
    return lambda values: Q(**{f"{column}__in": list(values)})


FILTERS: dict[str, Callable[[Sequence[str]], Q]] = {
    "id": _uuids,
    "name": _any_of("name"),
    "status": _any_of("status"),
    "owner": _any_of("project_id"),
    "disk_format": _any_of("disk_format"),
    "container_format": _any_of("container_format"),
    "checksum": _any_of("checksum"),
    "os_hash_value": _any_of("os_hash_value"),
    "os_hash_algo": lambda values: Q(os_hash_value__isnull=False) if "sha512" in values else Q(pk__in=[]),
}


def visible_to(project_id: str, *, is_admin: bool = False) -> QuerySet[Image]:
    """Return the images that members of a project see; all images for an administrator."""
    rows = Image.objects.filter(deleted_at=None)
    if is_admin:
        return rows
    return rows.filter(
        Q(project_id=project_id)
        | Q(visibility__in=("public", "community"))
        | Q(visibility="shared", pk__in=_offered(project_id, "all"))
    )


def deleted_of(image_uuids: Collection[UUID]) -> set[UUID]:
    """Return those of the images, of any project, that are deleted."""
    there = Image.objects.filter(uuid__in=image_uuids, deleted_at=None).values_list("uuid", flat=True)
    return set(image_uuids).difference(there)


def get_visible(context: RequestContext, ref: str) -> Image:
    """Return the image with the uuid `ref`, if the caller may see it; NotFound otherwise."""
    wanted = uuid_or_none(ref)
    image = _visible(context).filter(uuid=wanted).first() if wanted else None
    if image is None:
        raise NotFound(f"No image found with ID {ref}")
    return image


def list_visible(context: RequestContext, query: ImageQuery) -> list[Image]:
    """Return one page of images. Raises Invalid for an unknown sort key, marker, visibility or member status."""
    anchors = _visible(context)
    order = [_order(key, is_descending) for key, is_descending in query.sort]
    for key, _ in query.sort:
        anchors = anchors.annotate(**{f"sort_{key}": SORT_KEYS[key]})
    rows = anchors.filter(_listed(context, query), _narrowed(query))
    for number, (name, value) in enumerate(query.properties.items()):
        alias = f"property_{number}"
        rows = rows.annotate(**{alias: KeyTransform(name, "properties")}).filter(**{alias: value})
    found = page(rows, order, anchors=anchors, marker=query.marker, limit=None if query.tags else query.limit)
    # Tags are JSON text: not all supported databases can search it.
    return [image for image in found if set(query.tags) <= set(image.tags)][: query.limit]


def _visible(context: RequestContext) -> QuerySet[Image]:
    return visible_to(context.project_id, is_admin=context.is_admin)


def _offered(project_id: str, member_status: str) -> QuerySet[ImageMember, Any]:
    offered = ImageMember.objects.filter(project_id=project_id)
    if member_status != "all":
        offered = offered.filter(status=member_status)
    return offered.values("image_id")


def _listed(context: RequestContext, query: ImageQuery) -> Q:
    """Return the condition of lists: community images of others, and offers, only on request."""
    _require(query.visibility in (None, *VISIBILITY_CHOICES), f"Invalid visibility value: {query.visibility}")
    _require(query.member_status in MEMBER_STATUSES, f"Invalid status: {query.member_status}")
    own = Q(project_id=context.project_id)
    offered = Q(visibility="shared", pk__in=_offered(context.project_id, query.member_status))
    if query.visibility == "all":
        return Q()
    if query.visibility == "shared" and not context.is_admin:
        return Q(visibility="shared") & (own | offered)
    if query.visibility is not None:
        return Q(visibility=query.visibility)
    return ~Q(visibility="community") | own if context.is_admin else own | Q(visibility="public") | offered


def _narrowed(query: ImageQuery) -> Q:
    parts = [Q(is_hidden=query.is_hidden)]
    parts += [FILTERS[name](values) for name, values in query.filters.items()]
    if query.is_protected is not None:
        parts.append(Q(is_protected=query.is_protected))
    if query.size_min is not None:
        parts.append(Q(size__gte=query.size_min))
    if query.size_max is not None:
        parts.append(Q(size__lte=query.size_max))
    parts += [Q(**{NUMBERS[name]: value}) for name, value in query.numbers.items()]
    parts += [condition(time) for time in query.times]
    return reduce(and_, parts)


def _order(key: str, is_descending: bool) -> SortField:
    _require(key in SORT_KEYS, f"Invalid sort key: {key}. It must be one of {', '.join(SORT_KEYS)}.")
    return SortField(f"sort_{key}", is_descending)


def _require(is_valid: bool, message: str) -> None:
    if not is_valid:
        raise Invalid(message)
