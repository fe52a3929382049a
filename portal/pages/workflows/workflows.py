"""A workflow with its tabs; `workflow_list` has the list."""

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
from conductor.services.workflows import step_logs
from portal.pages import status_badges
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.workflows import interventions, steps, tabs, waits
from portal.pages.workflows.tabs import TABS, TabRequest

__all__ = ["TABS", "log", "page_context", "workflow"]

# Filters of a tab; a filtered page does not update by itself.
NARROWED: Mapping[str, tuple[str, ...]] = {
    "logs": ("level", "component", "host", "step", "line"),
    "events": ("from",),
    "placement": ("lost",),
    "graph": ("open",),
}


@require_safe
@signed_in
def workflow(request: PageRequest, run_uuid: str, tab: str = "timeline") -> HttpResponse:
    """Show a workflow; every tab has an address of its own."""
    if tab not in TABS:
        raise Http404
    marks = live_marks(f"wf:{run_uuid}", tab)
    context = page_context(request.caller, run_uuid, tab, request.GET)
    if request.GET.get("step") and (shown := steps.anchor_key(request.GET["step"])):
        context |= steps.step_context(request.caller, context["run"], shown, request.GET["step"])
    is_past = context.get("slider", {}).get("is_past")
    is_narrowed = tab in NARROWED and any(request.GET.get(name) for name in NARROWED[tab])
    return render(
        request, "workflows/page.html", {**({"is_paused": True} if is_past or is_narrowed else marks), **context}
    )


@require_safe
@signed_in
def log(request: PageRequest, run_uuid: str) -> HttpResponse:
    """Return the log as a file, filtered like the page."""
    presenter = workflow_presenter.load(request.caller, run_uuid)
    context = tabs.log_context(request.caller, presenter, request.GET, step_logs.MOST_EVENTS)
    answer = HttpResponse(step_logs.as_text(context["log"]), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="workflow-{presenter.uuid[:8]}.log"'
    return answer


def page_context(
    caller: RequestContext, run_uuid: str, tab: str, query: Mapping[str, str] | None = None, *, is_tail: bool = False
) -> dict[str, Any]:
    """Context of a workflow's page. Raises NotFound, and Invalid for a moment that it did not have.

    With `is_tail` the log has only its end, for a page that has the rest.
    """
    asked_for = query or {}
    newest = workflow_presenter.load(caller, run_uuid)
    presenter, slider = tabs.at_moment(caller, newest, tab, asked_for.get("as_of", ""))
    _, template, extra = TABS[tab]
    requested = TabRequest(caller, presenter, asked_for, is_tail)
    return {
        "caller": caller,
        "run": presenter,
        "timeline": presenter.timeline,
        "tab": tab,
        "tabs": [
            {"name": name, "key": key, "url": _tab_url(run_uuid, key), "is_here": key == tab}
            for key, (name, *_) in TABS.items()
        ],
        "body_template": template,
        "panel": interventions.panel_of(caller, newest),
        **slider,
        **_cause(presenter),
        **extra(requested),
    }


def _tab_url(run_uuid: str, tab: str) -> str:
    return reverse("workflow", args=[run_uuid]) if tab == "timeline" else reverse("workflow-tab", args=[run_uuid, tab])


def _cause(presenter: WorkflowPresenter) -> dict[str, Any]:
    """Return why it failed, first cause first; or what it waits for."""
    is_over = not presenter.is_live
    if presenter.view.state == RunState.DONE and presenter.badge.tone == "good":
        return {"cause": None, "is_over": is_over, "why": ""}
    error = status_badges.first_cause(presenter.view) or _last_failure(presenter)
    if error is None and presenter.uncompensated:
        error = {"message": "The cause of the failure isn't stored."}
    if error is None:
        return {"cause": None, "is_over": is_over, "why": _why(presenter)}
    titles = {step.name: step.title for run in presenter.runs for step in run.steps}
    cause = {**error, "step_title": titles.get(error.get("step", ""), "")}
    values = {"cause": cause, "cause_presenter": _cause_presenter(presenter), "is_over": is_over, "why": ""}
    return {**values, "is_cancelled": is_cancel(error)}


def _last_failure(presenter: WorkflowPresenter) -> dict[str, Any] | None:
    """Return the error of an earlier attempt, while the next one runs."""
    failed = [step for run in presenter.runs for step in run.steps if step.error and step.direction == "do"]
    return dict(failed[-1].error or {}) if failed else None


def _cause_presenter(presenter: WorkflowPresenter) -> str:
    if presenter.uncompensated:
        return gettext("Some resources couldn't be released.")
    if not presenter.is_live:
        return gettext("All resources were released.") if presenter.badge.tone == "bad" else ""
    if presenter.badge.tone == "undo":
        return gettext("Resources are being released.")
    attempts = max(run.attempt for run in presenter.runs)
    under_way = gettext("Attempt %(number)s is running.") % {"number": attempts}
    return under_way if attempts > 1 else gettext("The step will be retried.")


def _why(presenter: WorkflowPresenter) -> str:
    badge = presenter.badge
    if badge.tone != "waiting":
        return ""
    if presenter.view.state == RunState.QUEUED and not badge.detail:
        return waits.in_queue(presenter.view)
    values = f"{gettext(badge.word)} {badge.detail}".strip()
    return gettext("State: %(state)s.") % {"state": values}
