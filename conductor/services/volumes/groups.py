"""Groups of volumes: create, change, delete, take a common snapshot, and copy from a snapshot or a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils import timezone

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import creation, volumes
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes.creation import VolumeSource
from conductor.volume import groups, operations, snapshots, types
from conductor.volume.models import GroupSnapshot, Snapshot, Volume, VolumeGroup
from conductor.volume.operations import VolumeCreate
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.snapshots import SnapshotCreate
from conductor.volume.states import AVAILABLE, SNAPSHOT, VOLUME


@dataclass(frozen=True, slots=True)
class VolumeGroupCreate:
    """A group to create; its types as ids or names."""

    group_type: str
    volume_types: Sequence[str] = ()
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change of a group. `fields` are name and description; volumes as ids."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    added: Sequence[str] = ()
    removed: Sequence[str] = ()


def create(context: RequestContext, requested: VolumeGroupCreate) -> VolumeGroup:
    """Create a group. Raises NotFound for an unknown type, QuotaExceeded."""
    group_type = groups.named_type(context, requested.group_type)
    wanted = [str(types.named(context, ref).uuid) for ref in requested.volume_types]
    with write_tx():
        require_room(context.project_id, VolumeUsage(0, 0, groups=1))
        return _insert(context, requested.name, requested.description, group_type=group_type, volume_types=wanted)


def create_from(
    context: RequestContext, name: str | None, description: str | None, *, snapshot_id: str | None, group_id: str | None
) -> VolumeGroup:
    """Create a group with copies of another's volumes or snapshots. Raises NotFound, Invalid, QuotaExceeded."""
    if bool(snapshot_id) == bool(group_id):
        raise Invalid("Name one source: group_snapshot_id or source_group_id.", field="create-from-src")
    if snapshot_id:
        taken = groups.get_snapshot(context, snapshot_id)
        source = taken.group
        rows: list[tuple[str, str, Volume]] = [
            (SNAPSHOT, str(row.uuid), row.volume) for row in _parts(taken) if _require_available(row.status, row.uuid)
        ]
    else:
        source = groups.get(context, str(group_id))
        rows = [(VOLUME, str(row.uuid), row) for row in groups.members(source)]
    with write_tx():
        require_room(context.project_id, VolumeUsage(0, 0, groups=1))
        made = _insert(
            context,
            name,
            description,
            group_type=source.group_type,
            volume_types=source.volume_types,
            source_group_uuid=source.uuid if group_id else None,
            source_snapshot_uuid=UUID(snapshot_id) if snapshot_id else None,
        )
        for kind, uuid, volume in rows:
            _copy(context, made, kind, uuid, volume)
    return made


def update(context: RequestContext, group_id: str, change: GroupChange) -> VolumeGroup:
    """Change a group, all or nothing. Raises NotFound, Invalid for a volume that cannot join or is not in it."""
    with write_tx():
        group = groups.get(context, group_id)
        for volume_id in change.added:
            volume = _member(context, volume_id)
            groups.check_joining(
                group, volume, str(volume.volume_type.uuid if volume.volume_type else types.DEFAULT_UUID)
            )
            operations.describe(volume, group_uuid=group.uuid)
        for volume_id in change.removed:
            volume = _member(context, volume_id)
            if volume.group_uuid != group.uuid:
                raise Invalid(f"Cannot remove volume {volume.uuid} from group {group.uuid}: it is not in the group.")
            operations.describe(volume, group_uuid=None)
        if change.fields:
            VolumeGroup.objects.filter(pk=group.pk).update(**change.fields)
    return groups.get(context, group_id)


def delete(context: RequestContext, group_id: str, *, with_volumes: bool = False) -> None:
    """Delete a group. Raises NotFound, Invalid for one with snapshots, or with volumes unless `with_volumes`."""
    with write_tx():
        group = groups.get(context, group_id)
        members = groups.members(group)
        if group.group_snapshots.exists():
            raise Invalid(f"Group {group.uuid} still has dependent group snapshots.")
        if members and not with_volumes:
            raise Invalid(
                f"Group {group.uuid} still contains volumes. The delete-volumes flag is required to delete it."
            )
        for volume in members:
            held = volumes.free_to_change(context, str(volume.uuid))
            operations.describe(held, group_uuid=None)
            operations.begin_deleting(get_visible(context, str(volume.uuid)))
        VolumeGroup.objects.filter(pk=group.pk).delete()
    for volume in members:
        operations.settle(volume.uuid)


def reset_status(context: RequestContext, group_id: str, status: str) -> None:
    """Set a group's status, for operators. Raises NotFound, Invalid."""
    _check_status(status)
    with write_tx():
        VolumeGroup.objects.filter(pk=groups.get(context, group_id).pk).update(status=status)


