"""Snapshots as people take, change and delete them, and volumes that go back to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.journal import foreign_locks
from conductor.rpc import outbox
from conductor.services import volumes
from conductor.services.volume_quotas import require_room
from conductor.transactions import write_tx
from conductor.volume import operations, snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.queries import Usage, get_visible
from conductor.volume.snapshots import SnapshotWish
from conductor.volume.states import AVAILABLE, IN_USE, REVERTING, SNAPSHOT_TELLABLE

FLOW = "create_snapshot"
REVERT_FLOW = "revert_volume"
# What a snapshot that is under way may be told to have become.
TOLD_ENDS = {"creating": ("creating", "available", "error"), "deleting": ("deleting", "error", "error_deleting")}


def create(
    context: RequestContext,
    volume_id: str,
    wish: SnapshotWish,
    *,
    may_be_in_use: bool = False,
    run_uuid: UUID | None = None,
) -> Snapshot:
    """Have a volume's data kept as they are; a workflow copies them.

    What a server writes meanwhile may be in it or not. Raises NotFound, Invalid for a volume that is not ready,
    QuotaExceeded.
    """
    volumes.check_metadata(wish.metadata)
    with write_tx():
        volume = get_visible(context, volume_id)
        require_ready(volume, may_be_in_use=may_be_in_use)
        type_name = volumes.type_name_of(volume)
        require_room(volume.project_id, Usage(0, volume.size_gb, 1), type_name=type_name)
        return begin(context, volume, wish, run_uuid)


def begin(context: RequestContext, volume: Volume, wish: SnapshotWish, run_uuid: UUID | None = None) -> Snapshot:
    """Have the row and the workflow; inside the write transaction that counted the quota."""
    row = snapshots.insert(context, volume, wish)
    wanted = outbox.NewRun(
        flow=FLOW,
        action=FLOW,
        context=context,
        resources=[f"snapshot:{row.uuid}", f"volume:{volume.uuid}"],
        instance_name=row.name or str(row.uuid),
        inputs={"snapshot_id": str(row.uuid), "volume_id": str(volume.uuid)},
        run_uuid=run_uuid,
    )
    outbox.open_run(API_ALIAS, wanted, may_wait=True)  # behind whoever works on the volume now
    return row


def require_ready(volume: Volume, *, may_be_in_use: bool) -> None:
    """Raises Invalid for a volume that cannot be copied now."""
    if volume.status == AVAILABLE or (may_be_in_use and volume.status == IN_USE):
        return
    raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be available, but is {volume.status}.")


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
    """An operator says what a snapshot's status is. Raises NotFound, Invalid, ResourceLocked."""
    if status not in SNAPSHOT_TELLABLE:
        raise Invalid(
            f"Invalid status {status[:60]}: it must be one of {', '.join(SNAPSHOT_TELLABLE)}.", field="status"
        )
    with write_tx():
        snapshots.describe(free_to_change(context, snapshot_id), status=status, status_is_told=True)


def tell_status(context: RequestContext, snapshot_id: str, status: str, *, progress: str = "") -> None:
    """Say what became of a snapshot that was `creating` or `deleting`. Raises NotFound, Invalid, ResourceLocked."""
    with write_tx():
        row = free_to_change(context, snapshot_id)
        if row.status not in TOLD_ENDS or status not in TOLD_ENDS[row.status]:
            words = "; ".join(f"{before} to {', '.join(after)}" for before, after in TOLD_ENDS.items())
            raise Invalid(f"Cannot change a snapshot from {row.status} to {status[:60]}: it goes from {words}.")
        snapshots.describe(row, status=status, status_is_told=True, progress=progress)


def revert(context: RequestContext, volume_id: str, snapshot_id: str) -> None:
    """Have a volume's data again as its newest snapshot has them; a workflow copies them.

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
            raise Invalid(f"Invalid volume: Volume {volume.uuid} must be available, but is {volume.status}.")
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
    """Add to the metadata, or with `keeps` False replace them; all of them. Raises NotFound, Invalid."""
    there = snapshots.get_visible(context, snapshot_id).metadata if keeps else {}
    changed: dict[str, str] = update(context, snapshot_id, {"metadata": {**there, **given}}).metadata
    return changed


def unset_metadata(context: RequestContext, snapshot_id: str, key: str) -> None:
    """Raises NotFound."""
    there = snapshots.get_visible(context, snapshot_id).metadata
    if key not in there:
        raise NotFound(f"Snapshot {snapshot_id} has no metadata with key {key[:60]}.")
    update(context, snapshot_id, {"metadata": {name: value for name, value in there.items() if name != key}})


def free_to_change(context: RequestContext, snapshot_id: str) -> Snapshot:
    """The snapshot, held until the transaction ends. Raises NotFound, ResourceLocked naming who works on it."""
    row = snapshots.get_visible(context, snapshot_id)
    Snapshot.objects.select_for_update().filter(pk=row.pk).first()
    foreign_locks.require_free(f"snapshot:{row.uuid}")
    return snapshots.get_visible(context, snapshot_id)
