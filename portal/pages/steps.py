"""One step of a workflow with all its tries: beside the timeline, or as a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services import run_data
from conductor.services.run_data import RunData
from conductor.services.values import RunView, StepView
from portal.pages import stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import short
from portal.pages.live_marks import live_marks
from portal.pages.stories import Story
from portal.pages.timeline import Row


@dataclass(frozen=True)
class Try:
    """One try as its tab shows it."""

    row: Row
    name: str
    is_here: bool


@require_safe
@signed_in
def step(request: PageRequest, run_uuid: str, key: str) -> HttpResponse:
    """A page; for a script that shows it beside another page, the piece alone."""
    context = {
        **live_marks(f"wf:{run_uuid}", "steps"),
        **step_context(request.asker, stories.load(request.asker, run_uuid), key, request.GET.get("try", "")),
    }
    return render(request, "workflows/_step.html" if request.htmx else "workflows/step.html", context)


def step_context(asker: RequestContext, story: Story, key: str, wanted: str) -> dict[str, Any]:
    """Context of a step. Raises Http404 for one that the story does not have."""
    rows = [row for row in story.timeline.rows if row.step is not None and row.key == key]
    run = next((run for run in story.runs if key.startswith(f"{run.uuid[:8]}-")), None)
    if not rows or run is None:
        raise Http404
    chosen = next((row for row in rows if row.anchor == wanted), rows[-1])
    data = run_data.of_run(asker, run.uuid)
    shown = chosen.step
    assert shown is not None
    return {
        "asker": asker,
        "run": story,
        "step_key": key,
        "chosen": chosen,
        "step": shown,
        "tries": [Try(row, _name(row), row is chosen) for row in rows],
        "facts": _facts(asker, run, chosen, data),
        "errors": _errors(shown),
        "inputs": data.inputs,
        "output": data.outputs.get(shown.name) if shown.direction == "do" else None,
        "next_try_at": data.next_try_at if shown is _newest(run, shown) else None,
        "position": _position(story, chosen),
    }


def _name(row: Row) -> str:
    step = row.step
    assert step is not None
    if not step.try_number:
        return gettext(row.face.word)
    attempt = gettext("attempt %(attempt)s") % {"attempt": step.attempt}
    words = [attempt if step.attempt > 1 or step.try_number == 1 else ""]
    again = gettext("try %(try_number)s") % {"try_number": step.try_number}
    words.append(again if step.try_number > 1 else "")
    words.append(gettext("undo") if step.direction == "undo" else "")
    return " ".join(filter(None, words)) or attempt


def _newest(run: RunView, step: StepView) -> StepView | None:
    mine = [one for one in run.steps if one.index == step.index and one.started_at is not None]
    return mine[-1] if mine else None


def _position(story: Story, chosen: Row) -> dict[str, Row | None]:
    """The rows before and after, to go on without leaving the step."""
    rows = [row for row in story.timeline.rows if row.step is not None]
    here = rows.index(chosen)
    return {"before": rows[here - 1] if here else None, "after": rows[here + 1] if here + 1 < len(rows) else None}


def _errors(step: StepView) -> list[Mapping[str, Any]]:
    """The chain of an error, first cause on top."""
    chain: list[Mapping[str, Any]] = []
    error: Any = step.error
    while isinstance(error, Mapping) and len(chain) < 8:
        chain.append(error)
        details = error.get("details")
        error = error.get("cause") or (details.get("cause") if isinstance(details, Mapping) else None)
    return chain[::-1]


def _facts(asker: RequestContext, run: RunView, row: Row, data: RunData) -> list[tuple[str, Any, str]]:
    """Name, value, and how it is written: text, mono, time, seconds, since."""
    step = row.step
    assert step is not None
    rules = data.rules.get(step.name, {})
    facts: list[tuple[str, Any, str]] = [
        (gettext("Where"), " ".join(filter(None, (row.lane, row.lane_detail))), "text"),
        (gettext("Started"), step.started_at, "time"),
        (gettext("Ended"), step.finished_at, "time"),
        (gettext("Usually takes"), row.usual.p50 if row.usual else None, "seconds"),
        (gettext("19 of 20 take at most"), row.usual.p95 if row.usual else None, "seconds"),
        (
            gettext("Given up on after a silence of"),
            data.silence_seconds if row.lane == "Compute host" else None,
            "seconds",
        ),
        (gettext("Tries"), _tries(rules), "text"),
    ]
    if asker.is_admin:
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
    said = {"often": often, "pause": short(rules.get("pause_seconds", 1))}
    return gettext("%(often)s, %(pause)s s apart at first, then twice as long each time") % said


def anchor_key(anchor: str) -> str:
    """step-1a2b3c4d-do-1-2-1 → 1a2b3c4d-2: the step of a try."""
    parts = anchor.split("-")
    return f"{parts[1]}-{parts[4]}" if len(parts) == 6 else ""
