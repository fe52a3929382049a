"""JSON parser for user input, with a limit of depth that all later checks, storage and views can handle."""

from __future__ import annotations

import json
from typing import Any

# Far more than any request needs.
MOST_LEVELS = 100


class TooDeep(ValueError):
    """The JSON nests deeper than MOST_LEVELS."""


def loads(text: str, **options: Any) -> Any:
    """Parse JSON. Raises TooDeep, a ValueError, for a depth at which `json.loads` might raise RecursionError."""
    try:
        data = json.loads(text, **options)
    except RecursionError:
        raise TooDeep from None
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_depth(data)
    return data


def _check_depth(data: Any) -> None:
    level = [data]
    for _ in range(MOST_LEVELS + 1):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for members in inside for one in members]
    if level:
        raise TooDeep
