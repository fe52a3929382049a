"""JSON request bodies: size-limited, strict, and refused with 400 before they would fail in a database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser

from conductor.core import json_text
from conductor.core.errors import Invalid
from portal.api.errors import TooLarge

UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
LONGEST_PATH = 200


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class JsonParser(BaseParser):
    """Reads at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes of JSON."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Parse the body. Raises TooLarge, or Invalid for a body that is not JSON in UTF-8."""
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2_500_000
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The request body is larger than {limit} bytes.")
        try:
            data = json_text.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        except json_text.TooDeep:
            raise Invalid("Malformed request body: nested too deeply.") from None
        except ValueError:
            raise Invalid("Malformed request body: it is not valid JSON in UTF-8.") from None
        if b"\\u" in raw:
            _refuse_unstorable(data)
        return data


def _refuse_unstorable(data: Any) -> None:
    """Raises Invalid for lone surrogates and NUL: JSON allows them, but databases do not store them as text."""
    field = next(_unstorable(data), None)
    if field is not None:
        where = f"Invalid input for field/attribute {field[:LONGEST_PATH]}" if field else "Malformed request body"
        raise Invalid(f"{where}: text holds a character that cannot be stored.", field=field)


def _unstorable(data: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of strings that databases do not store; for such a name, the path of the object that holds it."""
    if isinstance(data, str):
        if UNSTORABLE.search(data):
            yield path
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _unstorable(name, path)
            yield from _unstorable(value, f"{path}.{name}" if path else name)
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _unstorable(item, f"{path}.{number}" if path else str(number))
