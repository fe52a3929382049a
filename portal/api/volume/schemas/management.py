"""Bodies of the volume API: files to manage as volumes and snapshots."""

from __future__ import annotations

from portal.api.schema_parts import BOOLEAN, UUID, Schema, named, wrapped
from portal.api.volume.schemas.volumes import METADATA_VALUE, NULLABLE

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