def take_snapshot(context: RequestContext, group_id: str, name: str | None, description: str | None) -> GroupSnapshot:
    """Take a snapshot of each volume of a group. Raises NotFound, Invalid for an empty one, QuotaExceeded."""
    with write_tx():
        group = groups.get(context, group_id)
        members = groups.members(group)
        if not members:
            raise Invalid(f"Group {group.uuid} has no volumes: nothing can be snapshotted.")
        row_limits.require("group_snapshots", group.project_id)
        for volume in members:
            volume_snapshots.require_ready(volume, may_be_in_use=True)
            type_name = volumes.type_name_of(volume)
            require_room(volume.project_id, VolumeUsage(0, volume.size_gb, 1), type_name=type_name)
        taken = GroupSnapshot.objects.create(
            group=group,
            project_id=group.project_id,
            user_id=context.user_id,
            name=name,
            description=description,
            status=AVAILABLE,
            created_at=timezone.now(),
        )
        for volume in members:
            requested = SnapshotCreate(name=name or "", description=description, group_snapshot_uuid=taken.uuid)
            volume_snapshots.begin(context, volume, requested)
    return taken


def update_snapshot(context: RequestContext, ref: str, values: Mapping[str, Any]) -> GroupSnapshot:
    """Change name or description. Raises NotFound."""
    with write_tx():
        GroupSnapshot.objects.filter(pk=groups.get_snapshot(context, ref).pk).update(**values)
    return groups.get_snapshot(context, ref)


def delete_snapshot(context: RequestContext, ref: str) -> None:
    """Delete a group snapshot with all its parts. Raises NotFound, Invalid, ResourceLocked while a part is locked."""
    with write_tx():
        taken = groups.get_snapshot(context, ref)
        parts = _parts(taken)
        for row in parts:
            snapshots.begin_deleting(volume_snapshots.free_to_change(context, str(row.uuid)))
        GroupSnapshot.objects.filter(pk=taken.pk).delete()
    for row in parts:
        snapshots.settle(row.uuid)


def reset_snapshot_status(context: RequestContext, ref: str, status: str) -> None:
    """Set a group snapshot's status, for operators. Raises NotFound, Invalid."""
    _check_status(status)
    with write_tx():
        GroupSnapshot.objects.filter(pk=groups.get_snapshot(context, ref).pk).update(status=status)


def statuses_of_snapshots(taken: Sequence[GroupSnapshot]) -> dict[UUID, str]:
    """Return the statuses of group snapshots: an operator's, or the worst of the parts."""
    rows = Snapshot.objects.filter(group_snapshot_uuid__in=[row.uuid for row in taken])
    held = _by_group(rows.values_list("group_snapshot_uuid", "status").distinct())
    found = {}
    for row in taken:
        least = next((word for word in ("error", "creating", "deleting") if word in held[row.uuid]), AVAILABLE)
        found[row.uuid] = row.status if row.status != AVAILABLE else least
    return found


def statuses_of(wanted: Sequence[VolumeGroup]) -> dict[UUID, str]:
    """Return the statuses of groups: one copied from another is `creating` while one of its volumes is."""
    rows = Volume.objects.filter(group_uuid__in=[row.uuid for row in wanted])
    held = _by_group(rows.values_list("group_uuid", "status").distinct())
    found = {}
    for row in wanted:
        is_made = row.source_group_uuid or row.source_snapshot_uuid
        is_busy = is_made and row.status == AVAILABLE and "creating" in held[row.uuid]
        found[row.uuid] = "creating" if is_busy else row.status
    return found


def _by_group(pairs: Iterable[tuple[UUID | None, str]]) -> defaultdict[UUID | None, set[str]]:
    found: defaultdict[UUID | None, set[str]] = defaultdict(set)
    for uuid, status in pairs:
        found[uuid].add(status)
    return found


def _insert(context: RequestContext, name: str | None, description: str | None, **values: Any) -> VolumeGroup:
    return VolumeGroup.objects.create(
        project_id=context.project_id,
        user_id=context.user_id,
        name=name,
        description=description,
        status=AVAILABLE,
        created_at=timezone.now(),
        **values,
    )


def _copy(context: RequestContext, group: VolumeGroup, kind: str, uuid: str, volume: Volume) -> None:
    wanted = volume.volume_type or types.default()
    source = VolumeSource(kind=kind, uuid=uuid, resource=f"{kind}:{uuid}")
    requested = VolumeCreate(
        size_gb=volume.size_gb,
        name=volume.name,
        description=volume.description,
        is_bootable=volume.is_bootable,
        image_metadata=volume.image_metadata,
        source_kind=kind,
        source_uuid=uuid,
        volume_type_id=wanted.pk,
        is_multiattach=volume.is_multiattach,
        group_uuid=group.uuid,
    )
    creation.begin(context, requested, source, wanted)


def _parts(taken: GroupSnapshot) -> list[Snapshot]:
    rows = Snapshot.objects.filter(group_snapshot_uuid=taken.uuid)
    return list(rows.select_related("volume__volume_type").order_by("pk"))


def _require_available(status: str, uuid: UUID) -> bool:
    if status != AVAILABLE:
        raise Invalid(f"Snapshot {uuid} must be available to be copied, but is {status}.")
    return True


def _member(context: RequestContext, volume_id: str) -> Volume:
    try:
        return volumes.free_to_change(context, volume_id)
    except NotFound as error:
        raise Invalid(error.message, field="group") from None


def _check_status(status: str) -> None:
    if status not in groups.STATUSES:
        words = ", ".join(groups.STATUSES)
        raise Invalid(f"Invalid status {status[:60]}: it must be one of {words}.", field="reset_status.status")
