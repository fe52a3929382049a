"""Reasons for waits, in sentences; and the wait graph between workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.messages import text_of
from conductor.core.states import LIVE_RUN_STATES, RunState, WaitCause
from conductor.services.workflows import lock_waits, run_data, workflows
from conductor.services.workflows.lock_waits import Awaited, LocksView, WaitEdge
from conductor.services.workflows.types import RunView
from portal.pages import status_badges
from portal.pages.amounts import whole
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.timeline import presenter as workflow_presenter
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.wording import action_on, translated

NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y = 250, 40, 150, 18


@dataclass(frozen=True)
class Reason:
    """A reason: what is waited for, why, and until when as far as known."""

    what: str
    because: str = ""
    holder: RunView | None = None
    heartbeat_at: datetime | None = None
    until: datetime | None = None
    until_words: str = ""
    is_bug: bool = False


@dataclass(frozen=True)
class WaitNode:
    uuid: str
    name: str
    x: int
    y: int
    is_mine: bool
    is_in_cycle: bool


@dataclass(frozen=True)
class WaitLine:
    path: str
    resource: str
    x: int
    y: int
    is_in_cycle: bool


@dataclass(frozen=True)
class WaitGraph:
    nodes: tuple[WaitNode, ...]
    lines: tuple[WaitLine, ...]
    width: int
    height: int
    has_cycle: bool
    victim: str
    victim_name: str


@require_safe
@signed_in
def why(request: PageRequest, run_uuid: str) -> HttpResponse:
    """Show why a workflow waits: in a popover, or as a page."""
    presenter = workflow_presenter.load(request.caller, run_uuid)
    context = {"caller": request.caller, "run": presenter, "reasons": reasons_of(request.caller, presenter)}
    return render(request, "workflows/_why.html" if request.htmx else "workflows/why.html", context)


def reasons_of(caller: RequestContext, presenter: WorkflowPresenter) -> list[Reason]:
    """Return the reasons of every waiting run of the workflow, also for a working host; empty when nothing waits."""
    held = (RunState.WAITING, RunState.QUEUED)
    waiting = [run for run in presenter.runs if run.state in held or (run.waits_for and run.state in LIVE_RUN_STATES)]
    if not waiting:
        return []
    locks = lock_waits.of_runs(caller, waiting)
    return [reason for run in waiting for reason in _reasons(caller, run, locks)]


def _reasons(caller: RequestContext, run: RunView, locks: LocksView) -> list[Reason]:
    awaited = [one for one in locks.awaited if one.run_uuid == run.uuid]
    if awaited:
        return [_lock(one) for one in awaited]
    waits_for = run.waits_for or {}
    cause, detail = str(waits_for.get("cause", "")), translated(text_of(waits_for, "detail"))
    if not cause:
        if run.state == RunState.QUEUED:
            return [Reason(gettext("an available conductor"), in_queue(run))]
        return [
            Reason(
                gettext("nothing that is recorded"),
                gettext("The wait reason is unknown. This is a bug."),
                is_bug=True,
            )
        ]
    what, because = CAUSES.get(cause, (cause, ""))
    until = run_data.of_run(caller, run.uuid).next_try_at if cause == WaitCause.TIMER else None
    message = f"{gettext(what)} {detail}".strip()
    return [Reason(message, gettext(because), until=until, until_words=gettext("next retry"))]


def in_queue(run: RunView) -> str:
    """Return how many runs are before a queued run."""
    count = workflows.ahead_in_queue(run)
    if not count:
        return gettext("Accepted, waiting for a conductor. The workflow is next in the queue.")
    message = ngettext(
        "Accepted, waiting for a conductor. %(count)s workflow is ahead in the queue.",
        "Accepted, waiting for a conductor. %(count)s workflows are ahead in the queue.",
        count,
    )
    return message % {"count": whole(count)}


def _lock(one: Awaited) -> Reason:
    kind, _, name = one.resource.partition(":")
    place = gettext("number %(number)s in the queue") % {"number": one.place}
    if one.place == 1:
        place = gettext("next in the queue")
    if one.is_foreign:
        because = gettext("Another project's workflow holds the lock; this workflow is %(place)s.") % {"place": place}
    elif one.holder is None:
        because = gettext("The lock was just released; this workflow is %(place)s.") % {"place": place}
    else:
        holder = name_of(one.holder)
        because = gettext("%(holder)s holds the lock; this workflow is %(place)s.") % {
            "holder": holder,
            "place": place,
        }
    return Reason(
        gettext("the lock %(resource)s") % {"resource": f"{kind} {name[:8] if len(name) == 36 else name}"},
        because, one.holder, one.heartbeat_at, one.expected_at, gettext("usually free by"),
    )  # fmt: skip


CAUSES: Mapping[str, tuple[str, str]] = {
    WaitCause.HOST: ("the host", "The host is running a step and reports when it is done."),
    WaitCause.TIMER: ("a timer:", "A step failed with a temporary error and will be retried."),
    WaitCause.LOCK: ("a lock", "Another workflow holds the lock."),
    WaitCause.CHILDREN: ("its child workflows", ("The workflow continues when its child workflows have ended.")),
    WaitCause.CELL: ("a cell that is down:", "The workflow continues when the cell responds again."),
    WaitCause.SCHEDULER: (
        "a scheduler",
        "It selects the host. If it doesn't reply in time, the conductor asks another one.",
    ),
    WaitCause.FIRST_REPORT: (
        "the first report of a host:",
        "The cloud has just started. The workflow continues with the first report, or fails if none arrives in time.",
    ),
}


def name_of(run: RunView) -> str:
    """Return a run's action and its resource."""
    return action_on(status_badges.intent(run), run.instance_name or status_badges.subject(run))


