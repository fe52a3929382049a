"""Workflow pages: the list, and one workflow under its tabs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.services import audit, flows
from conductor.services.audit import AuditQuery
from conductor.services.values import EventView
from portal.pages import faces, interventions, placement, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.live_marks import live_marks
from portal.pages.stories import Story

PAGE_SIZE = 50
MOST_AUDITED = 21  # a request and its first children
FAILED = (RunState.FAILED_UNDONE, RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR)
VIEWS: Mapping[str, tuple[str, tuple[str, ...] | None, timedelta | None]] = {
    "": ("All", None, None),
    "running": ("Running", tuple(LIVE_RUN_STATES), None),
    "waiting": ("Waiting", (RunState.QUEUED, RunState.WAITING), None),
    "failed": ("Failed 24 h", FAILED, timedelta(hours=24)),
    "not-clean": ("Not clean", (RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR), None),
}


@require_safe
@signed_in
def workflow_list(request: PageRequest) -> HttpResponse:
    """Newest first, a view of it, a page at a time."""
    context = {**live_marks("workflows", "list"), **list_context(request.asker, request.GET)}
    return render(request, "workflows/_list.html" if request.htmx else "workflows/list.html", context)


def list_context(asker: RequestContext, query: Mapping[str, str]) -> dict[str, Any]:
    """Context of the list of workflows. Raises Invalid for a marker that is not a workflow's."""
    wanted = query.get("view", "")
    if wanted not in VIEWS:
        raise Http404
    _, states, within = VIEWS[wanted]
    since = datetime.now(UTC) - within if within else None
    marker = query.get("marker", "")
    everybody = "1" if query.get("all") and asker.is_admin else ""
    page = flows.list_runs(
        asker, states=states, since=since, limit=PAGE_SIZE, marker=marker, only_own_project=not everybody
    )
    base = reverse("workflows")
    return {
        "asker": asker,
        "runs": [stories.of(run) for run in page.items],
        "views": [
            {"name": name, "url": _url(base, view=view, all=everybody), "is_here": view == wanted}
            for view, (name, *_) in VIEWS.items()
        ],
        "is_filtered": bool(wanted),
        "view": wanted,
        "everybody": everybody,
        "is_first_page": not marker,
        "first_url": _url(base, view=wanted, all=everybody),
        "next_url": _url(base, view=wanted, all=everybody, marker=page.items[-1].uuid) if page.has_more else "",
        "missing_cells": page.missing_cells,
    }


