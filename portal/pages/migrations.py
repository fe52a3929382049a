"""The panel of a live migration: phases, amounts, two small charts, a verdict, and what may be done to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotSupported
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.services import convergence, migration_panels
from conductor.services.migration_panels import MigrationPanel, OrderView
from conductor.services.values import RunView, StepView
from portal.pages import faces, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import decimal
from portal.pages.faces import Face
from portal.pages.stories import Story

WIDTH, HEIGHT = 300, 60
# The phases that people know, and the steps of each.
PHASE_STEPS = (
    ("LookAtSource", "PickDestination"),
    ("PrepareAtDestination",),
    ("MoveLive",),
    ("CloseDestination", "FinishAtDestination"),
    ("MovePortsWithGuest",),
    ("SettleMove", "MarkMoved"),
)
_END_WORDS: Mapping[str, str] = {RunState.DONE: "done", RunState.CANCELLED: "cancelled"}
PHASE_NAMES = ("Checks", "Set up target", "Memory copy", "Switch-over", "Network", "Clean up source")


@dataclass(frozen=True)
class Phase:
    name: str
    face: Face
    seconds: float | None


@dataclass(frozen=True)
class Ordered:
    """A line about an order: what was asked for, and what became of it."""

    words: str
    face: Face
    order: OrderView


@dataclass(frozen=True)
class Chart:
    """Lines over one axis of values from 0 to `top`; each is (kind, points of a polyline)."""

    title: str
    summary: str
    top: str
    lines: tuple[tuple[str, str], ...]


def context_of(asker: RequestContext, story: Story) -> dict[str, Any]:
    """Context of the panel; without a migration an empty one."""
    panel = migration_panels.of_runs(asker, story.runs)
    if panel is None:
        return {"migration": None}
    run = next(run for run in story.runs if run.uuid == panel.run_uuid)
    return {
        "migration": panel,
        "phases": _phases(run),
        "charts": _charts(panel),
        "amounts": _amounts(panel),
        "table": _table(panel),
        "orders": [_order(one) for one in panel.orders[::-1]],
    }


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def order(request: PageRequest, run_uuid: str, name: str) -> HttpResponse:
    """Says what it risks, then does it."""
    story = stories.load(request.asker, run_uuid)
    panel = migration_panels.of_runs(request.asker, story.runs)
    offer = next((one for one in panel.offers if one.id == name), None) if panel is not None else None
    if panel is None or offer is None:
        raise Http404
    problem = wrong = ""
    given = request.POST.get(offer.field, "") if request.method == "POST" else str(offer.suggested)
    if request.method == "POST" and not offer.why_not:
        try:
            migration_panels.order(request.asker, panel.run_uuid, name, given)
        except (Conflict, Invalid, NotSupported) as error:
            is_typed = bool(offer.field) and error.details.get("field") == offer.field
            problem, wrong = ("", error.message) if is_typed else (error.message, "")
        else:
            text = gettext("%(title)s was requested. This page shows it as soon as it is done.") % {
                "title": gettext(offer.title)
            }
            messages.add_message(request, messages.INFO, text, extra_tags="waiting")
            return redirect("workflow", run_uuid)
    context = {
        "asker": request.asker,
        "run": story,
        "offer": offer,
        "problem": problem,
        "wrong": wrong,
        "given": given,
        "amount_label": _label(offer.id),
        **context_of(request.asker, story),
    }
    return render(request, "workflows/migration_act.html", context, status=409 if problem else 400 if wrong else 200)


def _phases(run: RunView) -> list[Phase]:
    phases = []
    for name, steps in zip(PHASE_NAMES, PHASE_STEPS, strict=True):
        mine = [step for step in run.steps if step.name in steps and step.attempt in (run.attempt, 0)]
        if mine:
            phases.append(Phase(name, _face(mine), _seconds(mine)))
    return phases


def _face(steps: Sequence[StepView]) -> Face:
    """The worst of a phase's steps; else the one under way; else the last."""
    shown = [faces.of_step(step) for step in steps]
    for tone in ("bad", "undo", "working", "waiting"):
        found = next((face for face in shown if face.tone == tone), None)
        if found is not None:
            return found
    return shown[-1]


def _seconds(steps: Sequence[StepView]) -> float | None:
    begun = [step.started_at for step in steps if step.started_at is not None]
    ended = [step.finished_at for step in steps if step.finished_at is not None]
    return (max(ended) - min(begun)).total_seconds() if begun and len(ended) >= len(begun) else None


