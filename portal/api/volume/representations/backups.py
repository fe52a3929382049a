"""JSON of backups, and bodies parsed into backups to create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.services.volumes.backups import BackupAsk
from conductor.volume.backups import BackupCreate
from conductor.volume.models import Backup
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean
from portal.api.volume.representations.volumes import links, moment


def summary(row: Backup, request: ApiRequest) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name, "links": links(request, "backups", str(row.uuid))}


def backup(row: Backup, request: ApiRequest, *, has_dependents: bool, shows_project: bool) -> dict[str, Any]:
    version = request.microversion
    shown = {**summary(row, request), **backup_fields(row, has_dependents=has_dependents)}
    if version.covers("3.18") and shows_project:
        shown["os-backup-project-attr:project_id"] = row.project_id
    if version.covers("3.43"):
        shown["metadata"] = row.metadata
    if version.covers("3.56"):
        shown["user_id"] = row.user_id
    return shown


def backup_fields(row: Backup, *, has_dependents: bool) -> dict[str, Any]:
    """Return what every microversion shows of a backup, without links."""
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "fail_reason": row.fail_reason,
        "size": row.size_gb,
        "object_count": row.object_count,
        "volume_id": str(row.volume_uuid),
        "snapshot_id": str(row.snapshot_uuid) if row.snapshot_uuid else None,
        "container": row.container,
        "availability_zone": row.availability_zone,
        "is_incremental": row.parent is not None,
        "has_dependent_backups": has_dependents,
        "data_timestamp": moment(row.data_timestamp),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }


def requested_backup(given: Mapping[str, Any]) -> BackupAsk:
    """Return the backup that a checked body asks for. Raises Invalid."""
    requested = BackupCreate(
        name=given.get("name"),
        description=given.get("description"),
        container=given.get("container"),
        availability_zone=given.get("availability_zone"),
        metadata=given.get("metadata") or {},
    )
    return BackupAsk(
        volume_id=given["volume_id"],
        requested=requested,
        snapshot_id=given.get("snapshot_id"),
        is_incremental=as_boolean(given.get("incremental") or False, "backup.incremental"),
        may_be_in_use=as_boolean(given.get("force") or False, "backup.force"),
    )