def names_of(view: LocksView) -> Mapping[str, str]:
    """Return distinct names of the waiting runs and of the runs that they wait for."""
    names = {uuid: name_of(run) for uuid, run in view.runs.items()}
    count = Counter(names.values())
    return {uuid: f"{name} ({uuid[:4]})" if count[name] > 1 else name for uuid, name in names.items()}


def draw(view: LocksView, presenter: WorkflowPresenter) -> WaitGraph | None:
    """Draw waiting runs to the left of those that they wait for, with deadlock cycles marked.

    None when nothing waits.
    """
    if not view.edges:
        return None
    places = _columns(view.edges)
    mine = {run.uuid for run in presenter.runs}
    cycle = {end for edge in view.edges if edge.is_in_cycle for end in (edge.waiter, edge.holder)}
    names = names_of(view)
    columns: dict[int, int] = {}
    nodes: dict[str, WaitNode] = {}
    for uuid, column in places.items():
        row = columns.get(column, 0)
        columns[column] = row + 1
        name = names.get(uuid, uuid[:8])
        x, y = 2 + column * (NODE_WIDTH + GAP_X), 4 + row * (NODE_HEIGHT + GAP_Y)
        nodes[uuid] = WaitNode(uuid, name, x, y, uuid in mine, uuid in cycle)
    lines = tuple(_line(nodes[edge.waiter], nodes[edge.holder], edge) for edge in view.edges)
    width = max(node.x for node in nodes.values()) + NODE_WIDTH + 60
    height = max(node.y for node in nodes.values()) + NODE_HEIGHT + GAP_Y
    return WaitGraph(tuple(nodes.values()), lines, width, height, bool(cycle), view.victim, names.get(view.victim, ""))


def _columns(edges: list[WaitEdge]) -> dict[str, int]:
    """Return the column of each run: its distance from a run that no other run waits for; cycles are cut."""
    after: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.waiter, []).append(edge.holder)
    ends = dict.fromkeys(end for edge in edges for end in (edge.waiter, edge.holder))
    waited_for = {edge.holder for edge in edges}
    places = {uuid: 0 for uuid in ends if uuid not in waited_for} or {next(iter(ends)): 0}
    ahead = list(places)
    while ahead:
        here = ahead.pop(0)
        for further in after.get(here, ()):
            if further not in places:
                places[further] = places[here] + 1
                ahead.append(further)
    return {uuid: places.get(uuid, 0) for uuid in ends}


def _line(one: WaitNode, other: WaitNode, edge: WaitEdge) -> WaitLine:
    begin, end = (one.x + NODE_WIDTH, one.y + NODE_HEIGHT // 2), (other.x, other.y + NODE_HEIGHT // 2)
    if other.x <= one.x:  # leftward: around the right side
        bend = one.x + NODE_WIDTH + 40
        path = f"M{begin[0]} {begin[1]}H{bend}V{end[1] + NODE_HEIGHT // 2 + 8}H{other.x + NODE_WIDTH // 2}v-8"
        middle = (bend - 30, end[1] + NODE_HEIGHT // 2 + 4)
    else:
        half = (begin[0] + end[0]) // 2
        path = f"M{begin[0]} {begin[1]}C{half} {begin[1]} {half} {end[1]} {end[0] - 4} {end[1]}"
        middle = (half, (begin[1] + end[1]) // 2 - 6)
    kind, _, name = edge.resource.partition(":")
    return WaitLine(path, f"{kind} {name[:8]}", *middle, edge.is_in_cycle)
