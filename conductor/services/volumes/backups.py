"""Backups of volumes: create, change, restore and delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.db.transactions import write_tx
from conductor.journal import locks
from conductor.rpc import outbox
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import volumes
from conductor.volume import backup_store, backups, operations, snapshots, types
from conductor.volume.backups import BackupCreate, BackupQuery
from conductor.volume.models import Backup, Snapshot, Volume
from conductor.volume.operations import VolumeCreate
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.states import AVAILABLE, BACKING_UP, CREATING, IN_USE, RESTORING_BACKUP

__all__ = [
    "BackupAsk", "BackupQuery", "RestoreResult", "create", "delete", "get", "list_page", "reset_status", "restore",
    "update",
]  # fmt: skip

FLOW = "backup_volume"
RESTORE_FLOW = "restore_backup"
ZONE = "nova"


@dataclass(frozen=True, slots=True)
class BackupAsk:
    """A backup to create: of a volume, or of one of its snapshots."""

    volume_id: str
    requested: BackupCreate
    snapshot_id: str | None = None
    is_incremental: bool = False
    may_be_in_use: bool = False


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A restore under way, and its volume."""

    backup_id: str
    volume: Volume


def list_page(context: RequestContext, query: BackupQuery) -> tuple[list[Backup], set[int]]:
    """Return a page of backups, and the keys of those on which later ones depend. Raises Invalid."""
    rows = backups.list_visible(context, query)
    return rows, backups.with_dependents(rows)


def get(context: RequestContext, backup_id: str) -> tuple[Backup, bool]:
    """Return a backup, and whether later ones depend on it. Raises NotFound."""
    row = backups.get_visible(context, backup_id)
    return row, row.dependents.exists()


def create(context: RequestContext, ask: BackupAsk) -> Backup:
    """Back up a volume; a workflow copies the data.

    What a server writes meanwhile may be included or not. Raises NotFound, Invalid for a volume that is not ready or an
    incremental backup without a parent, QuotaExceeded, ResourceLocked.
    """
    volumes.check_metadata(ask.requested.metadata)
    if ask.requested.availability_zone not in (None, "", ZONE):
        raise Invalid(
            f"Availability zone '{ask.requested.availability_zone}' is invalid: backups are in the zone {ZONE}.",
            field="backup.availability_zone",
        )
    with write_tx():
        snapshot = _snapshot_of(context, ask)
        volume = volumes.free_to_change(context, ask.volume_id)
        parent = _parent_of(volume, ask)
        size_gb = snapshot.size_gb if snapshot else volume.size_gb
        require_room(volume.project_id, VolumeUsage(0, 0, backups=1, backup_gigabytes=size_gb))
        was = volume.status
        if snapshot is None:
            _begin(volume, may_be_in_use=ask.may_be_in_use)
        row = backups.insert(context, volume, ask.requested, snapshot=snapshot, parent=parent)
        _open(context, row, snapshot, was)
    return row


def _snapshot_of(context: RequestContext, ask: BackupAsk) -> Snapshot | None:
    """Return the snapshot to back up. Raises NotFound, Invalid for another volume's or one that is not complete."""
    if not ask.snapshot_id:
        return None
    row = snapshots.get_visible(context, ask.snapshot_id)
    if str(row.volume.uuid) != ask.volume_id:
        raise Invalid(
            f"Invalid snapshot: Snapshot {row.uuid} is not of volume {ask.volume_id}.", field="backup.snapshot_id"
        )
    if row.status != AVAILABLE:
        raise Invalid(
            f"Invalid snapshot: Snapshot {row.uuid} status must be available, but is {row.status}.",
            field="backup.snapshot_id",
        )
    return row


def _parent_of(volume: Volume, ask: BackupAsk) -> Backup | None:
    """Return the parent of an incremental backup. Raises Invalid where there is none."""
    if not ask.is_incremental:
        return None
    parent = backups.newest_of(volume)
    if parent is None:
        raise Invalid(
            "Invalid backup: No backups available to do an incremental backup: make a full one first.",
            field="backup.incremental",
        )
    return parent


def _begin(volume: Volume, *, may_be_in_use: bool) -> None:
    before = (AVAILABLE, IN_USE) if may_be_in_use else (AVAILABLE,)
    if not operations.turn(volume.uuid, before, BACKING_UP):
        raise Invalid(
            f"Invalid volume: Volume {volume.uuid} status must be {' or '.join(before)} to be backed up, "
            f"but is {operations.counted_status(volume)}."
            + (" A volume in use needs force." if volume.status == IN_USE else "")
        )


