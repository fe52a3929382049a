"""What turns answers into JSON: one renderer for all APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder

# Times and records go the way that they always went: by the framework's own encoder, or not at all.
_PLAIN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_write_other = JSONEncoder().default


class JsonRenderer(JSONRenderer):
    """Answers in UTF-8 without spaces, whatever the `Accept` header says of spaces.

    Writing was a sixth of the time of a long list: orjson takes a tenth of that. What it refuses the standard library
    writes: numbers beyond 64 bits, keys that are no text, and halves of surrogate pairs, for which all is escaped.
    """

    ensure_ascii = True

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is None:
            return b""
        try:
            return orjson.dumps(data, _write_other, _PLAIN)
        except orjson.JSONEncodeError:
            written: bytes = super().render(data, accepted_media_type, renderer_context)
            return written
