"""Length of list pages: the default, or 500 rows for search in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

LONG_PAGE = 500
PLACES = ("marker", "runs", "records")  # positions in a list; another length starts at the beginning


def is_long(given: Mapping[str, str]) -> bool:
    """Whether the address requests a long page."""
    return given.get("rows") == str(LONG_PAGE)


def rows_of(given: Mapping[str, str], typical: int) -> int:
    """Return the number of rows: the default, except for a long page."""
    return LONG_PAGE if is_long(given) else typical


def kept(given: Mapping[str, str]) -> dict[str, str]:
    """Return the length parameter for other pages of this list."""
    return {"rows": str(LONG_PAGE)} if is_long(given) else {}


def other(path: str, given: Mapping[str, str], typical: int, *, has_others: bool) -> dict[str, Any]:
    """Context of components/other_length.html: the list from its beginning with more rows, or with the default."""
    query = {name: value for name, value in given.items() if value and name not in ("rows", *PLACES)}
    if is_long(given):
        return {"other_url": f"{path}?{urlencode(query)}", "other_rows": typical}
    longer = urlencode({**query, "rows": str(LONG_PAGE)})
    return {"other_url": f"{path}?{longer}" if has_others else "", "other_rows": LONG_PAGE}