def _open(context: RequestContext, row: Backup, snapshot: Snapshot | None, was: str) -> None:
    """Open the run; it waits for workflows on the snapshot, and for other backups with the same parent."""
    source = f"snapshot:{snapshot.uuid}" if snapshot else f"volume:{row.volume_uuid}"
    wanted = outbox.NewRun(
        flow=FLOW,
        action=FLOW,
        context=context,
        resources=[f"backup:{row.uuid}", source, *([f"backup:{row.parent.uuid}"] if row.parent else [])],
        instance_name=row.name or str(row.uuid),
        inputs={
            "backup_id": str(row.uuid),
            "volume_id": str(row.volume_uuid),
            "snapshot_id": str(snapshot.uuid) if snapshot else None,
            "status_before": was,
        },
    )
    outbox.open_run(API_ALIAS, wanted, may_wait=True)


def update(context: RequestContext, backup_id: str, values: Mapping[str, Any]) -> Backup:
    """Change the name, the description or the metadata. Raises NotFound, Invalid."""
    volumes.check_metadata(values.get("metadata", {}))
    with write_tx():
        backups.describe(backups.get_visible(context, backup_id), **values)
    return backups.get_visible(context, backup_id)


def delete(context: RequestContext, backup_id: str, *, is_forced: bool = False) -> None:
    """Delete a backup and its data. Raises NotFound, Invalid, ResourceLocked."""
    with write_tx():
        row = _free_to_change(context, backup_id)
        backups.begin_deleting(row, is_forced=is_forced)
    backups.settle(row.uuid)


def reset_status(context: RequestContext, backup_id: str, status: str) -> None:
    """Set a backup's status, for operators. Raises NotFound, Invalid, ResourceLocked."""
    if status not in backups.TELLABLE:
        allowed = ", ".join(backups.TELLABLE)
        raise Invalid(f"Invalid status {status[:60]}: it must be one of {allowed}.", field="os-reset_status.status")
    with write_tx():
        row = _free_to_change(context, backup_id)
        if status == AVAILABLE and not backup_store.is_whole(row.data_uuid):
            raise Invalid(f"Invalid backup: the data of backup {row.uuid} are not whole: it cannot be available.")
        backups.describe(row, status=status, is_status_forced=True)


def restore(context: RequestContext, backup_id: str, *, volume_id: str | None, name: str | None) -> RestoreResult:
    """Restore a backup to an existing free volume, or a new one; a workflow copies the data.

    Raises NotFound, Invalid for a backup or volume that is not ready or a volume that is too small, QuotaExceeded,
    ResourceLocked.
    """
    with write_tx():
        row = _free_to_change(context, backup_id)
        if not backups.turn(row.uuid, (AVAILABLE,), backups.RESTORING):
            raise Invalid(f"Invalid backup: Backup status must be available to restore, but is {row.status}.")
        volume = _existing(context, row, volume_id) if volume_id else _new_volume(context, row, name)
        wanted = outbox.NewRun(
            flow=RESTORE_FLOW,
            action=RESTORE_FLOW,
            context=context,
            resources=[f"backup:{row.uuid}", f"volume:{volume.uuid}"],
            instance_name=volume.name or str(volume.uuid),
            inputs={"backup_id": str(row.uuid), "volume_id": str(volume.uuid), "is_new": not volume_id},
        )
        outbox.open_run(API_ALIAS, wanted)
    return RestoreResult(str(row.uuid), volume)


def _existing(context: RequestContext, row: Backup, volume_id: str) -> Volume:
    volume = volumes.free_to_change(context, volume_id)
    if volume.size_gb < row.size_gb:
        raise Invalid(
            f"Invalid volume: volume size {volume.size_gb} is too small to restore backup of size {row.size_gb}.",
            field="restore.volume_id",
        )
    if not operations.turn(volume.uuid, (AVAILABLE, "error_restoring"), RESTORING_BACKUP):
        raise Invalid(
            f"Invalid volume: Volume to be restored to must be available, but is {operations.counted_status(volume)}."
        )
    return volume


def _new_volume(context: RequestContext, row: Backup, name: str | None) -> Volume:
    wanted = types.default()
    volumes.check_type(wanted, field="restore.volume_id")
    require_room(context.project_id, VolumeUsage(1, row.size_gb), size_gb=row.size_gb, type_name=wanted.name)
    facts = row.volume_facts
    requested = VolumeCreate(
        size_gb=row.size_gb,
        name=name or f"restore_backup_{row.uuid}",
        description=facts.get("description"),
        metadata=facts.get("metadata") or {},
        is_bootable=bool(facts.get("is_bootable")),
        image_metadata=facts.get("image_metadata") or {},
        volume_type_id=wanted.pk,
        is_multiattach=types.is_shareable(wanted),
    )
    volume = operations.insert(context, requested)
    operations.turn(volume.uuid, (CREATING,), RESTORING_BACKUP)
    return get_visible(context, str(volume.uuid))


def _free_to_change(context: RequestContext, backup_id: str) -> Backup:
    """Return the backup, locked until the transaction ends. Raises NotFound, ResourceLocked naming the workflow."""
    row = backups.get_visible(context, backup_id)
    Backup.objects.select_for_update().filter(pk=row.pk).first()
    locks.require_free(f"backup:{row.uuid}")
    return backups.get_visible(context, backup_id)
