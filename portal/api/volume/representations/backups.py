"""JSON of backups."""

from __future__ import annotations

from typing import Any

from conductor.volume.models import Backup
from portal.api.base import ApiRequest
from portal.api.volume.representations.volumes import links, moment


def summary(row: Backup, request: ApiRequest) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name, "links": links(request, "backups", str(row.uuid))}


def backup(row: Backup, request: ApiRequest, *, has_dependents: bool, shows_project: bool) -> dict[str, Any]:
    version = request.microversion
    shown: dict[str, Any] = {
        **summary(row, request),
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
    if version.covers("3.18") and shows_project:
        shown["os-backup-project-attr:project_id"] = row.project_id
    if version.covers("3.43"):
        shown["metadata"] = row.metadata
    if version.covers("3.56"):
        shown["user_id"] = row.user_id
    return shown
