"""Values of actions that create images of servers, and bodies that attach volumes and interfaces."""

from __future__ import annotations

from functools import cache

from portal.api.compute.schemas.servers import HOST, METADATA, NULLABLE_UUID, TAG, UUID, ZONE
from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, NAME, NON_NEGATIVE_INTEGER, Schema, closed, wrapped

CREATE_IMAGE = closed({"name": NAME, "metadata": METADATA}, required=("name",))
CREATE_BACKUP = closed(
    {
        "name": NAME,
        "backup_type": {"type": "string", "maxLength": 255},
        "rotation": NON_NEGATIVE_INTEGER,
        "metadata": METADATA,
    },
    required=("name", "backup_type", "rotation"),
)


@cache
def unshelve(version: Microversion) -> Schema:
    """Null before 2.77; a zone from 2.77; a zone, a null zone or a host from 2.91."""
    if not version.covers("2.77"):
        return {"type": ["null", "object", "string"], "maxProperties": 0, "maxLength": 0}
    if not version.covers("2.91"):
        return {"anyOf": [{"type": "null"}, closed({"availability_zone": ZONE}, required=("availability_zone",))]}
    zone = {"anyOf": [ZONE, {"type": "null"}]}
    return {"anyOf": [{"type": "null"}, {**closed({"availability_zone": zone, "host": HOST}), "minProperties": 1}]}


_DEVICE: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": r"(^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*$",
}


@cache
def attach_volume(version: Microversion) -> Schema:
    """POST /servers/{id}/os-volume_attachments."""
    members: Schema = {"volumeId": UUID, "device": _DEVICE}
    if version.covers("2.49"):
        members["tag"] = TAG
    if version.covers("2.79"):
        members["delete_on_termination"] = BOOLEAN
    return wrapped("volumeAttachment", members, required=("volumeId",))


@cache
def update_attachment(version: Microversion) -> Schema:
    """PUT /servers/{id}/os-volume_attachments/{volume}: also accepts an attachment as the API returns it."""
    members: Schema = {"volumeId": UUID}
    if version.covers("2.85"):
        members |= {
            "delete_on_termination": BOOLEAN,
            "device": _DEVICE,
            "tag": {"anyOf": [TAG, {"type": "null"}]},
            "serverId": UUID,
            "id": UUID,
        }
    return wrapped("volumeAttachment", members, required=("volumeId",))


@cache
def attach_interface(version: Microversion) -> Schema:
    """POST /servers/{id}/os-interface; the body may be empty."""
    members: Schema = {
        "net_id": NULLABLE_UUID,
        "port_id": NULLABLE_UUID,
        "fixed_ips": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": closed({"ip_address": {"type": "string", "format": "ip"}}, required=("ip_address",)),
        },
    }
    if version.covers("2.49"):
        members["tag"] = TAG
    return closed({"interfaceAttachment": closed(members)})
