"""Bodies and queries of snapshots that storage services request."""

from __future__ import annotations

from portal.api.schema_parts import UUID, Schema, closed, wrapped

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_HOW = closed(
    {"snapshot_id": UUID, "type": {"enum": ["qcow2"]}, "new_file": _TEXT, "id": _TEXT},
    required=("snapshot_id", "type", "new_file"),
)
CREATE = wrapped("snapshot", {"volume_id": UUID, "create_info": _HOW}, required=("volume_id", "create_info"))
# For storage backends that keep chains of files; ignored here.
_FILE: Schema = {"type": ["string", "null"], "maxLength": 255}
DELETE: Schema = closed(
    {"volume_id": UUID, **dict.fromkeys(("type", "file_to_merge", "merge_target_file"), _FILE)}, required=("volume_id",)
)
