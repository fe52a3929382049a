"""The list of workflows: facets, views that everybody has and views that one has kept, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.services import flow_lists, saved_views
from conductor.services.flow_lists import Found, ListQuery
from conductor.services.saved_views import SavedViewView
from portal.pages import faces, server_queries, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.live_marks import live_marks

PAGE = "workflows"
MOST_VALUES = 12  # of a facet; the rest is reached by an address
FAILED = (RunState.FAILED_UNDONE, RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)


@dataclass(frozen=True)
class View:
    """A view that everybody has."""

    name: str
    states: tuple[str, ...] = ()
    within: timedelta | None = None
    is_mine: bool = False
    is_slow: bool = False


VIEWS: Mapping[str, View] = {
    "": View("All"),
    "mine": View("Mine", is_mine=True),
    "running": View("Running", tuple(LIVE_RUN_STATES)),
    "waiting": View("Waiting", (RunState.QUEUED, RunState.WAITING)),
    "failed": View("Failed 24 h", FAILED, timedelta(hours=24)),
    "not-clean": View("Not clean", (RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)),
    "slow": View("Slow", is_slow=True),
}
# Name in the address → facet and its heading.
FACETS: Mapping[str, tuple[str, str]] = {
    "state": ("state", "State"),
    "type": ("flow", "Type"),
    "cause": ("cause", "Waits for"),
    "project": ("project", "Project"),
    "cell": ("cell", "Cell"),
    "owner": ("owner", "Owner"),
}


@require_safe
@signed_in
def workflow_list(request: PageRequest) -> HttpResponse:
    """Newest first, narrowed as the address says."""
    context = {**live_marks("workflows", "list"), **list_context(request.asker, request.GET)}
    return render(request, "workflows/_list.html" if request.htmx else "workflows/list.html", context)


def list_context(asker: RequestContext, given: QueryDict) -> dict[str, Any]:
    """Context of the list of workflows. Raises Invalid for a marker that is not a workflow's."""
    wanted = given.get("view", "")
    if wanted not in VIEWS:
        raise Http404
    view, everybody = VIEWS[wanted], bool(given.get("all")) and asker.is_admin
    chosen = {facet: tuple(given.getlist(name)) for name, (facet, _) in FACETS.items() if given.getlist(name)}
    if not asker.is_admin:
        chosen = {facet: values for facet, values in chosen.items() if facet not in flow_lists.OPERATORS_FACETS}
    query = _query(asker, view, chosen, everybody=everybody, given=given)
    found = flow_lists.search(asker, query)
    here = _without(given, "marker")
    return {
        "asker": asker,
        "runs": [stories.of(run) for run in found.page.items],
        "views": [
            {"name": one.name, "url": _url(_kept(given, ("all",)), view=key), "is_here": key == wanted}
            for key, one in VIEWS.items()
        ],
        "saved": _saved(saved_views.list_of(asker, PAGE), _text(here)),
        "facets": _facets(found, given, chosen),
        "found": found,
        "project_names": found.project_names,
        "is_filtered": bool(wanted or chosen),
        "chosen_count": sum(map(len, chosen.values())),
        "view": wanted,
        "view_name": view.name,
        "everybody": everybody,
        "here": _text(here),
        "is_first_page": not given.get("marker"),
        "first_url": _url(here),
        "clear_url": _url(_kept(given, ("view", "all"))),
        "next_url": _url(here, marker=found.page.items[-1].uuid) if found.page.has_more else "",
        "missing_cells": found.page.missing_cells,
        **_sizes(here),
    }


def _sizes(here: Mapping[str, list[str]]) -> dict[str, Any]:
    """How many rows there are at once, and the other sizes as links."""
    given = {"rows": "".join(here.get("rows", [])[:1])}
    return {
        "is_sized": bool(given["rows"]),
        "window": server_queries.WINDOW_ROWS if server_queries.is_window(given) else 0,
        "sizes": [
            {"size": size, "is_here": is_here, "url": _url({**here, "rows": [str(size)]})}
            for size, is_here in server_queries.sizes(given)
        ],
    }


