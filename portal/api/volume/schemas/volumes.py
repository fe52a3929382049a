"""Bodies of the volume API: volumes, their actions and their snapshots."""

from __future__ import annotations

from conductor.core.messages import message
from portal.api.schema_parts import BOOLEAN, UUID, Schema, closed, named, wrapped

NULLABLE: Schema = {"type": ["string", "null"], "maxLength": 255}
SIZE: Schema = {"type": ["integer", "string"], "pattern": r"^[1-9][0-9]{0,5}\Z", "minimum": 1, "maximum": 999_999}
METADATA_VALUE: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 255},
    "propertyNames": {"minLength": 1, "maxLength": 255},
}
_METADATA: Schema = {**METADATA_VALUE, "type": ["object", "null"]}
_OR_NOTHING: Schema = {"anyOf": [BOOLEAN, {"type": "null"}]}
_ID: Schema = {"anyOf": [UUID, {"type": "null"}, {"const": ""}], "x-fix": "It must be a uuid."}
_NAMES: Schema = {
    "name": named(NULLABLE),
    "description": NULLABLE,
    "display_name": named(NULLABLE),
    "display_description": NULLABLE,
}


def _action(name: str, properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    return closed({name: closed(properties, required=required)}, required=(name,))


def _bare(name: str) -> Schema:
    """Return the schema of an action without parameters: null or an empty object."""
    return closed({name: {"anyOf": [{"type": "null"}, closed({})], "x-fix": "It must be null."}}, required=(name,))


CREATE = closed(
    {
        "volume": closed(
            {
                **_NAMES,
                "size": {"anyOf": [SIZE, {"type": "null"}], "x-fix": message("invalid.range", least=1, most=999999)},
                "availability_zone": NULLABLE,
                "metadata": _METADATA,
                "volume_type": NULLABLE,
                "multiattach": _OR_NOTHING,
                "imageRef": NULLABLE,
                "image_id": NULLABLE,
                "snapshot_id": _ID,
                "source_volid": _ID,
                "source_replica": NULLABLE,
                "backup_id": _ID,
                "consistencygroup_id": _ID,
                "cgsnapshot_id": _ID,
                "group_id": _ID,
                # Old clients send back what they have read.
                "status": NULLABLE,
                "user_id": NULLABLE,
                "project_id": NULLABLE,
                "attach_status": NULLABLE,
            },
        ),
        "OS-SCH-HNT:scheduler_hints": {"type": ["object", "null"]},
    },
    required=("volume",),
)
UPDATE = wrapped("volume", {**_NAMES, "metadata": METADATA_VALUE})
METADATA = closed({"metadata": METADATA_VALUE}, required=("metadata",))
META = closed({"meta": {**METADATA_VALUE, "minProperties": 1, "maxProperties": 1}}, required=("meta",))
CREATE_SNAPSHOT = wrapped(
    "snapshot", {**_NAMES, "volume_id": NULLABLE, "force": _OR_NOTHING, "metadata": _METADATA}, required=("volume_id",)
)
UPDATE_SNAPSHOT = wrapped("snapshot", {**_NAMES})

_CONNECTOR: Schema = {"type": ["object", "null"]}
ACTIONS: dict[str, Schema] = {
    "os-extend": _action("os-extend", {"new_size": SIZE}, required=("new_size",)),
    "os-extend_volume_completion": _action("os-extend_volume_completion", {"error": _OR_NOTHING}),
    "os-set_bootable": _action("os-set_bootable", {"bootable": BOOLEAN}, required=("bootable",)),
    "os-update_readonly_flag": _action("os-update_readonly_flag", {"readonly": BOOLEAN}, required=("readonly",)),
    "os-reset_status": _action(
        "os-reset_status",
        {
            "status": {"type": ["string", "null"], "maxLength": 32},
            "attach_status": NULLABLE,
            "migration_status": NULLABLE,
        },
    ),
    "os-force_delete": _bare("os-force_delete"),
    "os-unmanage": _bare("os-unmanage"),
    "os-reserve": _bare("os-reserve"),
    "os-unreserve": _bare("os-unreserve"),
    "os-begin_detaching": _bare("os-begin_detaching"),
    "os-roll_detaching": _bare("os-roll_detaching"),
    "os-show_image_metadata": _bare("os-show_image_metadata"),
    "os-retype": _action(
        "os-retype",
        {
            "new_type": {"type": "string", "minLength": 1, "maxLength": 255},
            "migration_policy": {"enum": [None, "never", "on-demand"]},
        },
        required=("new_type",),
    ),
    "os-set_image_metadata": _action("os-set_image_metadata", {"metadata": METADATA_VALUE}, required=("metadata",)),
    "os-unset_image_metadata": _action(
        "os-unset_image_metadata", {"key": {"type": "string", "minLength": 1, "maxLength": 255}}, required=("key",)
    ),
    "os-volume_upload_image": _action(
        "os-volume_upload_image",
        {
            "image_name": {"type": "string", "minLength": 1, "maxLength": 255},
            "force": _OR_NOTHING,
            "disk_format": NULLABLE,
            "container_format": NULLABLE,
            "visibility": {"enum": ["public", "private", "shared", "community"]},
            "protected": BOOLEAN,
        },
        required=("image_name",),
    ),
    "revert": _action("revert", {"snapshot_id": UUID}, required=("snapshot_id",)),
    "os-reimage": _action("os-reimage", {"image_id": UUID, "reimage_reserved": BOOLEAN}, required=("image_id",)),
    "os-attach": _action(
        "os-attach",
        {
            "instance_uuid": {"anyOf": [UUID, {"type": "null"}], "x-fix": "It must be a uuid."},
            "host_name": NULLABLE,
            "mountpoint": {"type": "string", "minLength": 1, "maxLength": 63},
            "mode": {"enum": ["rw", "ro"]},
        },
        required=("mountpoint",),
    ),
    "os-detach": closed(
        {"os-detach": {"anyOf": [{"type": "null"}, closed({"attachment_id": _ID})]}}, required=("os-detach",)
    ),
    "os-force_detach": _action("os-force_detach", {"attachment_id": _ID, "connector": _CONNECTOR}),
    "os-initialize_connection": _action(
        "os-initialize_connection", {"connector": {"type": "object"}}, required=("connector",)
    ),
    "os-terminate_connection": _action(
        "os-terminate_connection", {"connector": _CONNECTOR, "force": _OR_NOTHING}, required=("connector",)
    ),
}
SNAPSHOT_ACTIONS: dict[str, Schema] = {
    "os-reset_status": _action(
        "os-reset_status", {"status": {"type": "string", "minLength": 1, "maxLength": 32}}, required=("status",)
    ),
    "os-update_snapshot_status": _action(
        "os-update_snapshot_status",
        {
            "status": {"type": "string", "minLength": 1, "maxLength": 32},
            "progress": {
                "type": ["string", "null"],
                "pattern": r"^(100|[0-9]{1,2})%\Z",
                "x-fix": "It must be 0% to 100%.",
            },
        },
        required=("status",),
    ),
    "os-force_delete": _bare("os-force_delete"),
    "os-unmanage": _bare("os-unmanage"),
}
_DESCRIBED: Schema = {
    "name": named(NULLABLE),
    "description": NULLABLE,
    "metadata": {**METADATA_VALUE, "type": ["object", "null"]},
    "ref": {"type": "object", "minProperties": 1, "maxProperties": 4},
}
MANAGE = wrapped(
    "volume",
    {
        **_DESCRIBED,
        "bootable": {"anyOf": [BOOLEAN, {"type": "null"}]},
        "volume_type": NULLABLE,
        "availability_zone": NULLABLE,
        "host": NULLABLE,
        "cluster": NULLABLE,
    },
    required=("ref",),
)
MANAGE_SNAPSHOT = wrapped("snapshot", {**_DESCRIBED, "volume_id": UUID}, required=("ref", "volume_id"))
QUOTAS: Schema = closed(
    {
        "quota_set": {
            "type": "object",
            "additionalProperties": {"type": ["integer", "string", "boolean", "null"]},
            "maxProperties": 256,
        }
    },
    required=("quota_set",),
)
QUOTA_CLASS: Schema = closed({"quota_class_set": QUOTAS["properties"]["quota_set"]}, required=("quota_class_set",))