def _url(base: str, **query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{base}?{urlencode(given)}" if given else base


@require_safe
@signed_in
def workflow(request: PageRequest, run_uuid: str, tab: str = "timeline") -> HttpResponse:
    """One workflow; every tab has its own address."""
    if tab not in TABS:
        raise Http404
    context = {**live_marks(f"wf:{run_uuid}", tab), **page_context(request.asker, run_uuid, tab)}
    return render(request, "workflows/page.html", context)


def page_context(asker: RequestContext, run_uuid: str, tab: str) -> dict[str, Any]:
    """Context of a workflow's page. Raises NotFound."""
    story = stories.load(asker, run_uuid)
    _, template, extra = TABS[tab]
    return {
        "asker": asker,
        "run": story,
        "timeline": story.timeline,
        "tabs": [
            {"name": name, "url": _tab_url(run_uuid, key), "is_here": key == tab} for key, (name, *_) in TABS.items()
        ],
        "body_template": template,
        "panel": interventions.panel_of(asker, story),
        **_cause(story),
        **extra(asker, story),
    }


def _tab_url(run_uuid: str, tab: str) -> str:
    return reverse("workflow", args=[run_uuid]) if tab == "timeline" else reverse("workflow-tab", args=[run_uuid, tab])


def _cause(story: Story) -> dict[str, Any]:
    """Why it failed, first cause first; or what it waits for."""
    is_over = not story.is_live
    if story.view.state == RunState.DONE and story.face.tone == "good":
        return {"cause": None, "is_over": is_over, "why": ""}
    error = faces.first_cause(story.view) or _last_failure(story)
    if error is None:
        return {"cause": None, "is_over": is_over, "why": _why(story)}
    titles = {step.name: step.title for run in story.runs for step in run.steps}
    cause = {**error, "step_title": titles.get(error.get("step", ""), "")}
    return {"cause": cause, "cause_story": _cause_story(story), "is_over": is_over, "why": ""}


def _last_failure(story: Story) -> dict[str, Any] | None:
    """The error of an earlier attempt, while the next one runs."""
    failed = [step for run in story.runs for step in run.steps if step.error and step.direction == "do"]
    return dict(failed[-1].error or {}) if failed else None


def _cause_story(story: Story) -> str:
    if story.leftovers:
        return "Not everything could be given back."
    if not story.is_live:
        return "Everything that it had taken was given back." if story.face.tone == "bad" else ""
    if story.face.tone == "undo":
        return "What it had taken is being given back."
    attempts = max(run.attempt for run in story.runs)
    return f"Attempt {attempts} is under way." if attempts > 1 else "It will be tried again."


def _why(story: Story) -> str:
    face = story.face
    if face.tone != "waiting":
        return ""
    if story.view.state == RunState.QUEUED and not face.detail:
        return "It was accepted and stands in the queue for a conductor."
    return f"It is {face.word} {face.detail}.".replace(" .", ".")


def _no_extra(asker: RequestContext, story: Story) -> dict[str, Any]:
    return {}


def _placement(asker: RequestContext, story: Story) -> dict[str, Any]:
    return placement.context_of(asker, story)


def _locks(asker: RequestContext, story: Story) -> dict[str, Any]:
    locks = []
    for run in story.runs:
        for resource in run.locks:
            kind, _, name = resource.partition(":")
            holder = f"{faces.intent(run)} {run.instance_name or faces.subject(run)}"
            locks.append({"kind": kind, "name": name, "holder": holder, "since": run.created_at})
    owners = [
        {
            "flow": run.flow,
            "cell": run.cell,
            "owner": run.owner,
            "face": faces.of_run(run),
            "is_live": run.state in LIVE_RUN_STATES,
            "fencing_token": run.fencing_token,
            "lease_expires_at": run.lease_expires_at,
        }
        for run in story.runs
    ]
    return {"locks": locks, "owners": owners}


def _events(asker: RequestContext, story: Story) -> dict[str, Any]:
    titles = {step.name: step.title for run in story.runs for step in run.steps}
    shown = {run.uuid for run in story.runs}
    events, _ = flows.events_since(asker, story.view.uuid, {})
    found = [event for event in events if event.run_uuid in shown]
    of = {run.uuid: run.instance_name for run in story.view.children} if len(story.view.children) > 1 else {}
    rows = []
    for event in found:
        name = event.data.get("step", "")
        rows.append(
            {"view": event, "step": titles.get(name, name), "words": _words(event), "of": of.get(event.run_uuid)}
        )
    return {"events": rows}


def _words(event: EventView) -> str:
    """What an event says beside its kind and step."""
    data = event.data
    said = []
    if isinstance(data.get("error"), Mapping):
        said.append(str(data["error"].get("message", "")))
    if isinstance(data.get("waits_for"), Mapping):
        said.append(
            " ".join(filter(None, ("waits for", data["waits_for"].get("cause"), data["waits_for"].get("detail"))))
        )
    said += [
        str(data[name])
        for name in ("intervention", "by", "state", "reason", "message", "owner", "host")
        if data.get(name)
    ]
    if data.get("attempt", 1) > 1:
        said.append(f"attempt {data['attempt']}")
    return " · ".join(said)


def _audit(asker: RequestContext, story: Story) -> dict[str, Any]:
    """What was done to the workflow by order, and what was refused."""
    found = [
        record
        for run in story.runs[:MOST_AUDITED]
        for record in audit.list_records(asker, AuditQuery(run_uuid=run.uuid)).items
    ]
    return {"records": sorted(found, key=lambda record: record.created_at, reverse=True)}


Extra = Callable[[RequestContext, Story], dict[str, Any]]
TABS: Mapping[str, tuple[str, str, Extra]] = {
    "timeline": ("Timeline", "workflows/_timeline_tab.html", _no_extra),
    "steps": ("Steps", "workflows/_steps.html", _no_extra),
    "placement": ("Placement", "workflows/_placement.html", _placement),
    "locks": ("Locks", "workflows/_locks.html", _locks),
    "audit": ("Audit", "workflows/_audit.html", _audit),
    "events": ("Events", "workflows/_events.html", _events),
}