def _query(
    asker: RequestContext, view: View, chosen: Mapping[str, tuple[str, ...]], *, everybody: bool, given: QueryDict
) -> ListQuery:
    return ListQuery(
        chosen=chosen,
        states=view.states,
        user_id=asker.user_id if view.is_mine else "",
        since=datetime.now(UTC) - view.within if view.within else None,
        is_slow=view.is_slow,
        all_projects=everybody,
        limit=server_queries.rows_of({"rows": given.get("rows", "")}),
        marker=given.get("marker", ""),
    )


def _facets(found: Found, given: QueryDict, chosen: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Headings with their values; each value's address adds it, or takes it away again."""
    facets = []
    for name, (facet, heading) in FACETS.items():
        counts = found.facets.get(facet, {})
        picked = chosen.get(facet, ())
        if len(counts) < 2 and not picked:
            continue
        values = [
            {
                "value": value,
                "words": _words(facet, value, found),
                "count": count,
                "is_picked": value in picked,
                "url": _url(_toggled(given, name, value)),
                "face": faces.Face(faces.RUN_TONES.get(value, "none"), value) if facet == "state" else None,
            }
            for value, count in list(counts.items())[:MOST_VALUES]
        ]
        facets.append({"name": name, "heading": heading, "values": values, "more": max(0, len(counts) - MOST_VALUES)})
    return facets


def _words(facet: str, value: str, found: Found) -> str:
    if facet == "flow":
        return value.replace("_", " ")
    if facet == "cause":
        return faces.WAIT_WORDS.get(value, f"a {value}")
    if facet == "project":
        return found.project_names.get(value, value[:8])
    return "API" if facet == "cell" and value == flow_lists.API else value


def _saved(kept: list[SavedViewView], here: str) -> list[dict[str, Any]]:
    base = reverse("workflows")
    return [
        {"view": one, "url": f"{base}?{one.query}" if one.query else base, "is_here": one.query == here} for one in kept
    ]


def _kept(given: QueryDict, names: tuple[str, ...]) -> dict[str, list[str]]:
    return {name: given.getlist(name) for name in names if given.get(name)}


def _without(given: QueryDict, *names: str) -> dict[str, list[str]]:
    """What an address says that this list knows, in one order, so that equal views have equal addresses."""
    known = [name for name in ("view", "all", *FACETS, "rows", "marker") if name not in names]
    return {name: sorted(set(given.getlist(name))) for name in known if given.get(name)}


def _toggled(given: QueryDict, name: str, value: str) -> dict[str, list[str]]:
    asked = _without(given, "marker")
    values = set(asked.pop(name, []))
    values ^= {value}
    return {**asked, **({name: sorted(values)} if values else {})}


def _text(asked: Mapping[str, list[str]]) -> str:
    return urlencode(asked, doseq=True)


def _url(asked: Mapping[str, list[str]], **more: str) -> str:
    base = reverse("workflows")
    text = _text({**asked, **{name: [value] for name, value in more.items() if value}})
    return f"{base}?{text}" if text else base


@require_POST
@signed_in
def save_view(request: PageRequest) -> HttpResponse:
    """Keep the view whose address came along, under a name."""
    query = _text(_without(QueryDict(str(request.POST.get("query", ""))), "marker"))
    base = reverse("workflows")
    back = f"{base}?{query}" if query else base
    try:
        kept = saved_views.save(request.asker, PAGE, str(request.POST.get("name", "")), query)
    except (Invalid, Conflict) as error:
        said = gettext("Nothing was kept: {why}").format(why=gettext(error.message))
        messages.add_message(request, messages.INFO, said, extra_tags="bad")
        return redirect(back)
    said = gettext("“{name}” is kept among your views.").format(name=kept.name)
    messages.add_message(request, messages.INFO, said, extra_tags="good")
    return redirect(back)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def forget_view(request: PageRequest, view_uuid: str) -> HttpResponse:
    """Asks by name, then forgets one of the asker's own views."""
    mine = next((one for one in saved_views.list_of(request.asker, PAGE) if one.uuid == view_uuid), None)
    if mine is None:
        raise NotFound("There is no such view.")
    if request.method != "POST":
        return render(request, "workflows/forget_view.html", {"kept": mine})
    saved_views.delete(request.asker, PAGE, view_uuid)
    said = gettext("“{name}” is not kept any more.").format(name=mine.name)
    messages.add_message(request, messages.INFO, said, extra_tags="good")
    return redirect("workflows")
