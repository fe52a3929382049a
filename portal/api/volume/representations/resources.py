"""JSON of snapshots, types, attachments and the volume API's other resources."""

from __future__ import annotations

from typing import Any

from conductor.services.volumes.attachments import is_a_servers
from conductor.volume.backends import HostTotals, VolumeServiceView
from conductor.volume.models import (
    GroupSnapshot,
    GroupType,
    QosSpec,
    Snapshot,
    Transfer,
    VolumeAttachment,
    VolumeGroup,
    VolumeMessage,
    VolumeType,
)
from portal.api.base import ApiRequest
from portal.api.volume.representations.volumes import links, moment

LENT_WORDS = {"in-use": "attached"}


def snapshot(row: Snapshot, request: ApiRequest, *, is_detailed: bool = True) -> dict[str, Any]:
    version = request.microversion
    shown: dict[str, Any] = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "volume_id": str(row.volume.uuid),
        "status": row.status,
        "size": row.size_gb,
        "metadata": row.metadata,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }
    if is_detailed:
        done = "100%" if row.status == "available" else "0%"
        shown["os-extended-snapshot-attributes:progress"] = row.progress or done
        shown["os-extended-snapshot-attributes:project_id"] = row.project_id
    if version.covers("3.14"):
        shown["group_snapshot_id"] = str(row.group_snapshot_uuid) if row.group_snapshot_uuid else None
    if version.covers("3.41"):
        shown["user_id"] = row.user_id
    if version.covers("3.65"):
        shown["consumes_quota"] = True
    return shown


def volume_type(row: VolumeType, *, is_admin: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "is_public": row.is_public,
        "os-volume-type-access:is_public": row.is_public,
        "extra_specs": row.extra_specs if is_admin else user_visible(row.extra_specs),
    }
    if is_admin:
        shown["qos_specs_id"] = str(row.qos_spec.uuid) if row.qos_spec else None
    return shown


def user_visible(extra_specs: dict[str, str]) -> dict[str, str]:
    """Return the extra specs that users see; the others describe the storage, for operators."""
    return {key: value for key, value in extra_specs.items() if key in ("multiattach", "RESKEY:availability_zones")}


def encryption(row: VolumeType) -> dict[str, Any]:
    """Return the encryption that was set, or an empty object."""
    if not row.encryption:
        return {}
    return {
        **row.encryption,
        "volume_type_id": str(row.uuid),
        "deleted": False,
        "created_at": moment(row.updated_at),
        "updated_at": None,
        "deleted_at": None,
    }


def qos(row: QosSpec) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name, "consumer": row.consumer, "specs": row.specs}


def transfer(row: Transfer, request: ApiRequest, *, is_detailed: bool = True) -> dict[str, Any]:
    version = request.microversion
    shown: dict[str, Any] = {
        "id": str(row.uuid),
        "volume_id": str(row.volume.uuid),
        "name": row.name,
        "links": links(request, "os-volume-transfer", str(row.uuid)),
    }
    if not is_detailed:
        return shown
    shown["created_at"] = moment(row.created_at)
    if version.covers("3.55"):
        shown["no_snapshots"] = not row.with_snapshots
    if version.covers("3.57"):
        shown["source_project_id"] = row.source_project_id
        shown["destination_project_id"] = row.destination_project_id
        shown["accepted"] = row.is_accepted
    return shown


def attachment_summary(row: VolumeAttachment) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "volume_id": str(row.volume.uuid),
        "instance": str(row.instance_uuid) if row.instance_uuid else None,
        "status": LENT_WORDS.get(row.status, row.status),
    }


def attachment(row: VolumeAttachment) -> dict[str, Any]:
    """Return an attachment. Connection details of server attachments stay hidden: this cloud's hosts have them."""
    is_visible = not is_a_servers(row) and bool(row.connector)
    connection = {
        "attachment_id": str(row.uuid),
        "driver_volume_type": "file",
        "access_mode": row.mode,
        "encrypted": False,
        "volume_id": str(row.volume.uuid),
    }
    return {
        **attachment_summary(row),
        "attached_at": moment(row.attached_at) or "",
        "detached_at": "",
        "attach_mode": row.mode,
        "connection_info": connection if is_visible else {},
    }


def message(row: VolumeMessage, request: ApiRequest) -> dict[str, Any]:
    return {**message_fields(row), "links": links(request, "messages", str(row.uuid))}


def message_fields(row: VolumeMessage) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "event_id": row.event_id,
        "user_message": row.text,
        "message_level": row.level,
        "resource_type": row.resource_type,
        "resource_uuid": str(row.resource_uuid) if row.resource_uuid else None,
        "request_id": row.request_id,
        "created_at": moment(row.created_at),
        "guaranteed_until": moment(row.expires_at),
    }


def service(row: VolumeServiceView, request: ApiRequest) -> dict[str, Any]:
    is_storage = row.binary == "cinder-volume"
    shown: dict[str, Any] = {
        "binary": row.binary,
        "host": row.host,
        "zone": "nova",
        "status": "disabled" if row.is_disabled else "enabled",
        "state": "up",
        "updated_at": moment(row.updated_at),
        "disabled_reason": row.disabled_reason,
    }
    if is_storage:
        shown |= {"replication_status": "disabled", "active_backend_id": None, "frozen": row.is_frozen}
    if request.microversion.covers("3.7"):
        shown["cluster"] = None
    if is_storage and request.microversion.covers("3.49"):
        shown["backend_state"] = "up"
    return shown


def host_totals(row: HostTotals, host: str) -> dict[str, Any]:
    return {
        "resource": {
            "host": host,
            "project": row.project_id,
            "volume_count": str(row.volumes),
            "total_volume_gb": str(row.volume_gb),
            "snapshot_count": str(row.snapshots),
            "total_snapshot_gb": str(row.snapshot_gb),
        }
    }


def group_type(row: GroupType) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "is_public": row.is_public,
        "group_specs": row.specs,
    }


def group(row: VolumeGroup, request: ApiRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "availability_zone": row.availability_zone,
        "group_type": str(row.group_type.uuid),
        "volume_types": row.volume_types,
        "created_at": moment(row.created_at),
    }
    if request.microversion.covers("3.14"):
        shown["group_snapshot_id"] = str(row.source_snapshot_uuid) if row.source_snapshot_uuid else None
        shown["source_group_id"] = str(row.source_group_uuid) if row.source_group_uuid else None
    if request.microversion.covers("3.38"):
        shown["replication_status"] = "disabled"
    if request.microversion.covers("3.58"):
        shown["project_id"] = row.project_id
    return shown


def group_snapshot(row: GroupSnapshot, request: ApiRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "group_id": str(row.group.uuid),
        "group_type_id": str(row.group.group_type.uuid),
        "created_at": moment(row.created_at),
    }
    if request.microversion.covers("3.58"):
        shown["project_id"] = row.project_id
    return shown
