"""Common query of the volume API's lists: limit, marker, offset, sort and count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from conductor.core.errors import Invalid
from portal.api.base import ApiRequest
from portal.api.pagination import fit, next_links, parse_page
from portal.api.validation import as_boolean

Row = TypeVar("Row")
DIRECTIONS = ("asc", "desc")
LARGEST_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of a list; `fields` are those of the service's query, which reads one row more than is shown."""

    limit: int
    marker: str
    offset: int
    sort: Sequence[tuple[str, bool]]

    @property
    def fields(self) -> dict[str, Any]:
        known: dict[str, Any] = {"limit": self.limit + 1, "marker": self.marker, "offset": self.offset}
        return known | ({"sort": self.sort} if self.sort else {})


def parse(request: ApiRequest) -> ListRequest:
    """Parse the page. Raises Invalid naming the parameter."""
    page = parse_page(request)
    text = request.query_params.get("offset", "0")
    if not (text.isascii() and text.isdigit() and int(text[:12]) <= LARGEST_OFFSET):
        raise Invalid(
            f"Invalid input for query parameter offset. Value: '{text[:60]}'. It must be from 0 to {LARGEST_OFFSET}.",
            field="offset",
        )
    return ListRequest(page.limit, page.marker, int(text), sort_of(request.query_params))


def sort_of(given: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Parse `sort=name:asc,size`, or `sort_key` and `sort_dir`; the default direction is descending. Raises Invalid."""
    if "sort" in given:
        if "sort_key" in given or "sort_dir" in given:
            raise Invalid("The 'sort_key' and 'sort_dir' parameters cannot be used with the 'sort' parameter.")
        parts = [word.strip().partition(":") for word in str(given["sort"]).split(",")]
        return [(key, _is_descending(direction or "desc")) for key, _, direction in parts]
    if "sort_key" in given or "sort_dir" in given:
        key = given.get("sort_key", "created_at")
        return [(key, _is_descending(given.get("sort_dir", "desc")))]
    return []


def _is_descending(word: str) -> bool:
    if word not in DIRECTIONS:
        raise Invalid(f"Invalid sort direction: {word[:60]}. It must be asc or desc.", field="sort_dir")
    return word == "desc"


def answer(
    request: ApiRequest, name: str, found: Sequence[Row], requested: ListRequest, shown: Callable[[Row], dict[str, Any]]
) -> dict[str, Any]:
    """Return the body of a page. Its marker is the start of the next page; an offset applies only to the first page.

    A full page links to a next page even if that is empty, as clients that count expect.
    """
    rows = found[: requested.limit]
    fitting, has_more = fit([shown(row) for row in rows], has_more=len(rows) == requested.limit)
    last_id = str(rows[len(fitting) - 1].uuid) if fitting else None  # type: ignore[attr-defined]
    links = next_links(request, name, last_id=last_id, has_more=has_more)
    for link in links.get(f"{name}_links", []):
        link["href"] = _without_offset(link["href"])
    return {name: fitting} | links


def wants_count(request: ApiRequest) -> bool:
    """Return whether the body shall have the total number of rows on all pages."""
    given = request.query_params.get("with_count", False)
    return request.microversion.covers("3.45") and as_boolean(given, "with_count")


def all_projects(request: ApiRequest, *, is_allowed: bool) -> bool:
    """Return whether to list all projects; callers other than administrators cannot ask for it."""
    return is_allowed and as_boolean(request.query_params.get("all_tenants", False), "all_tenants")


def parts_of(request: ApiRequest, names: Sequence[str]) -> dict[str, str]:
    """Return filters by name; from 3.31 on `name~=x` matches a part of the value, and is returned as `~x`."""
    given = request.query_params
    found = {name: given[name] for name in names if name in given}
    if request.microversion.covers("3.31"):
        found |= {name: f"~{given[f'{name}~']}" for name in names if f"{name}~" in given}
    return found


def _without_offset(href: str) -> str:
    path, _, query = href.partition("?")
    return f"{path}?{'&'.join(word for word in query.split('&') if not word.startswith('offset='))}"
