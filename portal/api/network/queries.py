"""Queries of lists by the names of their parameters, and their pages: for the API and for the portal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.page import Page
from conductor.network.filters import NetworkListQuery
from portal.api.network.resources import NetworkResource
from portal.api.validation import as_boolean

PAGING = frozenset({"limit", "marker", "page_reverse", "sort_key", "sort_dir", "fields"})
DIRECTIONS = {"asc": False, "desc": True}


def parse(given: Mapping[str, Sequence[str]], *, limit: int, marker: str = "") -> NetworkListQuery:
    """Parse filters and order; a limit of 0 means all. Raises Invalid naming the parameter that is wrong."""
    for name, values in given.items():
        if any("\0" in value for value in values):
            raise Invalid(f"Invalid input for query parameter {name[:60]}. It holds a NUL character.")
    keys, directions = given.get("sort_key", ()), given.get("sort_dir", ())
    if len(directions) not in (0, len(keys)):
        raise Invalid("The number of sort_keys and sort_dirs must be same.")
    for direction in directions:
        if direction not in DIRECTIONS:
            raise Invalid(f"Invalid input for sort_dir. '{direction[:60]}' is not asc or desc.")
    directions = directions or ["asc"] * len(keys)
    return NetworkListQuery(
        filters={name: values for name, values in given.items() if name not in PAGING},
        sort=[(key, DIRECTIONS[direction]) for key, direction in zip(keys, directions, strict=True)],
        limit=limit or None,
        marker=marker,
        is_backwards=as_boolean(given.get("page_reverse", ["false"])[-1], "page_reverse"),
    )


def page(resource: NetworkResource, context: RequestContext, query: NetworkListQuery) -> Page[Any]:
    """Return the rows of a page. One extra row shows whether more follow in the query's direction."""
    if query.limit is None:
        return Page(resource.list(context, query))
    found = resource.list(context, replace(query, limit=query.limit + 1))
    rows = found[-query.limit :] if query.is_backwards else found[: query.limit]
    return Page(rows, len(found) > len(rows))
