"""JSON request bodies: bounded, strict, and refused with 400 instead of failing later in a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser

from conductor.core.errors import Invalid
from portal.api.errors import TooLarge


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class JsonParser(BaseParser):
    """Reads at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes of JSON."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Raises TooLarge, or Invalid for what is not JSON in UTF-8."""
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2_500_000
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The request body is larger than {limit} bytes.")
        try:
            data = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        except RecursionError:
            raise Invalid("Malformed request body: nested too deeply.") from None
        except ValueError:
            raise Invalid("Malformed request body: it is not valid JSON in UTF-8.") from None
        if b"\\u" in raw:
            _refuse_unstorable(data)
        return data


def _refuse_unstorable(data: Any) -> None:
    """Half of a surrogate pair and NUL are JSON, but no database stores them as text."""
    text = json.dumps(data, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text) or _has_nul(data):
        raise Invalid("Malformed request body: text holds a character that cannot be stored.")


def _has_nul(data: Any) -> bool:
    if isinstance(data, str):
        return "\0" in data
    if isinstance(data, dict):
        return any(_has_nul(key) or _has_nul(value) for key, value in data.items())
    return isinstance(data, list) and any(_has_nul(item) for item in data)
