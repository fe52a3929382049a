"""Doing something to a workflow from its page: buttons, and a form that asks for the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NovellaError, StaleRevision
from conductor.core.interventions import ANSWERS
from conductor.core.states import RunState, StepState
from conductor.services import decisions, flow_actions, interventions, lock_views
from conductor.services.agreements import AgreementView
from conductor.services.flow_actions import ActionChoice, LeaseView, Panel
from conductor.services.interventions import CONFIRM_LENGTH, Asked
from conductor.services.values import RunView, StepView
from portal.pages import stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.stories import Story

FIELDS = ("reason", "step", "confirm", "mark", "revision")
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (Invalid, 400),
    (Forbidden, 403),
    (StaleRevision, 412),
    (Conflict, 409),
)


@dataclass(frozen=True)
class Buttons:
    """The buttons of a workflow's page, and who has owned the run that they are about."""

    run_uuid: str
    enabled: list[ActionChoice]
    disabled: list[ActionChoice]
    leases: list[LeaseView]
    requested: str
    agreement: AgreementView | None
    silent_since: datetime | None


def panel_of(asker: RequestContext, story: Story) -> Buttons:
    """What the asker may do to a story: to the run that the work is in now."""
    panel = flow_actions.panel(asker, subject_of(story).uuid)
    mine = [action for action in panel.actions if action.is_for_asker]
    return Buttons(
        run_uuid=panel.run_uuid,
        enabled=[action for action in mine if action.enabled],
        disabled=[action for action in mine if not action.enabled],
        leases=panel.leases,
        requested=panel.requested,
        agreement=panel.agreement,
        silent_since=panel.silent_since,
    )


def subject_of(story: Story) -> RunView:
    """The run that a story's buttons are about: the one that took the work over, where it is one alone."""
    is_handed_on = story.view.state == RunState.DONE and len(story.view.children) == 1
    return story.view.children[0] if is_handed_on else story.view


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def intervene(request: PageRequest, run_uuid: str, name: str) -> HttpResponse:
    """Asks for what the intervention needs; then does it. The page of the workflow shows the rest."""
    panel = flow_actions.panel(request.asker, run_uuid)
    action = next((one for one in panel.actions if one.id == name), None)
    if action is None:
        raise Http404
    if request.method != "POST":
        if not action.is_for_asker:
            raise Forbidden(action.why_not)
        return _form(request, panel, action, {}, None)
    form = {name: str(request.POST.get(name, "")) for name in FIELDS}
    try:
        interventions.intervene(request.asker, run_uuid, name, _asked(form))
    except (Invalid, Forbidden, Conflict) as error:
        return _form(request, flow_actions.panel(request.asker, run_uuid), action, form, error)
    title = {"title": gettext(action.title)}
    text = gettext("%(title)s was requested. This page shows it as soon as it is done.") % title
    if action.takes_two:
        text = gettext("%(title)s waits for another operator's agreement.") % title
    messages.add_message(request, messages.INFO, text, extra_tags="waiting")
    return redirect("workflow", run_uuid)


def _asked(form: Mapping[str, str]) -> Asked:
    return Asked(
        reason=form["reason"], step=form["step"], confirm=form["confirm"], mark=form["mark"], revision=form["revision"]
    )


def _form(
    request: PageRequest, panel: Panel, action: ActionChoice, form: Mapping[str, str], error: NovellaError | None
) -> HttpResponse:
    story = stories.load(request.asker, panel.run_uuid)
    run = next(one for one in story.runs if one.uuid == panel.run_uuid)
    now = next(one for one in panel.actions if one.id == action.id)
    title, effects = _wish(panel.agreement) if action.id in ANSWERS else _effects(run, action.id)
    context = {
        "asker": request.asker,
        "run": story,
        "run_uuid": panel.run_uuid,
        "action": now,
        "revision": panel.revision,
        "form": form,
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
        "steps": _steps(run, now.choices),
        "to_type": panel.run_uuid[:CONFIRM_LENGTH] if action.id == "force" else "".join(now.choices[:1]),
        "effects_title": title,
        "effects": effects,
        "lease": lock_views.lease_of(run) if action.id == "take-over" and request.asker.is_admin else None,
        "next_hosts": _next_hosts(request.asker, story) if action.id == "reschedule" else [],
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "workflows/act.html", context, status=status)


def _next_hosts(asker: RequestContext, story: Story) -> list[str]:
    """The alternates that the newest decision left untried, for whoever may read hosts' names."""
    found = decisions.for_run(asker, story.view.uuid) if asker.is_admin else []
    return decisions.untried(found[-1]) if found else []


def _steps(run: RunView, names: tuple[str, ...]) -> list[dict[str, str]]:
    titles = {step.name: step.title for step in run.steps}
    return [{"name": name, "title": titles.get(name, name)} for name in names]


def _effects(run: RunView, action_id: str) -> tuple[str, list[str]]:
    """What it will touch, as far as the steps on record tell."""
    if action_id in ("cancel", "reschedule"):
        return gettext("To be undone, last first"), [
            gettext(step.title) for step in reversed(_of_attempt(run)) if step.started_at
        ]
    if action_id == "retry":
        return gettext("To be done again, from the step that you pick"), [gettext(step.title) for step in _planned(run)]
    if action_id in ("undo", "force"):
        return gettext("Left behind so far"), list(run.leftovers)
    return "", []


def _wish(asked: AgreementView | None) -> tuple[str, list[str]]:
    """What another operator asks for."""
    if asked is None:
        return "", []
    what = [gettext(asked.title), *filter(None, (asked.step, asked.mark))]
    said = {"by": asked.by, "what": " ".join(what), "reason": asked.reason}
    return gettext("What is asked for"), [gettext("%(by)s: %(what)s. Reason: %(reason)s") % said]


def _of_attempt(run: RunView) -> list[StepView]:
    """The newest try of each forward step of the current attempt."""
    newest = {step.index: step for step in run.steps if step.direction == "do" and step.attempt == run.attempt}
    return [step for _, step in sorted(newest.items()) if step.state != StepState.CANCELLED]


def _planned(run: RunView) -> list[StepView]:
    return _of_attempt(run)[: run.step_count]
