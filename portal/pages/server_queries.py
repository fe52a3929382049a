"""What an address of the list of servers asks for, and the servers that a person has picked from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services import instances
from conductor.services.values import InstanceQuery
from portal.pages import faces
from portal.pages.access import PageRequest

PAGE_SIZE = 50
PAGE_SIZES = (50, 200, 500)
# The last size is a window: the page draws what is looked at, and reads on in pieces while one scrolls.
WINDOW_ROWS = 10_000
PIECE_ROWS = 200
MOST_AT_ONCE = 100  # picked one by one: they stand in an address
MOST_BY_QUERY = 500
FILTERS = ("name", "status", "tag", "all", "sort", "rows")
SORTS: Mapping[str, str] = {"name": "name", "zone": "availability_zone", "key": "key_name", "age": "created_at"}
USUAL_SORT = (("created_at", True),)
# Older first is what "age, ascending" would turn around: people mean the age, the database keeps the moment.
TURNED = frozenset({"age"})


@dataclass(frozen=True)
class Picked:
    """Servers by uuid; `has_more` says that more fit the query than may be done at once."""

    uuids: list[str]
    has_more: bool = False


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """The parts of an address that narrow, order and size the list."""
    return {name: query.get(name, "").strip()[:255] for name in FILTERS}


def instance_query(asker: RequestContext, filters: Mapping[str, str], marker: str = "") -> InstanceQuery:
    wanted: dict[str, Any] = {"name": re.escape(filters["name"])} if filters["name"] else {}
    if filters["tag"]:
        wanted["tags"] = [filters["tag"]]
    return InstanceQuery(
        all_projects=bool(filters["all"]) and asker.is_admin,
        filters=wanted,
        statuses=(filters["status"],) if filters["status"] in faces.STATUS_FACES else (),
        sort=_sort(filters["sort"]),
        limit=rows_of(filters),
        marker=marker,
    )


def rows_of(filters: Mapping[str, str]) -> int:
    """How many rows a page has: one of the sizes that are offered, or a piece of the window."""
    if is_window(filters):
        return PIECE_ROWS
    return next((size for size in PAGE_SIZES if filters["rows"] == str(size)), PAGE_SIZE)


def is_window(filters: Mapping[str, str]) -> bool:
    return filters.get("rows") == str(WINDOW_ROWS)


def sizes(filters: Mapping[str, str]) -> list[tuple[int, bool]]:
    """The sizes that are offered, each with whether it is the one in use."""
    here = WINDOW_ROWS if is_window(filters) else rows_of(filters)
    return [(size, size == here) for size in (*PAGE_SIZES, WINDOW_ROWS)]


def picked_of(request: PageRequest) -> Picked:
    """The servers whose boxes are ticked, or the first of all that the list's query finds.

    Raises Invalid where there are none, or too many.
    """
    sent = request.POST if request.method == "POST" else request.GET
    if sent.get("everything"):
        query = instance_query(request.asker, filters_of(dict(parse_qsl(sent.get("query", "")))))
        page = instances.list_page(request.asker, replace(query, limit=MOST_BY_QUERY))
        found = Picked([one.uuid for one in page.items], page.has_more)
    else:
        found = Picked(list(dict.fromkeys(sent.getlist("server"))))
    most = MOST_BY_QUERY if sent.get("everything") or request.method == "POST" else MOST_AT_ONCE
    if not found.uuids:
        raise Invalid(gettext("Pick the servers first."))
    if len(found.uuids) > most:
        raise Invalid(gettext("At most %(count)s at once.") % {"count": most})
    return found


def _sort(text: str) -> tuple[tuple[str, bool], ...]:
    name, _, direction = text.partition(":")
    if name not in SORTS or direction not in ("asc", "desc"):
        return USUAL_SORT
    return ((SORTS[name], (direction == "desc") != (name in TURNED)),)
