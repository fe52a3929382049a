"""Snapshots of volumes: take, change, delete, and revert a volume to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.journal import locks
from conductor.rpc import outbox
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import volumes
from conductor.volume import operations, snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.snapshots import SnapshotCreate, SnapshotQuery, list_visible
from conductor.volume.snapshots import get_visible as get_snapshot
from conductor.volume.states import AVAILABLE, CREATING, DELETING, IN_USE, REVERTING, SNAPSHOT_TELLABLE

__all__ = ["SnapshotCreate", "SnapshotQuery", "get_snapshot", "list_visible"]

FLOW = "create_snapshot"
REVERT_FLOW = "revert_volume"
# The statuses that may be reported for a snapshot in transition.
REPORTED_ENDS = {"creating": ("creating", "available", "error"), "deleting": ("deleting", "error", "error_deleting")}


def create(
    context: RequestContext,
    volume_id: str,
    requested: SnapshotCreate,
    *,
    may_be_in_use: bool = False,
    run_uuid: UUID | None = None,
) -> Snapshot:
    """Take a snapshot of a volume; a workflow copies the data.

    What a server writes meanwhile may be included or not. Raises NotFound, Invalid for a volume that is not ready,
    QuotaExceeded.
    """
    volumes.check_metadata(requested.metadata)
    with write_tx():
        volume = get_visible(context, volume_id)
        require_ready(volume, may_be_in_use=may_be_in_use)
        type_name = volumes.type_name_of(volume)
        require_room(volume.project_id, VolumeUsage(0, volume.size_gb, 1), type_name=type_name)
        return begin(context, volume, requested, run_uuid)


def begin(context: RequestContext, volume: Volume, requested: SnapshotCreate, run_uuid: UUID | None = None) -> Snapshot:
    """Create the row and the workflow. Call it inside the write transaction that checked the quota."""
    row = snapshots.insert(context, volume, requested)
    wanted = outbox.NewRun(
        flow=FLOW,
        action=FLOW,
        context=context,
        resources=[f"snapshot:{row.uuid}", f"volume:{volume.uuid}"],
        instance_name=row.name or str(row.uuid),
        inputs={"snapshot_id": str(row.uuid), "volume_id": str(volume.uuid)},
        run_uuid=run_uuid,
    )
    outbox.open_run(API_ALIAS, wanted, may_wait=True)  # the run waits for workflows on the volume
    return row


def require_ready(volume: Volume, *, may_be_in_use: bool) -> None:
    """Raise Invalid for a volume that cannot be copied now."""
    status = volume.status if may_be_in_use else operations.counted_status(volume)
    if status != AVAILABLE and not (may_be_in_use and status == IN_USE):
        raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be available, but is {status}.")


def update(context: RequestContext, snapshot_id: str, values: Mapping[str, Any]) -> Snapshot:
    """Change the name, the description or the metadata. Raises NotFound, Invalid."""
    volumes.check_metadata(values.get("metadata", {}))
    with write_tx():
        snapshots.describe(snapshots.get_visible(context, snapshot_id), **values)
    return snapshots.get_visible(context, snapshot_id)


def delete(context: RequestContext, snapshot_id: str, *, is_forced: bool = False) -> None:
    """Delete a snapshot and its data. Raises NotFound, Invalid, ResourceLocked."""
    with write_tx():
        row = free_to_change(context, snapshot_id)
        if row.group_snapshot_uuid and not is_forced:
            raise Invalid(f"Invalid snapshot: Snapshot {row.uuid} is part of group snapshot {row.group_snapshot_uuid}.")
        snapshots.begin_deleting(row, is_forced=is_forced)
    snapshots.settle(row.uuid)


def reset_status(context: RequestContext, snapshot_id: str, status: str) -> None:
    """Set a snapshot's status, for operators. Raises NotFound, Invalid, ResourceLocked."""
    if status not in SNAPSHOT_TELLABLE:
        raise Invalid(
            f"Invalid status {status[:60]}: it must be one of {', '.join(SNAPSHOT_TELLABLE)}.", field="status"
        )
    with write_tx():
        snapshots.describe(free_to_change(context, snapshot_id), status=status, is_status_forced=True)


def report_status(context: RequestContext, snapshot_id: str, status: str, *, progress: str = "") -> None:
    """Report the result of a snapshot that was `creating` or `deleting`. Raises NotFound, Invalid, ResourceLocked."""
    with write_tx():
        row = free_to_change(context, snapshot_id)
        if row.status not in REPORTED_ENDS or status not in REPORTED_ENDS[row.status]:
            words = "; ".join(f"{before} to {', '.join(after)}" for before, after in REPORTED_ENDS.items())
            raise Invalid(f"Cannot change a snapshot from {row.status} to {status[:60]}: it goes from {words}.")
        snapshots.describe(row, status=status, is_status_forced=True, progress=progress)


