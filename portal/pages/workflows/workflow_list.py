"""The list of workflows: facets, built-in and saved views, in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.services.accounts import preferences
from conductor.services.accounts.preferences import SavedViewView
from conductor.services.workflows import lists
from conductor.services.workflows.lists import WorkflowListQuery, WorkflowPage
from portal.pages import server_queries, status_badges
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.timeline import presenter
from portal.pages.wording import translated

PAGE = "workflows"
MOST_VALUES = 12  # of a facet; others are reachable by address
FAILED = (RunState.FAILED_UNDONE, RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)


@dataclass(frozen=True)
class View:
    """A built-in view."""

    name: str
    states: tuple[str, ...] = ()
    within: timedelta | None = None
    is_mine: bool = False
    is_slow: bool = False


VIEWS: Mapping[str, View] = {
    "": View("All"),
    "mine": View("My workflows", is_mine=True),
    "running": View("Running", tuple(LIVE_RUN_STATES)),
    "waiting": View("Waiting", (RunState.QUEUED, RunState.WAITING)),
    "failed": View("Failed (24 h)", FAILED, timedelta(hours=24)),
    "not-clean": View("Cleanup incomplete", (RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)),
    "slow": View("Slow", is_slow=True),
}
# Parameter of the address → (facet, heading).
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
    """Show the workflows, newest first, filtered by the address."""
    context = {**live_marks("workflows", "list"), **list_context(request.caller, request.GET)}
    return render(request, "workflows/_list.html" if request.htmx else "workflows/list.html", context)


def list_context(caller: RequestContext, given: QueryDict) -> dict[str, Any]:
    """Context of the list of workflows. Raises Invalid for a marker that is not a workflow's."""
    wanted = given.get("view", "")
    if wanted not in VIEWS:
        raise Http404
    view, all_projects = VIEWS[wanted], bool(given.get("all")) and caller.is_admin
    chosen = {facet: tuple(given.getlist(name)) for name, (facet, _) in FACETS.items() if given.getlist(name)}
    if not caller.is_admin:
        chosen = {facet: values for facet, values in chosen.items() if facet not in lists.OPERATORS_FACETS}
    query = _query(caller, view, chosen, all_projects=all_projects, given=given)
    found = lists.search(caller, query)
    here = _without(given, "marker")
    return {
        "caller": caller,
        "runs": [presenter.of(run) for run in found.page.items],
        "views": [
            {"name": one.name, "url": _url(_kept(given, ("all",)), view=key), "is_here": key == wanted}
            for key, one in VIEWS.items()
        ],
        "saved": _saved(preferences.list_of(caller, PAGE), _text(here)),
        "facets": _facets(found, given, chosen),
        "found": found,
        "project_names": found.project_names,
        "is_filtered": bool(wanted or chosen),
        "chosen_count": sum(map(len, chosen.values())),
        "view": wanted,
        "view_name": view.name,
        "all_projects": all_projects,
        "here": _text(here),
        "is_first_page": not given.get("marker"),
        "first_url": _url(here),
        "clear_url": _url(_kept(given, ("view", "all"))),
        "next_url": _url(here, marker=found.page.items[-1].uuid) if found.page.has_more else "",
        "missing_cells": found.page.missing_cells,
        **_sizes(here),
    }


def _sizes(here: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the current page size, and the other sizes as links."""
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
    caller: RequestContext, view: View, chosen: Mapping[str, tuple[str, ...]], *, all_projects: bool, given: QueryDict
) -> WorkflowListQuery:
    return WorkflowListQuery(
        chosen=chosen,
        states=view.states,
        user_id=caller.user_id if view.is_mine else "",
        since=datetime.now(UTC) - view.within if view.within else None,
        is_slow=view.is_slow,
        all_projects=all_projects,
        limit=server_queries.rows_of({"rows": given.get("rows", "")}),
        marker=given.get("marker", ""),
    )


def _facets(found: WorkflowPage, given: QueryDict, chosen: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Return headings with their values; each value's address adds or removes it."""
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
                "badge": status_badges.StatusBadge(status_badges.RUN_TONES.get(value, "none"), value)
                if facet == "state"
                else None,
            }
            for value, count in list(counts.items())[:MOST_VALUES]
        ]
        facets.append({"name": name, "heading": heading, "values": values, "more": max(0, len(counts) - MOST_VALUES)})
    return facets


def _words(facet: str, value: str, found: WorkflowPage) -> str:
    if facet == "cause":
        return gettext(status_badges.WAIT_WORDS.get(value, value.replace("_", " ")))
    if facet == "project":
        return found.project_names.get(value, value[:8])
    return "API" if facet == "cell" and value == lists.API else value


def _saved(kept: list[SavedViewView], here: str) -> list[dict[str, Any]]:
    base = reverse("workflows")
    return [
        {"view": one, "url": f"{base}?{one.query}" if one.query else base, "is_here": one.query == here} for one in kept
    ]


def _kept(given: QueryDict, names: tuple[str, ...]) -> dict[str, list[str]]:
    return {name: given.getlist(name) for name in names if given.get(name)}


def _without(given: QueryDict, *names: str) -> dict[str, list[str]]:
    """Return the known parameters of an address in a fixed order, so that equal views have equal addresses."""
    known = [name for name in ("view", "all", *FACETS, "rows", "marker") if name not in names]
    return {name: sorted(set(given.getlist(name))) for name in known if given.get(name)}


def _toggled(given: QueryDict, name: str, value: str) -> dict[str, list[str]]:
    requested = _without(given, "marker")
    values = set(requested.pop(name, []))
    values ^= {value}
    return {**requested, **({name: sorted(values)} if values else {})}


def _text(requested: Mapping[str, list[str]]) -> str:
    return urlencode(requested, doseq=True)


def _url(requested: Mapping[str, list[str]], **more: str) -> str:
    base = reverse("workflows")
    text = _text({**requested, **{name: [value] for name, value in more.items() if value}})
    return f"{base}?{text}" if text else base


@require_POST
@signed_in
def save_view(request: PageRequest) -> HttpResponse:
    """Save the view of the submitted address under a name."""
    query = _text(_without(QueryDict(str(request.POST.get("query", ""))), "marker"))
    base = reverse("workflows")
    back = f"{base}?{query}" if query else base
    try:
        kept = preferences.save(request.caller, PAGE, str(request.POST.get("name", "")), query)
    except (Invalid, Conflict) as error:
        sentence = gettext("View not saved: {why}").format(why=translated(error.message))
        leave_note(request, sentence, "bad")
        return redirect(back)
    sentence = gettext("View “{name}” saved.").format(name=kept.name)
    leave_note(request, sentence, "good")
    return redirect(back)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def forget_view(request: PageRequest, view_uuid: str) -> HttpResponse:
    """Ask by name, then delete one of the caller's saved views."""
    mine = next((one for one in preferences.list_of(request.caller, PAGE) if one.uuid == view_uuid), None)
    if mine is None:
        raise NotFound("There is no such view.")
    if request.method != "POST":
        return render(request, "workflows/forget_view.html", {"kept": mine})
    preferences.delete(request.caller, PAGE, view_uuid)
    sentence = gettext("View “{name}” deleted.").format(name=mine.name)
    leave_note(request, sentence, "good")
    return redirect("workflows")
