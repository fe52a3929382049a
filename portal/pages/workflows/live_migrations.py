"""Panel of a live migration: phases, amounts, two small charts, a verdict, and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotSupported
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.services.server_migrations import convergence, progress
from conductor.services.server_migrations.progress import MigrationPanel, OrderView
from conductor.services.workflows.types import RunView, StepView
from portal.pages import status_badges
from portal.pages.amounts import decimal
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter

WIDTH, HEIGHT = 300, 60
# The displayed phases, and the steps of each.
PHASE_STEPS = (
    ("LookAtSource", "PickDestination"),
    ("PreparePorts", "PrepareAtDestination"),
    ("MoveLive",),
    ("CloseDestination", "FinishAtDestination"),
    ("MovePortsWithGuest",),
    ("SettleMove", "MarkMoved"),
)
_END_WORDS: Mapping[str, str] = {RunState.DONE: "done", RunState.CANCELLED: "cancelled"}
PHASE_NAMES = ("Checks", "Target setup", "Memory copy", "Switchover", "Network", "Source cleanup")


@dataclass(frozen=True)
class Phase:
    name: str
    badge: StatusBadge
    seconds: float | None


@dataclass(frozen=True)
class InterventionLine:
    """A line about an action: the request and its result."""

    words: str
    badge: StatusBadge
    order: OrderView


@dataclass(frozen=True)
class MigrationChart:
    """Lines over one axis of values from 0 to `top`; each is (kind, points of a polyline)."""

    title: str
    summary: str
    top: str
    lines: tuple[tuple[str, str], ...]


def context_of(caller: RequestContext, presenter: WorkflowPresenter) -> dict[str, Any]:
    """Context of the panel; empty without a migration."""
    panel = progress.of_runs(caller, presenter.runs)
    if panel is None:
        return {"migration": None}
    run = next(run for run in presenter.runs if run.uuid == panel.run_uuid)
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
    """Show what the action risks, then carry it out."""
    presenter = workflow_presenter.load(request.caller, run_uuid)
    panel = progress.of_runs(request.caller, presenter.runs)
    action = next((one for one in panel.actions if one.id == name), None) if panel is not None else None
    if panel is None or action is None:
        raise Http404
    problem = wrong = ""
    given = request.POST.get(action.field, "") if request.method == "POST" else str(action.suggested)
    if request.method == "POST" and not action.why_not:
        try:
            progress.order(request.caller, panel.run_uuid, name, given)
        except (Conflict, Invalid, NotSupported) as error:
            is_typed = bool(action.field) and error.details.get("field") == action.field
            problem, wrong = ("", error.message) if is_typed else (error.message, "")
        else:
            text = gettext("%(title)s: request accepted. This page updates when it is done.") % {
                "title": gettext(action.title)
            }
            leave_note(request, text, "waiting")
            return redirect("workflow", run_uuid)
    context = {
        "caller": request.caller,
        "run": presenter,
        "action": action,
        "problem": problem,
        "wrong": wrong,
        "given": given,
        "amount_label": _label(action.id),
        **context_of(request.caller, presenter),
    }
    return render(request, "workflows/migration_act.html", context, status=409 if problem else 400 if wrong else 200)


def _phases(run: RunView) -> list[Phase]:
    phases = []
    for name, steps in zip(PHASE_NAMES, PHASE_STEPS, strict=True):
        mine = [step for step in run.steps if step.name in steps and step.attempt in (run.attempt, 0)]
        if mine:
            phases.append(Phase(name, _badge(mine), _seconds(mine)))
    return phases


def _badge(steps: Sequence[StepView]) -> StatusBadge:
    """Return the worst badge of a phase's steps; else that of the current step, else the last."""
    shown = [status_badges.of_step(step) for step in steps]
    for tone in ("bad", "undo", "working", "waiting"):
        found = next((badge for badge in shown if badge.tone == tone), None)
        if found is not None:
            return found
    return shown[-1]


def _seconds(steps: Sequence[StepView]) -> float | None:
    begun = [step.started_at for step in steps if step.started_at is not None]
    ended = [step.finished_at for step in steps if step.finished_at is not None]
    return (max(ended) - min(begun)).total_seconds() if begun and len(ended) >= len(begun) else None


def _label(name: str) -> str:
    """Return the label of an action's amount in its form."""
    if name == "throttle":
        return gettext("CPU throttling (percent)")
    return gettext("Allowed downtime (ms)") if name == "downtime" else ""


def _order(order: OrderView) -> InterventionLine:
    words = {
        "downtime": gettext("Allowed downtime: %(amount)s ms"),
        "throttle": gettext("%(amount)s %% of CPU time withheld"),
        "post-copy": gettext("Switched to post-copy"),
        "finish": gettext("Forced to complete"),
        "abort": gettext("Aborted"),
    }[order.id] % {"amount": order.amount}
    badge = StatusBadge("working", "requested") if order.state in LIVE_RUN_STATES else None
    return InterventionLine(
        words,
        badge or StatusBadge(status_badges.RUN_TONES.get(order.state, "none"), _END_WORDS.get(order.state, "failed")),
        order,
    )


def _amounts(panel: MigrationPanel) -> list[tuple[str, str]]:
    """Return name and value with unit."""
    if not panel.samples:
        return []
    last = panel.samples[-1]
    if panel.has_arrived:  # the source's last sample is outdated after the migration
        return [(gettext("Memory"), _bytes(last.total))]
    rates = panel.rates[-1] if panel.rates else None
    rows = [
        (gettext("Remaining"), _bytes(last.left)),
        (gettext("Transferred"), _bytes(last.moved)),
        (gettext("Memory"), _bytes(last.total)),
        (gettext("Throughput"), _rate(rates.moved) if rates else ""),
        (gettext("Memory change rate"), _rate(rates.dirtied) if rates else ""),
        (gettext("Iteration"), str(last.pass_number) if last.pass_number is not None else ""),
        (gettext("Expected downtime"), f"{last.downtime_ms} ms" if last.downtime_ms is not None else ""),
        (gettext("Allowed downtime"), f"{last.downtime_limit_ms} ms" if last.downtime_limit_ms is not None else ""),
        (gettext("CPU throttling"), f"{last.throttle_percent} %" if last.throttle_percent else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _table(panel: MigrationPanel) -> list[dict[str, Any]]:
    """Return the data of the charts as a table, newest first."""
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


def _charts(panel: MigrationPanel) -> list[MigrationChart]:
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
        MigrationChart(gettext("Remaining"), gettext("From %(begin)s to %(end)s.") % ends, _bytes(int(most)),
              (("left", line(left, most)),)),
        MigrationChart(
            gettext("Throughput and memory change rate"),
            gettext("Latest: %(moved)s transferred, %(changed)s changed.") % last,
            _rate(fastest), (("moved", line(moved, fastest)), ("dirtied", line(dirtied, fastest))),
        ),
    ]  # fmt: skip


def _rate(bytes_per_second: float) -> str:
    return f"{_bytes(round(bytes_per_second))}/s"


def _bytes(amount: int) -> str:
    """Format an amount as convergence.size does, with the viewer's decimal separator."""
    value, unit = convergence.in_unit(amount)
    return f"{amount} B" if unit == "B" else f"{decimal(value)} {unit}"