def _label(name: str) -> str:
    """What the amount of an order is called in its form."""
    if name == "throttle":
        return gettext("How much of its processors is taken away, in percent")
    return gettext("How long the guest may stand still, in milliseconds") if name == "downtime" else ""


def _order(order: OrderView) -> Ordered:
    words = {
        "downtime": gettext("Allowed to stand still for %(amount)s ms"),
        "throttle": gettext("%(amount)s %% of its processors taken away"),
        "post-copy": gettext("Switched to post-copy"),
        "finish": gettext("Finished at once"),
        "abort": gettext("Aborted"),
    }[order.id] % {"amount": order.amount}
    face = Face("working", "requested") if order.state in LIVE_RUN_STATES else None
    return Ordered(
        words, face or Face(faces.RUN_TONES.get(order.state, "none"), _END_WORDS.get(order.state, "failed")), order
    )


def _amounts(panel: MigrationPanel) -> list[tuple[str, str]]:
    """Name and value, with the unit in it."""
    if not panel.samples:
        return []
    last = panel.samples[-1]
    if panel.has_arrived:  # what the source said last was true while it still moved
        return [(gettext("Memory"), _bytes(last.total))]
    rates = panel.rates[-1] if panel.rates else None
    rows = [
        (gettext("Left"), _bytes(last.left)),
        (gettext("Moved"), _bytes(last.moved)),
        (gettext("Memory"), _bytes(last.total)),
        (gettext("Throughput"), _rate(rates.moved) if rates else ""),
        (gettext("Guest changes"), _rate(rates.dirtied) if rates else ""),
        (gettext("Pass"), str(last.pass_number) if last.pass_number is not None else ""),
        (gettext("Expected pause"), f"{last.downtime_ms} ms" if last.downtime_ms is not None else ""),
        (gettext("Allowed pause"), f"{last.downtime_limit_ms} ms" if last.downtime_limit_ms is not None else ""),
        (gettext("Processors taken away"), f"{last.throttle_percent} %" if last.throttle_percent else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _table(panel: MigrationPanel) -> list[dict[str, Any]]:
    """The table that the charts are drawn from, newest first."""
    rates = {rate.at: rate for rate in panel.rates}
    rows = []
    for sample in panel.samples[::-1][:60]:
        known = rates.get(sample.at)
        rows.append(
            {
                "at": sample.at,
                "left": _bytes(sample.left),
                "moved": _rate(known.moved) if known else "",
                "dirtied": _rate(known.dirtied) if known else "",
            }
        )
    return rows


def _charts(panel: MigrationPanel) -> list[Chart]:
    if len(panel.samples) < 3:
        return []
    begin, end = panel.samples[0].at, panel.samples[-1].at
    span = max((end - begin).total_seconds(), 0.001)

    def line(values: Sequence[tuple[Any, float]], top: float) -> str:
        points = ((WIDTH * (at - begin).total_seconds() / span, HEIGHT * (1 - value / top)) for at, value in values)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    left = [(sample.at, float(sample.left)) for sample in panel.samples]
    most = max((value for _, value in left), default=0.0) or 1.0
    moved = [(rate.at, rate.moved) for rate in panel.rates]
    dirtied = [(rate.at, rate.dirtied) for rate in panel.rates]
    fastest = max((value for _, value in (*moved, *dirtied)), default=0.0) or 1.0
    ends = {"begin": _bytes(int(left[0][1])), "end": _bytes(int(left[-1][1]))}
    last = {"moved": _rate(moved[-1][1]), "changed": _rate(dirtied[-1][1])}
    return [
        Chart(gettext("Left"), gettext("From %(begin)s to %(end)s.") % ends, _bytes(int(most)),
              (("left", line(left, most)),)),
        Chart(
            gettext("Throughput and what the guest changes"),
            gettext("Last: %(moved)s moved, %(changed)s changed.") % last,
            _rate(fastest), (("moved", line(moved, fastest)), ("dirtied", line(dirtied, fastest))),
        ),
    ]  # fmt: skip


def _rate(bytes_per_second: float) -> str:
    return f"{_bytes(round(bytes_per_second))}/s"


def _bytes(amount: int) -> str:
    """As convergence.size, with the viewer's own decimal sign."""
    value, unit = convergence.in_unit(amount)
    return f"{amount} B" if unit == "B" else f"{decimal(value)} {unit}"
