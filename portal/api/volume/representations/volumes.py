"""JSON of volumes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from conductor.services.volumes.volumes import attachments_of, metadata_of, type_name_of
from conductor.volume.capabilities import BACKEND
from conductor.volume.models import Volume, VolumeAttachment
from conductor.volume.states import SNAPSHOT, VOLUME
from conductor.volume.types import DEFAULT_UUID
from portal.api.base import ApiRequest
from portal.api.links import absolute

SERVICE_UUID = str(uuid5(NAMESPACE_DNS, BACKEND))


def moment(value: datetime | None) -> str | None:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") if value else None


def links(request: ApiRequest, noun: str, uuid: str) -> list[dict[str, str]]:
    project = request.context.project_id
    return [
        {"rel": "self", "href": absolute(request, f"/volume/v3/{project}/{noun}/{uuid}")},
        {"rel": "bookmark", "href": absolute(request, f"/volume/{project}/{noun}/{uuid}")},
    ]


def summary(row: Volume, request: ApiRequest) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name, "links": links(request, "volumes", str(row.uuid))}


def volume(row: Volume, request: ApiRequest, *, is_admin: bool = False, is_new: bool = False) -> dict[str, Any]:
    """Return a volume; a new or changed one has fewer members."""
    shown = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "size": row.size_gb,
        "status": row.status,
        "attachments": [_attachment(row, lent, is_admin=is_admin) for lent in attachments_of(row)],
        "availability_zone": row.availability_zone,
        "bootable": "true" if row.is_bootable else "false",
        "volume_type": type_name_of(row),
        "multiattach": row.is_multiattach,
        "encrypted": False,
        "snapshot_id": str(row.source_uuid) if row.source_kind == SNAPSHOT else None,
        "source_volid": str(row.source_uuid) if row.source_kind == VOLUME else None,
        "metadata": dict(row.metadata) if is_new else metadata_of(row),
        "user_id": row.user_id,
        "consistencygroup_id": None,
        "replication_status": None,
        "migration_status": None,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "links": links(request, "volumes", str(row.uuid)),
        **_since(row, request, is_admin=is_admin),
    }
    if row.image_metadata and not is_new:
        shown["volume_image_metadata"] = row.image_metadata
    if is_admin and not is_new:
        shown |= {"os-vol-host-attr:host": BACKEND, "os-vol-mig-status-attr:migstat": None}
        shown["os-vol-mig-status-attr:name_id"] = None
    if not is_new:
        shown["os-vol-tenant-attr:tenant_id"] = row.project_id
    return shown


def _since(row: Volume, request: ApiRequest, *, is_admin: bool) -> dict[str, Any]:
    """Return the fields of later versions."""
    version = request.microversion
    fields: tuple[tuple[str, str, Any], ...] = (
        ("3.13", "group_id", str(row.group_uuid) if row.group_uuid else None),
        ("3.48", "service_uuid", SERVICE_UUID),
        ("3.48", "shared_targets", None if version.covers("3.69") else False),
        ("3.63", "volume_type_id", str(row.volume_type.uuid if row.volume_type else DEFAULT_UUID)),
        ("3.65", "consumes_quota", True),
    )
    found = {name: value for since, name, value in fields if version.covers(since)}
    if is_admin:
        for since, name in (("3.21", "provider_id"), ("3.61", "cluster_name")):
            found |= {name: None} if version.covers(since) else {}
    return found


def _attachment(row: Volume, lent: VolumeAttachment, *, is_admin: bool) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "volume_id": str(row.uuid),
        "attachment_id": str(lent.uuid),
        "server_id": str(lent.instance_uuid) if lent.instance_uuid else None,
        "host_name": (lent.host or None) if is_admin else None,
        "device": lent.device,
        "attached_at": moment(lent.attached_at),
    }
