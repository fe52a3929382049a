"""One workflow under its tabs; see flow_list for the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import is_cancel
from conductor.core.states import RunState
from conductor.services import step_logs
from portal.pages import faces, flow_tabs, interventions, steps, stories, waits
from portal.pages.access import PageRequest, signed_in
from portal.pages.flow_tabs import TABS, Asked
from portal.pages.live_marks import live_marks
from portal.pages.stories import Story

__all__ = ["TABS", "log", "page_context", "workflow"]

# What narrows a tab; a page that is narrowed is read again by its reader, not by itself.
NARROWED: Mapping[str, tuple[str, ...]] = {
    "logs": ("level", "component", "host", "step", "line"),
    "events": ("from",),
    "placement": ("lost",),
    "graph": ("open",),
}


@require_safe
@signed_in
def workflow(request: PageRequest, run_uuid: str, tab: str = "timeline") -> HttpResponse:
    """One workflow; every tab has its own address."""
    if tab not in TABS:
        raise Http404
    marks = live_marks(f"wf:{run_uuid}", tab)
    context = page_context(request.asker, run_uuid, tab, request.GET)
    if request.GET.get("step") and (shown := steps.anchor_key(request.GET["step"])):
        context |= steps.step_context(request.asker, context["run"], shown, request.GET["step"])
    is_past = context.get("slider", {}).get("is_past")
    is_narrowed = tab in NARROWED and any(request.GET.get(name) for name in NARROWED[tab])
    return render(
        request, "workflows/page.html", {**({"is_paused": True} if is_past or is_narrowed else marks), **context}
    )


@require_safe
@signed_in
def log(request: PageRequest, run_uuid: str) -> HttpResponse:
    """The log as a file, narrowed as the page is."""
    story = stories.load(request.asker, run_uuid)
    context = flow_tabs.log_context(request.asker, story, request.GET, step_logs.MOST_EVENTS)
    answer = HttpResponse(step_logs.as_text(context["log"]), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="workflow-{story.uuid[:8]}.log"'
    return answer


def page_context(
    asker: RequestContext, run_uuid: str, tab: str, query: Mapping[str, str] | None = None, *, is_tail: bool = False
) -> dict[str, Any]:
    """Context of a workflow's page. Raises NotFound, and Invalid for a moment that it did not have.

    With `is_tail` the log has only its end, for a page that has the rest.
    """
    asked_for = query or {}
    newest = stories.load(asker, run_uuid)
    story, slider = flow_tabs.at_moment(asker, newest, tab, asked_for.get("as_of", ""))
    _, template, extra = TABS[tab]
    asked = Asked(asker, story, asked_for, is_tail)
    return {
        "asker": asker,
        "run": story,
        "timeline": story.timeline,
        "tab": tab,
        "tabs": [
            {"name": name, "key": key, "url": _tab_url(run_uuid, key), "is_here": key == tab}
            for key, (name, *_) in TABS.items()
        ],
        "body_template": template,
        "panel": interventions.panel_of(asker, newest),
        **slider,
        **_cause(story),
        **extra(asked),
    }


def _tab_url(run_uuid: str, tab: str) -> str:
    return reverse("workflow", args=[run_uuid]) if tab == "timeline" else reverse("workflow-tab", args=[run_uuid, tab])


def _cause(story: Story) -> dict[str, Any]:
    """Why it failed, first cause first; or what it waits for."""
    is_over = not story.is_live
    if story.view.state == RunState.DONE and story.face.tone == "good":
        return {"cause": None, "is_over": is_over, "why": ""}
    error = faces.first_cause(story.view) or _last_failure(story)
    if error is None and story.leftovers:
        error = {"message": "Why it failed was not kept."}
    if error is None:
        return {"cause": None, "is_over": is_over, "why": _why(story)}
    titles = {step.name: step.title for run in story.runs for step in run.steps}
    cause = {**error, "step_title": titles.get(error.get("step", ""), "")}
    said = {"cause": cause, "cause_story": _cause_story(story), "is_over": is_over, "why": ""}
    return {**said, "is_cancelled": is_cancel(error)}


def _last_failure(story: Story) -> dict[str, Any] | None:
    """The error of an earlier attempt, while the next one runs."""
    failed = [step for run in story.runs for step in run.steps if step.error and step.direction == "do"]
    return dict(failed[-1].error or {}) if failed else None


def _cause_story(story: Story) -> str:
    if story.leftovers:
        return gettext("Not everything could be given back.")
    if not story.is_live:
        return gettext("Everything that it had taken was given back.") if story.face.tone == "bad" else ""
    if story.face.tone == "undo":
        return gettext("What it had taken is being given back.")
    attempts = max(run.attempt for run in story.runs)
    under_way = gettext("Attempt %(number)s is under way.") % {"number": attempts}
    return under_way if attempts > 1 else gettext("It will be tried again.")


def _why(story: Story) -> str:
    face = story.face
    if face.tone != "waiting":
        return ""
    if story.view.state == RunState.QUEUED and not face.detail:
        return waits.in_queue(story.view)
    said = f"{gettext(face.word)} {face.detail}".strip()
    return gettext("It is %(state)s.") % {"state": said}
