"""Groups of volumes, and their types: volumes that are snapshotted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import IntegrityError
from django.db.models import Model, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.volume.lists import order_of, page
from conductor.volume.models import GroupSnapshot, GroupType, Volume, VolumeGroup, VolumeType
from conductor.volume.states import AVAILABLE, IN_USE

Row = TypeVar("Row", bound=Model)
TYPE_KEYS = {"id": "uuid", "name": "name", "is_public": "is_public", "created_at": "created_at"}
SORT_KEYS = {"id": "uuid", "status": "status", "created_at": "created_at"}
STATUSES = ("available", "creating", "deleting", "error", "error_deleting", "updating")


def get_type(context: RequestContext, ref: str) -> GroupType:
    """Return the type with that uuid. Raises NotFound, also for a private one."""
    wanted = uuid_or_none(ref)
    found = _types(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"Group type with id {ref[:60]} could not be found.")
    return found


def named_type(context: RequestContext, ref: str) -> GroupType:
    """Return the type with that uuid or name. Raises NotFound."""
    wanted = uuid_or_none(ref)
    found = _types(context).filter(**{"uuid": wanted} if wanted else {"name": ref}).first()
    if found is None:
        raise NotFound(f"Group type {ref[:60]} could not be found.")
    return found


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Query of groups, group snapshots or types; `filters` are equality by name, status or group_id."""

    filters: Mapping[str, Any] = field(default_factory=dict)
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def list_types(context: RequestContext, query: GroupQuery) -> list[GroupType]:
    """Return one page of types. Raises Invalid for a key that cannot be sorted by, NotFound for an unknown marker."""
    return _page(_types(context).filter(**query.filters), query, _types(context), TYPE_KEYS)


def spec_of(context: RequestContext, ref: str, key: str) -> str:
    """Return one extra spec of a type. Raises NotFound."""
    row = get_type(context, ref)
    if key not in row.specs:
        raise NotFound(f"Group Type {row.uuid} has no specs with key {key[:60]}.")
    return str(row.specs[key])


def list_visible(context: RequestContext, query: GroupQuery) -> list[VolumeGroup]:
    """Return one page of groups. Raises Invalid, NotFound for an unknown marker."""
    return _page(_narrowed(context, visible(context), query), query, visible(context), SORT_KEYS)


def list_snapshots(context: RequestContext, query: GroupQuery) -> list[GroupSnapshot]:
    """Return one page of snapshots of groups. Raises Invalid, NotFound for an unknown marker."""
    rows = visible_snapshots(context)
    return _page(_narrowed(context, rows, query), query, rows, SORT_KEYS)


def _narrowed(context: RequestContext, rows: QuerySet[Row], query: GroupQuery) -> QuerySet[Row]:
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(project_id=context.project_id)
    for name, value in query.filters.items():
        wanted = uuid_or_none(value) if name == "group_id" else value
        rows = rows.filter(**{"group__uuid" if name == "group_id" else name: wanted}) if wanted else rows.none()
    return rows


def _page(rows: QuerySet[Row], query: GroupQuery, anchors: QuerySet[Row], keys: Mapping[str, str]) -> list[Row]:
    limit = None if query.limit is None else query.offset + query.limit
    order = order_of(keys, query.sort)
    return page(rows, order, anchors=anchors, marker=query.marker, limit=limit)[query.offset :]


def create_type(values: Mapping[str, Any]) -> GroupType:
    """Create a type. Raises Conflict for a name that is taken."""
    try:
        with write_tx():
            return GroupType.objects.create(**values, created_at=timezone.now())
    except IntegrityError:
        raise Conflict(f"Group Type {values['name'][:60]} already exists.") from None


def update_type(context: RequestContext, ref: str, values: Mapping[str, Any]) -> GroupType:
    """Update a type. Raises NotFound, Conflict."""
    row = get_type(context, ref)
    try:
        with write_tx():
            GroupType.objects.filter(pk=row.pk).update(**values)
    except IntegrityError:
        raise Conflict(f"Group Type {str(values.get('name'))[:60]} already exists.") from None
    return get_type(context, ref)


def delete_type(context: RequestContext, ref: str) -> None:
    """Delete a type. Raises NotFound, Invalid for one that groups have."""
    row = get_type(context, ref)
    with write_tx():
        if VolumeGroup.objects.filter(group_type=row).exists():
            raise Invalid(f"Target group type {row.uuid} is still in use.")
        GroupType.objects.filter(pk=row.pk).delete()


def set_type_specs(context: RequestContext, ref: str, specs: Mapping[str, str]) -> dict[str, str]:
    """Add or replace specs, and return all of them. Raises NotFound."""
    with write_tx():
        row = GroupType.objects.select_for_update().get(pk=get_type(context, ref).pk)
        changed = {**row.specs, **specs}
        GroupType.objects.filter(pk=row.pk).update(specs=changed)
    return changed


def remove_type_spec(context: RequestContext, ref: str, key: str) -> None:
    """Remove a spec. Raises NotFound."""
    with write_tx():
        row = GroupType.objects.select_for_update().get(pk=get_type(context, ref).pk)
        if key not in row.specs:
            raise NotFound(f"Group Type {row.uuid} has no specs with key {key[:60]}.")
        left = {name: value for name, value in row.specs.items() if name != key}
        GroupType.objects.filter(pk=row.pk).update(specs=left)


def get(context: RequestContext, ref: str) -> VolumeGroup:
    """Return a group. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(ref)
    found = visible(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"Group {ref[:60]} could not be found.")
    return found


def visible(context: RequestContext) -> QuerySet[VolumeGroup]:
    rows = VolumeGroup.objects.select_related("group_type")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def get_snapshot(context: RequestContext, ref: str) -> GroupSnapshot:
    """Return a snapshot of a group. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(ref)
    found = visible_snapshots(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"GroupSnapshot {ref[:60]} could not be found.")
    return found


def visible_snapshots(context: RequestContext) -> QuerySet[GroupSnapshot]:
    rows = GroupSnapshot.objects.select_related("group__group_type")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def members(group: VolumeGroup) -> list[Volume]:
    """Return the volumes of a group, oldest first."""
    return list(Volume.objects.filter(group_uuid=group.uuid).select_related("volume_type").order_by("pk"))


def open_to(context: RequestContext, group_id: str, wanted: VolumeType) -> VolumeGroup:
    """Return the group that a volume of a type may join. Raises NotFound, Invalid."""
    group = get(context, group_id)
    if group.status != AVAILABLE:
        raise Invalid(f"Group {group.uuid} status must be available, but is {group.status}.")
    if str(wanted.uuid) not in group.volume_types:
        raise Invalid(f"Invalid volume_type {wanted.name}: it is not one of those of group {group.uuid}.")
    return group


def check_joining(group: VolumeGroup, volume: Volume, type_uuid: str) -> None:
    """Raise Invalid for a volume that cannot join."""
    if volume.group_uuid not in (None, group.uuid):
        raise Invalid(f"Volume {volume.uuid} is in group {volume.group_uuid} already.")
    if volume.status not in (AVAILABLE, IN_USE):
        raise Invalid(f"Cannot add volume {volume.uuid} to group {group.uuid}: it is {volume.status}.")
    if type_uuid not in group.volume_types:
        raise Invalid(f"Cannot add volume {volume.uuid} to group {group.uuid}: its type is not one of the group's.")


def _types(context: RequestContext) -> QuerySet[GroupType]:
    return GroupType.objects.all() if context.is_admin else GroupType.objects.filter(is_public=True)
