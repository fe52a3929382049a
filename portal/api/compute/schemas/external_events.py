"""Bodies of external events, per version."""

from __future__ import annotations

from functools import cache

from portal.api.microversions import Microversion
from portal.api.schema_parts import UUID, Schema, closed

# Event → the first version that has it.
SINCE = {
    "network-changed": "2.1",
    "network-vif-plugged": "2.1",
    "network-vif-unplugged": "2.1",
    "network-vif-deleted": "2.1",
    "volume-extended": "2.51",
    "power-update": "2.76",
    "accelerator-request-bound": "2.82",
    "volume-reimaged": "2.93",
}
STATUSES = ["failed", "completed", "in-progress"]


@cache
def create(version: Microversion) -> Schema:
    """POST /os-server-external-events."""
    event = closed(
        {
            "name": {"enum": [name for name, first in SINCE.items() if version.covers(first)]},
            "server_uuid": UUID,
            "status": {"enum": STATUSES},
            "tag": {"type": "string", "minLength": 1, "maxLength": 255},
        },
        required=("name", "server_uuid"),
    )
    return closed({"events": {"type": "array", "minItems": 1, "maxItems": 1000, "items": event}}, required=("events",))
