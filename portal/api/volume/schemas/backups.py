"""Bodies of the volume API: backups."""

from __future__ import annotations

from portal.api.schema_parts import BOOLEAN, UUID, Schema, closed, named, wrapped
from portal.api.volume.schemas.volumes import METADATA_VALUE, NULLABLE

_FLAG: Schema = {"anyOf": [BOOLEAN, {"type": "null"}]}
_ID_OR_NOTHING: Schema = {"anyOf": [UUID, {"type": "null"}], "x-fix": "It must be a uuid."}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_METADATA: Schema = {**METADATA_VALUE, "type": ["object", "null"]}
_BACKUP: Schema = {
    "volume_id": UUID,
    "name": named(NULLABLE),
    "description": NULLABLE,
    "container": {"anyOf": [_TEXT, {"type": "null"}], "x-fix": "It must be a text of 1 to 255 characters."},
    "incremental": _FLAG,
    "force": _FLAG,
    "snapshot_id": _ID_OR_NOTHING,
}
CREATE = wrapped("backup", _BACKUP, required=("volume_id",))
CREATE_343 = wrapped("backup", {**_BACKUP, "metadata": _METADATA}, required=("volume_id",))
CREATE_351 = wrapped(
    "backup", {**_BACKUP, "metadata": _METADATA, "availability_zone": NULLABLE}, required=("volume_id",)
)
_CHANGES: Schema = {"name": named(NULLABLE), "description": NULLABLE}
UPDATE = wrapped("backup", _CHANGES)
UPDATE_343 = wrapped("backup", {**_CHANGES, "metadata": METADATA_VALUE})
RESTORE = wrapped("restore", {"volume_id": _ID_OR_NOTHING, "name": named(NULLABLE)})
IMPORT = wrapped(
    "backup-record",
    {"backup_service": _TEXT, "backup_url": {"type": "string", "minLength": 1, "maxLength": 1_000_000}},
    required=("backup_service", "backup_url"),
)
ACTIONS: dict[str, Schema] = {
    "os-reset_status": closed(
        {"os-reset_status": closed({"status": _TEXT}, required=("status",))}, required=("os-reset_status",)
    ),
    "os-force_delete": closed(
        {"os-force_delete": {"anyOf": [{"type": "null"}, closed({})], "x-fix": "It must be null."}},
        required=("os-force_delete",),
    ),
}
