"""How many rows a page of a list has: as many as usual, or 500 for whoever searches with the browser's own means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

LONG_PAGE = 500
PLACES = ("marker", "runs", "records")  # where a list goes on; another length begins anew


def is_long(given: Mapping[str, str]) -> bool:
    """Whether the address asks for a long page."""
    return given.get("rows") == str(LONG_PAGE)


def rows_of(given: Mapping[str, str], usual: int) -> int:
    """How many rows are asked for; anything but a long page is the usual one."""
    return LONG_PAGE if is_long(given) else usual


def kept(given: Mapping[str, str]) -> dict[str, str]:
    """What the addresses of other pages of this list say of the length."""
    return {"rows": str(LONG_PAGE)} if is_long(given) else {}


def other(path: str, given: Mapping[str, str], usual: int, *, has_others: bool) -> dict[str, Any]:
    """For components/other_length.html: the list from its beginning with more rows, or with as few as usual again."""
    query = {name: value for name, value in given.items() if value and name not in ("rows", *PLACES)}
    if is_long(given):
        return {"other_url": f"{path}?{urlencode(query)}", "other_rows": usual}
    longer = urlencode({**query, "rows": str(LONG_PAGE)})
    return {"other_url": f"{path}?{longer}" if has_others else "", "other_rows": LONG_PAGE}
