"""Paging: `limit` and `marker` in, links to the next page out.

page = parse_page(request)                       # PageRequest(limit=…, marker=…)
found = services.list_page(context, limit=page.limit, marker=page.marker)
shown, has_more = fit([…], has_more=found.has_more)
body = {"servers": shown, **next_links(request, "servers", last_id=…, has_more=has_more)}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rest_framework.request import Request

from conductor.core.errors import Invalid
from portal.api.links import absolute
from portal.api.rendering import encode

T = TypeVar("T")
MAX_LIMIT = 1000
MOST_PAGE_BYTES = 4 << 20  # of a page's items as JSON: a thousand servers of usual size


@dataclass(frozen=True)
class PaginationQuery:
    """`limit` is 0 to 1000; `marker` is the id of the last item seen, or empty."""

    limit: int = MAX_LIMIT
    marker: str = ""


def parse_page(request: Request) -> PaginationQuery:
    """Parse the page. Raises Invalid naming `limit` or `marker`. A limit above the maximum is taken as the maximum."""
    limit = MAX_LIMIT
    if "limit" in request.query_params:
        text = request.query_params.getlist("limit")[-1]
        if not (text.isascii() and text.isdigit() and len(text) <= 255):
            raise Invalid(
                f"Invalid input for query parameter limit. Value: '{text[:60]}'. It must be an integer of at least 0.",
                field="limit",
            )
        limit = min(int(text), MAX_LIMIT)
    marker = request.query_params.get("marker", "")
    if len(marker) > 255:
        raise Invalid("Invalid input for query parameter marker. It is too long.", field="marker")
    return PaginationQuery(limit, marker)


def fit(shown: Sequence[T], *, has_more: bool) -> tuple[list[T], bool]:
    """Return the items of a page that fit into MOST_PAGE_BYTES, at least one, and whether more follow them."""
    size = 0
    for number, item in enumerate(shown):
        size += len(encode(item))
        if size > MOST_PAGE_BYTES and number:
            return list(shown[:number]), True
    return list(shown), has_more


def next_path(request: Request, marker: str) -> str:
    """Return path and query of the next page: every filter of this request, and the new marker."""
    query = request.query_params.copy()
    query["marker"] = marker
    return f"{request.path}?{query.urlencode()}"


def next_links(request: Request, name: str, *, last_id: str | None, has_more: bool) -> dict[str, Any]:
    """Return `{"<name>_links": [{"rel": "next", "href": …}]}`, or nothing on the last page."""
    if not has_more or last_id is None:
        return {}
    return {f"{name}_links": [{"rel": "next", "href": absolute(request, next_path(request, last_id))}]}
