"""Volumes as JSON, and what a body asks for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from conductor.core.errors import Invalid
from conductor.services.volumes import VolumeWish
from conductor.volume.models import Volume, VolumeAttachment
from portal.api.base import ApiRequest
from portal.api.links import absolute

BACKEND = "novella@files#files"
TYPE_NAME = "files"
TYPE_ID = "6c7a1f0e-5d5b-4c5e-9a51-1f0b7f6f0a01"
# Sources that a volume could be made of.
NOT_OFFERED = ("imageRef", "image_id", "snapshot_id", "source_volid", "backup_id", "consistencygroup_id", "group_id")


def moment(value: datetime | None) -> str | None:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") if value else None


def links(request: ApiRequest, volume_id: str) -> list[dict[str, str]]:
    project = request.context.project_id
    return [
        {"rel": "self", "href": absolute(request, f"/volume/v3/{project}/volumes/{volume_id}")},
        {"rel": "bookmark", "href": absolute(request, f"/volume/{project}/volumes/{volume_id}")},
    ]


def summary(row: Volume, request: ApiRequest) -> dict[str, Any]:
    return {"id": str(row.uuid), "name": row.name, "links": links(request, str(row.uuid))}


def volume(row: Volume, request: ApiRequest, *, is_admin: bool = False) -> dict[str, Any]:
    shown = {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "size": row.size_gb,
        "status": row.status,
        "attachments": [_attachment(row, lent, is_admin=is_admin) for lent in _attachments(row)],
        "availability_zone": row.availability_zone,
        "bootable": "true" if row.is_bootable else "false",
        "volume_type": TYPE_NAME,
        "multiattach": False,
        "encrypted": False,
        "snapshot_id": None,
        "source_volid": None,
        "metadata": row.metadata,
        "user_id": row.user_id,
        "consistencygroup_id": None,
        "replication_status": None,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "links": links(request, str(row.uuid)),
    }
    if is_admin:
        shown |= {
            "os-vol-host-attr:host": BACKEND,
            "os-vol-tenant-attr:tenant_id": row.project_id,
            "os-vol-mig-status-attr:migstat": None,
            "os-vol-mig-status-attr:name_id": None,
            "migration_status": None,
        }
    return shown


def wanted_volume(given: Mapping[str, Any]) -> VolumeWish:
    """Raises Invalid naming what is not offered."""
    for name in NOT_OFFERED:
        if given.get(name):
            raise Invalid(
                f"Invalid input for field/attribute volume.{name}. Volumes are made empty here: leave it out.",
                field=f"volume.{name}",
            )
    if given.get("size") is None:
        raise Invalid("Invalid input for field/attribute volume.size. 'size' is a required property.", field="size")
    if given.get("volume_type") not in (None, "", TYPE_NAME, TYPE_ID):
        raise Invalid(
            f"Volume type with name {given['volume_type']} could not be found; there is {TYPE_NAME}.",
            field="volume.volume_type",
        )
    if str(given.get("multiattach")).lower() in ("true", "1", "on", "yes"):
        raise Invalid("A volume of this cloud is for one server at a time.", field="volume.multiattach")
    if given.get("availability_zone") not in (None, "", "nova"):
        raise Invalid(
            f"Availability zone '{given['availability_zone']}' is invalid: volumes are in the zone nova.",
            field="volume.availability_zone",
        )
    return VolumeWish(
        size_gb=int(given["size"]),
        name=given.get("name") or given.get("display_name") or "",
        description=given["description"] if "description" in given else given.get("display_description"),
        metadata=given.get("metadata") or {},
    )


def changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fields of Volume."""
    found: dict[str, Any] = {}
    for name, field in (("display_name", "name"), ("name", "name")):
        if name in given:
            found[field] = given[name] or ""
    for name in ("display_description", "description"):
        if name in given:
            found["description"] = given[name]
    return found | ({"metadata": given["metadata"]} if "metadata" in given else {})


def volume_type() -> dict[str, Any]:
    return {
        "id": TYPE_ID,
        "name": TYPE_NAME,
        "description": "Files on the storage of this cloud",
        "is_public": True,
        "os-volume-type-access:is_public": True,
        "qos_specs_id": None,
        "extra_specs": {},
    }


def _attachments(row: Volume) -> list[VolumeAttachment]:
    lent = getattr(row, "attachment", None)
    return [lent] if lent is not None and row.status in ("in-use", "detaching") else []


def _attachment(row: Volume, lent: VolumeAttachment, *, is_admin: bool) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "volume_id": str(row.uuid),
        "attachment_id": str(lent.uuid),
        "server_id": str(lent.instance_uuid),
        "host_name": (lent.host or None) if is_admin else None,
        "device": lent.device,
        "attached_at": moment(lent.attached_at),
    }