def revert(context: RequestContext, volume_id: str, snapshot_id: str) -> None:
    """Revert a volume to its newest snapshot; a workflow copies the data.

    Raises NotFound, Invalid for a snapshot that is not the newest or a volume that is not free, ResourceLocked.
    """
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        row = snapshots.get_visible(context, snapshot_id)
        newest = volume.snapshots.order_by("-created_at", "-pk").first()
        if newest is None or newest.pk != row.pk:
            raise Invalid(f"Invalid snapshot: Snapshot {row.uuid} is not the latest snapshot of volume {volume.uuid}.")
        if row.status != AVAILABLE or row.size_gb != volume.size_gb:
            raise Invalid(
                f"Invalid snapshot: Snapshot {row.uuid} must be available and as large as its volume; "
                f"it is {row.status}, {row.size_gb} GB of {volume.size_gb} GB."
            )
        if not operations.turn(volume.uuid, (AVAILABLE,), REVERTING):
            status = operations.counted_status(volume)
            raise Invalid(f"Invalid volume: Volume {volume.uuid} must be available, but is {status}.")
        wanted = outbox.NewRun(
            flow=REVERT_FLOW,
            action=REVERT_FLOW,
            context=context,
            resources=[f"snapshot:{row.uuid}", f"volume:{volume.uuid}"],
            instance_name=volume.name or str(volume.uuid),
            inputs={"snapshot_id": str(row.uuid), "volume_id": str(volume.uuid)},
        )
        outbox.open_run(API_ALIAS, wanted)


def set_metadata(context: RequestContext, snapshot_id: str, given: Mapping[str, str], *, keeps: bool) -> dict[str, str]:
    """Add to the metadata, or with `keeps` False replace them; returns all. Raises NotFound, Invalid."""
    there = snapshots.get_visible(context, snapshot_id).metadata if keeps else {}
    changed: dict[str, str] = update(context, snapshot_id, {"metadata": {**there, **given}}).metadata
    return changed


def unset_metadata(context: RequestContext, snapshot_id: str, key: str) -> None:
    """Remove a metadata item. Raises NotFound."""
    there = snapshots.get_visible(context, snapshot_id).metadata
    if key not in there:
        raise NotFound(f"Snapshot {snapshot_id} has no metadata with key {key[:60]}.")
    update(context, snapshot_id, {"metadata": {name: value for name, value in there.items() if name != key}})


def free_to_change(context: RequestContext, snapshot_id: str) -> Snapshot:
    """Return the snapshot, locked until the transaction ends. Raises NotFound, ResourceLocked naming the workflow."""
    row = snapshots.get_visible(context, snapshot_id)
    Snapshot.objects.select_for_update().filter(pk=row.pk).first()
    locks.require_free(f"snapshot:{row.uuid}")
    return snapshots.get_visible(context, snapshot_id)


def take(context: RequestContext, volume_id: str, snapshot_id: UUID) -> Snapshot:
    """Take a snapshot of a server's volume, in the volume's project.

    Raises Invalid for a volume that is not attached to exactly one server, Conflict for a taken id, QuotaExceeded.
    """
    try:
        with write_tx():
            volume = _lent(volume_id)
            type_name = volumes.type_name_of(volume)
            require_room(volume.project_id, VolumeUsage(0, volume.size_gb, 1), type_name=type_name)
            return begin(context, volume, SnapshotCreate(uuid=snapshot_id))
    except IntegrityError:
        raise Conflict(f"Snapshot {snapshot_id} is there already.") from None


def drop(snapshot_id: str, volume_id: str) -> None:
    """Delete such a snapshot. One that is still being taken is deleted afterwards.

    Raises NotFound, Invalid for a volume as in `take` and for another one than the snapshot's, ResourceLocked.
    """
    with write_tx():
        volume, wanted = _lent(volume_id), uuid_or_none(snapshot_id)
        row = Snapshot.objects.select_for_update().filter(uuid=wanted).first() if wanted else None
        if row is None:
            raise NotFound(f"Snapshot {snapshot_id[:60]} could not be found.")
        if row.volume_id != volume.pk:
            raise Invalid(f"Snapshot {row.uuid} is not one of volume {volume.uuid}.", field="delete_info.volume_id")
        if snapshots.turn(row.uuid, (CREATING,), DELETING):
            return  # its workflow finds nothing to mark, and the storage cleanup removes the data
        locks.require_free(f"snapshot:{row.uuid}")
        snapshots.begin_deleting(row)
    snapshots.settle(row.uuid)


def _lent(volume_id: str) -> Volume:
    """Return a volume that is attached to exactly one server, of any project. Raises Invalid."""
    wanted = uuid_or_none(volume_id)
    volume = Volume.objects.filter(uuid=wanted).first() if wanted else None
    holders = volume.attachments.filter(status=IN_USE, instance_uuid__isnull=False).count() if volume else 0
    if volume is None or holders != 1:
        how = "more than one server has it" if holders else "no server has it"
        raise Invalid(f"No snapshot of volume {volume_id[:60]} with the help of its server: {how}.", field="volume_id")
    return volume
