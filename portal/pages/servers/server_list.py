"""The list of servers: search, order and pages on the server, with a user's columns and saved views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.states import VmState
from conductor.services.accounts import preferences
from conductor.services.servers import instances, permitted_actions
from portal.pages import server_queries, status_badges
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.server_queries import FILTERS, SORTS
from portal.pages.servers.servers import with_runs

# Actions on servers (server_choices.KINDS): those beside the selection, and those in its menu.
BULK_ACTIONS = ("start", "stop", "reboot")
FURTHER_BULK_ACTIONS = (
    "confirm-resize",
    "revert-resize",
    "shelve",
    "unshelve",
    "migrate",
    "live-migrate",
    "lock",
    "unlock",
)
COLUMN_WORDS: Mapping[str, str] = {
    "addresses": "Addresses",
    "flavor": "Flavor",
    "image": "Image",
    "key": "Key",
    "zone": "Zone",
    "host": "Host",
    "age": "Age",
}


@require_safe
@signed_in
def server_list(request: PageRequest) -> HttpResponse:
    """Show the servers, newest first by default; filter, order and page are in the address."""
    context = {**live_marks("servers", "list"), **list_context(request.caller, request.GET)}
    return render(request, "servers/_list.html" if request.htmx else "servers/list.html", context)


def list_context(caller: RequestContext, query: Mapping[str, str]) -> dict[str, Any]:
    """Context of the list of servers. Raises Invalid for a marker that is not a server's."""
    filters = server_queries.filters_of(query)
    page = instances.list_page(caller, server_queries.instance_query(caller, filters, query.get("marker", "")))
    kept = {name: value for name, value in filters.items() if value}
    base = reverse("servers")
    next_query = {**kept, "marker": page.items[-1].uuid} if page.has_more and page.items else {}
    user_preferences = preferences.of(caller.user_id)
    shown = columns_of(caller, user_preferences.server_columns)
    return {
        "caller": caller,
        "rows": with_runs(caller, page.items),
        "filters": filters,
        "is_filtered": bool(filters["name"] or filters["status"] or filters["tag"]),
        "is_operator": caller.is_admin,
        "bulk_actions": _bulk(caller, BULK_ACTIONS),
        "further_bulk_actions": _bulk(caller, FURTHER_BULK_ACTIONS),
        "settling": [server for server in page.items if server.vm_state == VmState.RESIZED and not server.task_state],
        "status_words": [(status, badge.word) for status, badge in status_badges.STATUS_BADGES.items()],
        "columns": shown,
        "heads": [_head(name, filters) for name in ("name", "state", *shown)],
        "all_columns": [
            {"name": name, "words": words, "is_shown": name in shown}
            for name, words in COLUMN_WORDS.items()
            if name != "host" or caller.is_admin
        ],
        "views": _views(user_preferences.views, kept),
        "view_query": urlencode(kept),
        "sizes": _sizes(filters, kept),
        "window": server_queries.WINDOW_ROWS if server_queries.is_window(filters) else 0,
        "most_by_query": server_queries.MOST_BY_QUERY,
        "is_first_page": not query.get("marker"),
        "first_url": f"{base}?{urlencode(kept)}" if kept else base,
        "next_url": f"{base}?{urlencode(next_query)}" if next_query else "",
        "missing_cells": page.missing_cells,
    }


def _bulk(caller: RequestContext, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return ids and titles of the actions that the caller's role allows."""
    return [(name, permitted_actions.KINDS[name].title) for name in names if permitted_actions.may_use(caller, name)]


def columns_of(caller: RequestContext, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns for the caller: only operators see hosts."""
    return tuple(name for name in wanted if name != "host" or caller.is_admin)


def _head(name: str, filters: Mapping[str, str]) -> dict[str, Any]:
    words = {"name": "Name", "state": "State", **COLUMN_WORDS}[name]
    if name not in SORTS:
        return {"name": name, "words": words}
    given, _, direction = (filters["sort"] or "age:asc").partition(":")
    is_sorted = given == name
    turned = "desc" if is_sorted and direction == "asc" else "asc"
    kept = {key: value for key, value in filters.items() if value and key != "sort"}
    url = f"{reverse('servers')}?{urlencode({**kept, 'sort': f'{name}:{turned}'})}"
    order = {"asc": "ascending", "desc": "descending"}.get(direction, "") if is_sorted else ""
    return {"name": name, "words": words, "url": url, "direction": order}


def _sizes(filters: Mapping[str, str], kept: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the page sizes, as links."""
    return [
        {"size": size, "is_here": is_here, "url": f"{reverse('servers')}?{urlencode({**kept, 'rows': size})}"}
        for size, is_here in server_queries.sizes(filters)
    ]


def _views(kept: Mapping[str, str], here: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "url": f"{reverse('servers')}?{query}", "is_here": dict(parse_qsl(query)) == dict(here)}
        for name, query in sorted(kept.items())
    ]


@require_POST
@signed_in
def choose_columns(request: PageRequest) -> HttpResponse:
    """Save the user's columns. Raises Invalid for an unknown one."""
    preferences.choose_columns(request.caller.user_id, request.POST.getlist("column"))
    return _back(request.POST.get("query", ""))


@require_POST
@signed_in
def keep_view(request: PageRequest) -> HttpResponse:
    """Save this filter and order under a name, or delete a saved view."""
    user_id, query = request.caller.user_id, request.POST.get("query", "")
    try:
        if request.POST.get("forget"):
            preferences.delete_view(user_id, request.POST["forget"])
        else:
            known = [(name, value) for name, value in parse_qsl(query) if name in FILTERS]
            preferences.save_view(user_id, request.POST.get("view", ""), urlencode(known))
    except Invalid as error:
        leave_note(request, error.message, "bad")
    return _back(query)


def _back(query: str) -> HttpResponse:
    known = urlencode([(name, value) for name, value in parse_qsl(query) if name in FILTERS])
    return redirect(f"{reverse('servers')}?{known}" if known else reverse("servers"))
