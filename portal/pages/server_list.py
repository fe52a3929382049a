"""The list of servers: searched, sorted and paged by the server, with the columns and the views that a person keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.states import VmState
from conductor.services import instances, preferences, server_choices
from portal.pages import faces, server_queries
from portal.pages.access import PageRequest, signed_in
from portal.pages.live_marks import live_marks
from portal.pages.server_queries import FILTERS, SORTS
from portal.pages.servers import with_runs

# Of the actions on a server (server_choices.KINDS): those beside the selection, and those in its menu.
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
    """Newest first unless told otherwise; filter, order and page are in the address."""
    context = {**live_marks("servers", "list"), **list_context(request.asker, request.GET)}
    return render(request, "servers/_list.html" if request.htmx else "servers/list.html", context)


def list_context(asker: RequestContext, query: Mapping[str, str]) -> dict[str, Any]:
    """Context of the list of servers. Raises Invalid for a marker that is not a server's."""
    filters = server_queries.filters_of(query)
    page = instances.list_page(asker, server_queries.instance_query(asker, filters, query.get("marker", "")))
    kept = {name: value for name, value in filters.items() if value}
    base = reverse("servers")
    next_query = {**kept, "marker": page.items[-1].uuid} if page.has_more and page.items else {}
    wishes = preferences.of(asker.user_id)
    shown = columns_of(asker, wishes.server_columns)
    return {
        "asker": asker,
        "rows": with_runs(asker, page.items),
        "filters": filters,
        "is_filtered": bool(filters["name"] or filters["status"] or filters["tag"]),
        "is_operator": asker.is_admin,
        "bulk_actions": _bulk(asker, BULK_ACTIONS),
        "further_bulk_actions": _bulk(asker, FURTHER_BULK_ACTIONS),
        "settling": [server for server in page.items if server.vm_state == VmState.RESIZED and not server.task_state],
        "status_words": [(status, face.word) for status, face in faces.STATUS_FACES.items()],
        "columns": shown,
        "heads": [_head(name, filters) for name in ("name", "state", *shown)],
        "all_columns": [
            {"name": name, "words": words, "is_shown": name in shown}
            for name, words in COLUMN_WORDS.items()
            if name != "host" or asker.is_admin
        ],
        "views": _views(wishes.views, kept),
        "view_query": urlencode(kept),
        "sizes": _sizes(filters, kept),
        "window": server_queries.WINDOW_ROWS if server_queries.is_window(filters) else 0,
        "most_by_query": server_queries.MOST_BY_QUERY,
        "is_first_page": not query.get("marker"),
        "first_url": f"{base}?{urlencode(kept)}" if kept else base,
        "next_url": f"{base}?{urlencode(next_query)}" if next_query else "",
        "missing_cells": page.missing_cells,
    }


def _bulk(asker: RequestContext, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Ids and titles of the actions that the caller's role allows."""
    return [(name, server_choices.KINDS[name].title) for name in names if server_choices.may_use(asker, name)]


def columns_of(asker: RequestContext, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that somebody sees: hosts are the operators' alone."""
    return tuple(name for name in wanted if name != "host" or asker.is_admin)


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
    """How many rows a page may have, as links."""
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
    """Keep the columns with the person. Raises Invalid for one that there is not."""
    preferences.choose_columns(request.asker.user_id, request.POST.getlist("column"))
    return _back(request.POST.get("query", ""))


@require_POST
@signed_in
def keep_view(request: PageRequest) -> HttpResponse:
    """Keep this filter and order under a name, or forget one."""
    user_id, query = request.asker.user_id, request.POST.get("query", "")
    try:
        if request.POST.get("forget"):
            preferences.delete_view(user_id, request.POST["forget"])
        else:
            known = [(name, value) for name, value in parse_qsl(query) if name in FILTERS]
            preferences.save_view(user_id, request.POST.get("view", ""), urlencode(known))
    except Invalid as error:
        messages.add_message(request, messages.INFO, error.message, extra_tags="bad")
    return _back(query)


def _back(query: str) -> HttpResponse:
    known = urlencode([(name, value) for name, value in parse_qsl(query) if name in FILTERS])
    return redirect(f"{reverse('servers')}?{known}" if known else reverse("servers"))
