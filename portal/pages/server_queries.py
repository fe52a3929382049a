"""Parameters of the server list's address, and the servers that the user has selected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceQuery
from portal.pages import status_badges
from portal.pages.permissions import PageRequest

PAGE_SIZE = 50
PAGE_SIZES = (50, 200, 500)
# The last size is a window: the page renders the visible rows, and loads more while scrolling.
WINDOW_ROWS = 10_000
PIECE_ROWS = 200
MOST_AT_ONCE = 100  # selected one by one: their ids are in an address
MOST_BY_QUERY = 500
FILTERS = ("name", "status", "tag", "all", "sort", "rows")
SORTS: Mapping[str, str] = {"name": "name", "zone": "availability_zone", "key": "key_name", "age": "created_at"}
DEFAULT_SORT = (("created_at", True),)
# "age, ascending" is creation time, descending: users think of the age, the database has the time.
TURNED = frozenset({"age"})


@dataclass(frozen=True)
class SelectedServers:
    """Servers by uuid; `has_more`: more match the query than one action allows."""

    uuids: list[str]
    has_more: bool = False


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that filter, order and size the list."""
    return {name: query.get(name, "").strip()[:255] for name in FILTERS}


def instance_query(caller: RequestContext, filters: Mapping[str, str], marker: str = "") -> InstanceQuery:
    wanted: dict[str, Any] = {"name": re.escape(filters["name"])} if filters["name"] else {}
    if filters["tag"]:
        wanted["tags"] = [filters["tag"]]
    return InstanceQuery(
        all_projects=bool(filters["all"]) and caller.is_admin,
        filters=wanted,
        statuses=(filters["status"],) if filters["status"] in status_badges.STATUS_BADGES else (),
        sort=_sort(filters["sort"]),
        limit=rows_of(filters),
        marker=marker,
    )


def rows_of(filters: Mapping[str, str]) -> int:
    """Return the rows per page: one of the sizes, or a piece of the window."""
    if is_window(filters):
        return PIECE_ROWS
    return next((size for size in PAGE_SIZES if filters["rows"] == str(size)), PAGE_SIZE)


def is_window(filters: Mapping[str, str]) -> bool:
    return filters.get("rows") == str(WINDOW_ROWS)


def sizes(filters: Mapping[str, str]) -> list[tuple[int, bool]]:
    """Return the sizes, each with whether it is the current one."""
    here = WINDOW_ROWS if is_window(filters) else rows_of(filters)
    return [(size, size == here) for size in (*PAGE_SIZES, WINDOW_ROWS)]


def picked_of(request: PageRequest) -> SelectedServers:
    """Return the selected servers, or the first that match the list's query.

    Raises Invalid for none, or too many.
    """
    sent = request.POST if request.method == "POST" else request.GET
    if sent.get("everything"):
        query = instance_query(request.caller, filters_of(dict(parse_qsl(sent.get("query", "")))))
        page = instances.list_page(request.caller, replace(query, limit=MOST_BY_QUERY))
        found = SelectedServers([one.uuid for one in page.items], page.has_more)
    else:
        found = SelectedServers(list(dict.fromkeys(sent.getlist("server"))))
    most = MOST_BY_QUERY if sent.get("everything") or request.method == "POST" else MOST_AT_ONCE
    if not found.uuids:
        raise Invalid(gettext("Select servers first."))
    if len(found.uuids) > most:
        raise Invalid(gettext("Select at most %(count)s servers at a time.") % {"count": most})
    return found


def _sort(text: str) -> tuple[tuple[str, bool], ...]:
    name, _, direction = text.partition(":")
    if name not in SORTS or direction not in ("asc", "desc"):
        return DEFAULT_SORT
    return ((SORTS[name], (direction == "desc") != (name in TURNED)),)
