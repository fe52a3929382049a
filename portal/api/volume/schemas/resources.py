"""Bodies of the volume API: types, transfers, attachments, services and groups."""

from __future__ import annotations

from portal.api.schema_parts import BOOLEAN, UUID, Schema, closed, named, wrapped
from portal.api.volume.schemas.volumes import NULLABLE

NAME: Schema = named({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"})
_SPEC_NAME: Schema = {"minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9\-_:. ]+\Z"}
SPECS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "null"], "maxLength": 255},
    "propertyNames": _SPEC_NAME,
}
_TYPE: Schema = {"name": NAME, "description": NULLABLE, "is_public": BOOLEAN}
CREATE_TYPE = wrapped(
    "volume_type", {**_TYPE, "os-volume-type-access:is_public": BOOLEAN, "extra_specs": SPECS}, required=("name",)
)
UPDATE_TYPE = wrapped("volume_type", {**_TYPE, "name": {"anyOf": [NAME, {"type": "null"}]}})
EXTRA_SPECS = closed({"extra_specs": {**SPECS, "minProperties": 1}}, required=("extra_specs",))
ONE_SPEC: Schema = {**SPECS, "minProperties": 1, "maxProperties": 1}
_PROJECT = {"project": {"type": "string", "minLength": 1, "maxLength": 64}}
ADD_ACCESS = wrapped("addProjectAccess", _PROJECT, required=("project",))
REMOVE_ACCESS = wrapped("removeProjectAccess", _PROJECT, required=("project",))
_ENCRYPTION: Schema = {
    "provider": {"type": "string", "minLength": 1, "maxLength": 255},
    "cipher": NULLABLE,
    "key_size": {
        "type": ["integer", "string", "null"],
        "minimum": 0,
        "maximum": 2**31 - 1,
        "pattern": r"^[0-9]{1,9}\Z",
    },
    "control_location": {"enum": ["front-end", "back-end"]},
}
CREATE_ENCRYPTION = wrapped("encryption", _ENCRYPTION, required=("provider", "control_location"))
UPDATE_ENCRYPTION = wrapped("encryption", _ENCRYPTION)
_CONSUMER: Schema = {"enum": ["front-end", "back-end", "both"]}
CREATE_QOS = closed(
    {
        "qos_specs": {
            "type": "object",
            "properties": {"name": NAME, "consumer": _CONSUMER},
            "required": ["name"],
            "additionalProperties": {"type": "string", "maxLength": 255},
            "propertyNames": _SPEC_NAME,
        }
    },
    required=("qos_specs",),
)
SET_QOS = closed(
    {
        "qos_specs": {
            "type": "object",
            "properties": {"consumer": _CONSUMER},
            "additionalProperties": {"type": "string", "maxLength": 255},
            "propertyNames": _SPEC_NAME,
            "minProperties": 1,
        }
    },
    required=("qos_specs",),
)
UNSET_QOS = closed(
    {"keys": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}, "uniqueItems": True}},
    required=("keys",),
)
_TRANSFER: Schema = {"volume_id": UUID, "name": named(NULLABLE)}
CREATE_TRANSFER = wrapped("transfer", _TRANSFER, required=("volume_id",))
CREATE_TRANSFER_355 = wrapped("transfer", {**_TRANSFER, "no_snapshots": BOOLEAN}, required=("volume_id",))
ACCEPT_TRANSFER = wrapped(
    "accept", {"auth_key": {"type": ["string", "integer"], "maxLength": 255}}, required=("auth_key",)
)
_ATTACHMENT: Schema = {
    "volume_uuid": UUID,
    "instance_uuid": {"anyOf": [UUID, {"type": "null"}], "x-fix": "It must be a uuid."},
    "connector": {"type": ["object", "null"]},
}
CREATE_ATTACHMENT = wrapped("attachment", _ATTACHMENT, required=("volume_uuid",))
CREATE_ATTACHMENT_354 = wrapped(
    "attachment", {**_ATTACHMENT, "mode": {"enum": ["rw", "ro"]}}, required=("volume_uuid",)
)
UPDATE_ATTACHMENT = wrapped(
    "attachment", {"connector": {"type": "object", "minProperties": 1}}, required=("connector",)
)
COMPLETE_ATTACHMENT = closed({"os-complete": {"type": ["object", "null"]}}, required=("os-complete",))
SERVICE = closed(
    {
        "binary": {"type": "string", "minLength": 1, "maxLength": 255},
        "host": {"type": "string", "minLength": 1, "maxLength": 255},
        "cluster": NULLABLE,
        "service": NULLABLE,
        "disabled_reason": {"type": ["string", "null"], "minLength": 1, "maxLength": 255},
    }
)
HOST = closed({"host": {"type": "string", "minLength": 1, "maxLength": 255}}, required=("host",))
GROUP_TYPE: Schema = {"name": NAME, "description": NULLABLE, "is_public": BOOLEAN, "group_specs": SPECS}
CREATE_GROUP_TYPE = wrapped("group_type", GROUP_TYPE, required=("name",))
UPDATE_GROUP_TYPE = wrapped("group_type", GROUP_TYPE)
GROUP_SPECS = closed({"group_specs": {**SPECS, "minProperties": 1}}, required=("group_specs",))
_DESCRIBED: Schema = {"name": named(NULLABLE), "description": NULLABLE}
CREATE_GROUP = wrapped(
    "group",
    {
        **_DESCRIBED,
        "group_type": {"type": "string", "minLength": 1, "maxLength": 255},
        "volume_types": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 255},
            "minItems": 1,
            "uniqueItems": True,
        },
        "availability_zone": NULLABLE,
    },
    required=("group_type", "volume_types"),
)
UPDATE_GROUP = wrapped(
    "group", {**_DESCRIBED, "add_volumes": {"type": ["string", "null"]}, "remove_volumes": {"type": ["string", "null"]}}
)
GROUP_FROM_SOURCE = wrapped("create-from-src", {**_DESCRIBED, "group_snapshot_id": UUID, "source_group_id": UUID})
DELETE_GROUP = closed(
    {"delete": {"anyOf": [{"type": "null"}, closed({"delete-volumes": BOOLEAN})]}}, required=("delete",)
)
RESET_STATUS = wrapped(
    "reset_status", {"status": {"type": "string", "minLength": 1, "maxLength": 32}}, required=("status",)
)
CREATE_GROUP_SNAPSHOT = wrapped("group_snapshot", {**_DESCRIBED, "group_id": UUID}, required=("group_id",))
UPDATE_GROUP_SNAPSHOT = wrapped("group_snapshot", _DESCRIBED)
