"""Bodies of OS-OAUTH1."""

from __future__ import annotations

from portal.api.schema_parts import Schema, closed

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 65535}


def _consumer(*, may_be_empty: bool) -> Schema:
    """More than is known is kept, but for what is not for a client to say."""
    inner: Schema = {
        "type": "object",
        "properties": {"description": _DESCRIPTION, "id": False, "secret": False, "links": False},
        "additionalProperties": True,
        "maxProperties": 64,
        "minProperties": 0 if may_be_empty else 1,
    }
    return closed({"consumer": inner}, required=("consumer",))


CREATE_CONSUMER = _consumer(may_be_empty=True)
CHANGE_CONSUMER = _consumer(may_be_empty=False)
AUTHORIZE = closed(
    {
        "roles": {
            "type": "array",
            "items": {**closed({"id": _ID, "name": {"type": "string", "maxLength": 255}}), "minProperties": 1},
            "minItems": 1,
            "maxItems": 100,
        }
    },
    required=("roles",),
)
