"""A step of a workflow with all its attempts: beside the timeline, or as a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services.workflows import run_data
from conductor.services.workflows.run_data import RunData
from conductor.services.workflows.types import RunView, StepView
from portal.pages.amounts import short
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.timeline.timeline import TimelineRow


@dataclass(frozen=True)
class StepAttempt:
    """An attempt, for its tab."""

    row: TimelineRow
    name: str
    is_here: bool


@require_safe
@signed_in
def step(request: PageRequest, run_uuid: str, key: str) -> HttpResponse:
    """Show the page; for a script that shows it beside another page, only the fragment."""
    context = {
        **live_marks(f"wf:{run_uuid}", "steps"),
        **step_context(
            request.caller, workflow_presenter.load(request.caller, run_uuid), key, request.GET.get("try", "")
        ),
    }
    return render(request, "workflows/_step.html" if request.htmx else "workflows/step.html", context)


def step_context(caller: RequestContext, presenter: WorkflowPresenter, key: str, wanted: str) -> dict[str, Any]:
    """Context of a step. Raises Http404 for a step that the workflow does not have."""
    rows = [row for row in presenter.timeline.rows if row.step is not None and row.key == key]
    run = next((run for run in presenter.runs if key.startswith(f"{run.uuid[:8]}-")), None)
    if not rows or run is None:
        raise Http404
    chosen = next((row for row in rows if row.anchor == wanted), rows[-1])
    data = run_data.of_run(caller, run.uuid)
    shown = chosen.step
    assert shown is not None
    return {
        "caller": caller,
        "run": presenter,
        "step_key": key,
        "chosen": chosen,
        "step": shown,
        "tries": [StepAttempt(row, _name(row), row is chosen) for row in rows],
        "facts": _facts(caller, run, chosen, data),
        "errors": _errors(shown),
        "inputs": data.inputs,
        "output": data.outputs.get(shown.name) if shown.direction == "do" else None,
        "next_try_at": data.next_try_at if shown is _newest(run, shown) else None,
        "position": _position(presenter, chosen),
    }


def _name(row: TimelineRow) -> str:
    step = row.step
    assert step is not None
    if not step.try_number:
        return gettext(row.badge.word)
    attempt = gettext("attempt %(attempt)s") % {"attempt": step.attempt}
    words = [attempt if step.attempt > 1 or step.try_number == 1 else ""]
    again = gettext("attempt %(try_number)s") % {"try_number": step.try_number}
    words.append(again if step.try_number > 1 else "")
    words.append(gettext("undo") if step.direction == "undo" else "")
    return " ".join(filter(None, words)) or attempt


def _newest(run: RunView, step: StepView) -> StepView | None:
    mine = [one for one in run.steps if one.index == step.index and one.started_at is not None]
    return mine[-1] if mine else None


def _position(presenter: WorkflowPresenter, chosen: TimelineRow) -> dict[str, TimelineRow | None]:
    """Return the rows before and after, for links to these steps."""
    rows = [row for row in presenter.timeline.rows if row.step is not None]
    here = rows.index(chosen)
    return {"before": rows[here - 1] if here else None, "after": rows[here + 1] if here + 1 < len(rows) else None}


def _errors(step: StepView) -> list[Mapping[str, Any]]:
    """Return the chain of an error, first cause on top."""
    chain: list[Mapping[str, Any]] = []
    error: Any = step.error
    while isinstance(error, Mapping) and len(chain) < 8:
        chain.append(error)
        details = error.get("details")
        error = error.get("cause") or (details.get("cause") if isinstance(details, Mapping) else None)
    return chain[::-1]


def _facts(caller: RequestContext, run: RunView, row: TimelineRow, data: RunData) -> list[tuple[str, Any, str]]:
    """Return name, value, and format: text, mono, time, seconds, since."""
    step = row.step
    assert step is not None
    rules = data.rules.get(step.name, {})
    facts: list[tuple[str, Any, str]] = [
        (gettext("Where"), " ".join(filter(None, (row.lane, row.lane_detail))), "text"),
        (gettext("Started"), step.started_at, "time"),
        (gettext("Ended"), step.finished_at, "time"),
        (gettext("Typical duration"), row.typical.p50 if row.typical else None, "seconds"),
        (gettext("p95 duration"), row.typical.p95 if row.typical else None, "seconds"),
        (
            gettext("Time limit without progress"),
            data.silence_seconds if row.lane == "Compute host" else None,
            "seconds",
        ),
        (gettext("Attempts"), _tries(rules), "text"),
    ]
    if caller.is_admin:
        is_mine = step.finished_at is None and step.started_at is not None
        facts += [
            (gettext("Worker"), step.worker, "mono"),
            (gettext("Fencing token"), f"#{step.fencing_token}" if step.fencing_token else "", "mono"),
            (gettext("Last heartbeat"), data.heartbeat_at if is_mine else None, "since"),
            (gettext("Lease until"), run.lease_expires_at if is_mine else None, "time"),
            (gettext("Idempotency key"), step.step_key, "mono"),
        ]
    return [fact for fact in facts if fact[1] not in (None, "")]


def _tries(rules: Mapping[str, Any]) -> str:
    if "tries" not in rules:
        return ""
    often = gettext("until it succeeds")
    if rules["tries"]:
        often = gettext("up to %(count)s times") % {"count": rules["tries"]}
    fields = {"often": often, "pause": short(rules.get("pause_seconds", 1))}
    return gettext("%(often)s, %(pause)s s before the first retry, then twice as long each time") % fields


def anchor_key(anchor: str) -> str:
    """Return the step of an attempt: step-1a2b3c4d-do-1-2-1 → 1a2b3c4d-2."""
    parts = anchor.split("-")
    return f"{parts[1]}-{parts[4]}" if len(parts) == 6 else ""
