"""The query string of an image list."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from conductor.core.errors import Invalid
from conductor.core.time_filters import SECOND
from conductor.image.attributes import IGNORED_FILTERS
from conductor.image.queries import FILTERS, NUMBERS, TIMES, ImageQuery
from portal.api.base import ApiRequest
from portal.api.image.representations.images import split_operator
from portal.api.pagination import parse_page
from portal.api.time_filters import parse_times
from portal.api.validation import as_boolean

DEFAULT_LIMIT = 25
DIRECTIONS = {"asc": False, "desc": True}
BOUNDS = ("size_min", "size_max")
WORDS = ("visibility", "member_status")


def parse_query(request: ApiRequest) -> ImageQuery:
    """Parse the query; unknown parameters are filters by a property of that name. Raises Invalid."""
    given = request.query_params
    page = parse_page(request)
    fields: dict[str, Any] = {name: given[name] for name in WORDS if name in given}
    fields |= {name: _number(name, given[name]) for name in BOUNDS if name in given}
    if "protected" in given:
        fields["is_protected"] = as_boolean(given["protected"], "protected")
    if sort := _sort(given):
        fields["sort"] = sort
    return ImageQuery(
        filters={name: split_operator(given[name]) for name in FILTERS if name in given},
        tags=given.getlist("tag"),
        numbers={name: _number(name, given[name]) for name in NUMBERS if name in given},
        properties={name: given[name] for name in given if name not in _OWN},
        times=parse_times(given, TIMES, unit=SECOND),
        is_hidden=as_boolean(given.get("os_hidden", False), "os_hidden"),
        limit=page.limit if "limit" in given else DEFAULT_LIMIT,
        marker=page.marker,
        **fields,
    )


_PAGING = ("limit", "marker", "sort", "sort_key", "sort_dir")
_OWN = frozenset(
    {*FILTERS, *WORDS, *BOUNDS, *NUMBERS, *TIMES, *_PAGING, *IGNORED_FILTERS, "protected", "os_hidden", "tag"}
)


def paths(request: ApiRequest, last_id: str | None) -> dict[str, str]:
    """Return `first`, and `next` when there is more: paths that begin with the version, as clients expect."""
    first = request.query_params.copy()
    first.pop("marker", None)
    links = {"first": _path(first)}
    if last_id is not None:
        following = request.query_params.copy()
        following["marker"] = last_id
        links["next"] = _path(following)
    return links


def _path(query: QueryDict) -> str:
    return "/v2/images" + (f"?{query.urlencode()}" if query else "")


def _sort(given: QueryDict) -> list[tuple[str, bool]]:
    """`sort=name:asc,size` or `sort_key` with `sort_dir`, one for each key or one for all. Default direction: desc."""
    if "sort" in given:
        if "sort_key" in given or "sort_dir" in given:
            raise Invalid("Old and new sorting syntax cannot be combined: give sort, or sort_key and sort_dir.")
        parts = [word.strip().partition(":") for word in str(given["sort"]).split(",")]
        return [(key, _direction(direction or "desc")) for key, _, direction in parts]
    keys, directions = given.getlist("sort_key"), given.getlist("sort_dir")
    if not keys:
        keys = ["created_at"] if directions else []
    if len(directions) not in (0, 1, len(keys)):
        raise Invalid("Number of sort dirs does not match the number of sort keys.")
    directions = directions or ["desc"]
    if len(directions) == 1:
        directions *= len(keys)
    return [(key, _direction(direction)) for key, direction in zip(keys, directions, strict=True)]


def _direction(word: str) -> bool:
    if word not in DIRECTIONS:
        raise Invalid(f"Invalid sort direction: {word[:60]}. It must be asc or desc.")
    return DIRECTIONS[word]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Invalid(f"Invalid input for query parameter {name}. Value: '{text[:60]}'. It must be an integer.")
    return int(text)
