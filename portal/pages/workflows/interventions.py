"""Interventions on a workflow's page: buttons, and a form that asks for the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NovellaError, StaleRevision
from conductor.core.interventions import ANSWERS
from conductor.core.states import RunState, StepState
from conductor.services.scheduling import decisions
from conductor.services.workflows import actions, interventions, lock_waits
from conductor.services.workflows.actions import ActionPanel, AvailableIntervention, LeaseView
from conductor.services.workflows.approvals import ApprovalView
from conductor.services.workflows.interventions import CONFIRM_LENGTH, InterventionRequest
from conductor.services.workflows.types import RunView, StepView
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter

FIELDS = ("reason", "step", "confirm", "mark", "revision")
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (Invalid, 400),
    (Forbidden, 403),
    (StaleRevision, 412),
    (Conflict, 409),
)


@dataclass(frozen=True)
class Buttons:
    """The buttons of a workflow's page, and the owners of the run that they are about."""

    run_uuid: str
    enabled: list[AvailableIntervention]
    disabled: list[AvailableIntervention]
    leases: list[LeaseView]
    requested: str
    approval: ApprovalView | None
    unresponsive_since: datetime | None


def panel_of(caller: RequestContext, presenter: WorkflowPresenter) -> Buttons:
    """Return the actions that the caller may take on the workflow's current run."""
    panel = actions.panel(caller, subject_of(presenter).uuid)
    mine = [action for action in panel.actions if action.is_for_caller]
    return Buttons(
        run_uuid=panel.run_uuid,
        enabled=[action for action in mine if action.enabled],
        disabled=[action for action in mine if not action.enabled],
        leases=panel.leases,
        requested=panel.requested,
        approval=panel.approval,
        unresponsive_since=panel.unresponsive_since,
    )


def subject_of(presenter: WorkflowPresenter) -> RunView:
    """Return the run that a workflow's buttons are about: its only child, if it has handed over to that."""
    is_handed_on = presenter.view.state == RunState.DONE and len(presenter.view.children) == 1
    return presenter.view.children[0] if is_handed_on else presenter.view


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def intervene(request: PageRequest, run_uuid: str, name: str) -> HttpResponse:
    """Ask for the intervention's values, then carry it out. The workflow's page shows the result."""
    panel = actions.panel(request.caller, run_uuid)
    action = next((one for one in panel.actions if one.id == name), None)
    if action is None:
        raise Http404
    if request.method != "POST":
        if not action.is_for_caller:
            raise Forbidden(action.why_not)
        return _form(request, panel, action, {}, None)
    form = {name: str(request.POST.get(name, "")) for name in FIELDS}
    try:
        interventions.intervene(request.caller, run_uuid, name, _asked(form))
    except (Invalid, Forbidden, Conflict) as error:
        return _form(request, actions.panel(request.caller, run_uuid), action, form, error)
    title = {"title": gettext(action.title)}
    text = gettext("%(title)s: request accepted. This page updates when it is done.") % title
    if action.takes_two:
        text = gettext("%(title)s requires another operator's approval.") % title
    leave_note(request, text, "waiting")
    return redirect("workflow", run_uuid)


def _asked(form: Mapping[str, str]) -> InterventionRequest:
    return InterventionRequest(
        reason=form["reason"], step=form["step"], confirm=form["confirm"], mark=form["mark"], revision=form["revision"]
    )


def _form(
    request: PageRequest,
    panel: ActionPanel,
    action: AvailableIntervention,
    form: Mapping[str, str],
    error: NovellaError | None,
) -> HttpResponse:
    presenter = workflow_presenter.load(request.caller, panel.run_uuid)
    run = next(one for one in presenter.runs if one.uuid == panel.run_uuid)
    now = next(one for one in panel.actions if one.id == action.id)
    title, effects = _requested(panel.approval) if action.id in ANSWERS else _effects(run, action.id)
    context = {
        "caller": request.caller,
        "run": presenter,
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
        "lease": lock_waits.lease_of(run) if action.id == "take-over" and request.caller.is_admin else None,
        "next_hosts": _next_hosts(request.caller, presenter) if action.id == "reschedule" else [],
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "workflows/act.html", context, status=status)


def _next_hosts(caller: RequestContext, presenter: WorkflowPresenter) -> list[str]:
    """Return the alternate hosts that the newest decision left untried, for callers that may see hosts."""
    found = decisions.for_run(caller, presenter.view.uuid) if caller.is_admin else []
    return decisions.untried(found[-1]) if found else []


def _steps(run: RunView, names: tuple[str, ...]) -> list[dict[str, str]]:
    titles = {step.name: step.title for step in run.steps}
    return [{"name": name, "title": titles.get(name, name)} for name in names]


def _effects(run: RunView, action_id: str) -> tuple[str, list[str]]:
    """Return the effects of an intervention, as far as the recorded steps show."""
    if action_id in ("cancel", "reschedule"):
        return gettext("Steps to roll back, last first"), [
            gettext(step.title) for step in reversed(_of_attempt(run)) if step.started_at
        ]
    if action_id == "retry":
        return gettext("Steps to run again, from the selected step"), [gettext(step.title) for step in _planned(run)]
    if action_id in ("undo", "force"):
        return gettext("Resources that may be left over"), list(run.uncompensated)
    return "", []


def _requested(requested: ApprovalView | None) -> tuple[str, list[str]]:
    """Return the request of another operator."""
    if requested is None:
        return "", []
    what = [gettext(requested.title), *filter(None, (requested.step, requested.mark))]
    fields = {"by": requested.by, "what": " ".join(what), "reason": requested.reason}
    return gettext("Requested resources"), [gettext("%(by)s: %(what)s. Reason: %(reason)s") % fields]


def _of_attempt(run: RunView) -> list[StepView]:
    """Return the newest attempt of each forward step in the current attempt of the run."""
    newest = {step.index: step for step in run.steps if step.direction == "do" and step.attempt == run.attempt}
    return [step for _, step in sorted(newest.items()) if step.state != StepState.CANCELLED]


def _planned(run: RunView) -> list[StepView]:
    return _of_attempt(run)[: run.step_count]
