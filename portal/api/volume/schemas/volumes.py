"""Bodies of the volume API."""

from __future__ import annotations

from portal.api.schema_parts import BOOLEAN, Schema, closed, wrapped

_NULLABLE: Schema = {"type": ["string", "null"], "maxLength": 255}
_SIZE: Schema = {"type": ["integer", "string"], "pattern": r"^[1-9][0-9]{0,5}\Z", "minimum": 1, "maximum": 999_999}
_METADATA: Schema = {
    "type": ["object", "null"],
    "additionalProperties": {"type": "string", "maxLength": 255},
    "propertyNames": {"minLength": 1, "maxLength": 255},
}
_METADATA_BODY_VALUE: Schema = {**_METADATA, "type": "object"}
_NOT_YET: Schema = {"type": ["string", "null"], "maxLength": 255}  # named and refused, where it is not null

CREATE = closed(
    {
        "volume": closed(
            {
                "size": {"anyOf": [_SIZE, {"type": "null"}]},
                "name": _NULLABLE,
                "description": _NULLABLE,
                "display_name": _NULLABLE,
                "display_description": _NULLABLE,
                "availability_zone": _NULLABLE,
                "metadata": _METADATA,
                "volume_type": _NULLABLE,
                "multiattach": {"anyOf": [BOOLEAN, {"type": "null"}]},
                "imageRef": _NOT_YET,
                "image_id": _NOT_YET,
                "snapshot_id": _NOT_YET,
                "source_volid": _NOT_YET,
                "backup_id": _NOT_YET,
                "consistencygroup_id": _NOT_YET,
                "group_id": _NOT_YET,
            },
        ),
        "OS-SCH-HNT:scheduler_hints": {"type": ["object", "null"]},
    },
    required=("volume",),
)
UPDATE = wrapped(
    "volume",
    {
        "name": _NULLABLE,
        "description": _NULLABLE,
        "display_name": _NULLABLE,
        "display_description": _NULLABLE,
        "metadata": _METADATA_BODY_VALUE,
    },
)
METADATA = closed({"metadata": _METADATA_BODY_VALUE}, required=("metadata",))
META = closed({"meta": {**_METADATA_BODY_VALUE, "minProperties": 1, "maxProperties": 1}}, required=("meta",))
EXTEND = closed({"os-extend": closed({"new_size": _SIZE}, required=("new_size",))}, required=("os-extend",))
SET_BOOTABLE = closed(
    {"os-set_bootable": closed({"bootable": BOOLEAN}, required=("bootable",))}, required=("os-set_bootable",)
)
RESET_STATUS = closed(
    {
        "os-reset_status": closed(
            {
                "status": {"type": ["string", "null"], "maxLength": 32},
                "attach_status": _NULLABLE,
                "migration_status": _NULLABLE,
            }
        )
    },
    required=("os-reset_status",),
)
QUOTAS: Schema = closed(
    {
        "quota_set": {
            "type": "object",
            "additionalProperties": {"type": ["integer", "string", "boolean", "null"]},
            "maxProperties": 32,
        }
    },
    required=("quota_set",),
)
