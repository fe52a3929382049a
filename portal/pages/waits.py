"""Why something waits, in sentences; and who waits for whom, as a picture."""

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
from conductor.core.states import LIVE_RUN_STATES, RunState, WaitCause
from conductor.services import flows, lock_views, run_data
from conductor.services.lock_views import Awaited, LocksView, WaitEdge
from conductor.services.values import RunView
from portal.pages import faces, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.amounts import whole
from portal.pages.stories import Story

NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y = 250, 40, 150, 18


@dataclass(frozen=True)
class Reason:
    """One thing that is waited for: what, because of whom, and until when as far as that is known."""

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
    is_in_ring: bool


@dataclass(frozen=True)
class WaitLine:
    path: str
    resource: str
    x: int
    y: int
    is_in_ring: bool


@dataclass(frozen=True)
class WaitGraph:
    nodes: tuple[WaitNode, ...]
    lines: tuple[WaitLine, ...]
    width: int
    height: int
    has_ring: bool
    victim: str
    victim_name: str


@require_safe
@signed_in
def why(request: PageRequest, run_uuid: str) -> HttpResponse:
    """Why a workflow does not go on now: for a popover, or as a page."""
    story = stories.load(request.asker, run_uuid)
    context = {"asker": request.asker, "run": story, "reasons": reasons_of(request.asker, story)}
    return render(request, "workflows/_why.html" if request.htmx else "workflows/why.html", context)


def reasons_of(asker: RequestContext, story: Story) -> list[Reason]:
    """Every run of the story that waits, also for a host that works, with its cause; empty when nothing waits."""
    held = (RunState.WAITING, RunState.QUEUED)
    waiting = [run for run in story.runs if run.state in held or (run.waits_for and run.state in LIVE_RUN_STATES)]
    if not waiting:
        return []
    locks = lock_views.of_runs(asker, waiting)
    return [reason for run in waiting for reason in _reasons(asker, run, locks)]


def _reasons(asker: RequestContext, run: RunView, locks: LocksView) -> list[Reason]:
    awaited = [one for one in locks.awaited if one.run_uuid == run.uuid]
    if awaited:
        return [_lock(one) for one in awaited]
    waits_for = run.waits_for or {}
    cause, detail = str(waits_for.get("cause", "")), str(waits_for.get("detail", ""))
    if not cause:
        if run.state == RunState.QUEUED:
            return [Reason(gettext("a conductor that takes it up"), in_queue(run))]
        return [
            Reason(
                gettext("nothing that is on record"),
                gettext("A workflow that waits without a cause is a fault of ours."),
                is_bug=True,
            )
        ]
    what, because = CAUSES.get(cause, (cause, ""))
    until = run_data.of_run(asker, run.uuid).next_try_at if cause == WaitCause.TIMER else None
    said = f"{gettext(what)} {detail}".strip()
    return [Reason(said, gettext(because), until=until, until_words=gettext("next try"))]


def in_queue(run: RunView) -> str:
    """Of a run that no conductor has taken up yet: how many come before it."""
    count = flows.ahead_in_queue(run)
    if not count:
        return gettext("It was accepted and waits for a conductor: it is the next.")
    said = ngettext(
        "It was accepted and waits for a conductor: %(count)s is ahead of it.",
        "It was accepted and waits for a conductor: %(count)s are ahead of it.",
        count,
    )
    return said % {"count": whole(count)}


def _lock(one: Awaited) -> Reason:
    kind, _, name = one.resource.partition(":")
    place = gettext("number %(number)s in the queue") % {"number": one.place}
    if one.place == 1:
        place = gettext("next in the queue")
    if one.is_foreign:
        because = gettext("Another project's workflow holds it; this one is %(place)s.") % {"place": place}
    elif one.holder is None:
        because = gettext("It has just been freed; this one is %(place)s.") % {"place": place}
    else:
        holder = name_of(one.holder)
        because = gettext("%(holder)s holds it; this one is %(place)s.") % {"holder": holder, "place": place}
    return Reason(
        gettext("the lock %(resource)s") % {"resource": f"{kind} {name[:8] if len(name) == 36 else name}"},
        because, one.holder, one.heartbeat_at, one.expected_at, gettext("usually free by"),
    )  # fmt: skip


CAUSES: Mapping[str, tuple[str, str]] = {
    WaitCause.HOST: ("the host", "It works on a step, and answers when it is through."),
    WaitCause.TIMER: ("a timer:", "A step failed in a way that may pass; it is tried again."),
    WaitCause.LOCK: ("a lock", "Another workflow holds it."),
    WaitCause.CHILDREN: ("the runs that it handed its work to", "It goes on when they have ended."),
    WaitCause.CELL: ("a cell that is down:", "It goes on when the cell answers again."),
}


def name_of(run: RunView) -> str:
    """What a run does, and to what."""
    return f"{gettext(faces.intent(run))} {run.instance_name or faces.subject(run)}"


def names_of(view: LocksView) -> Mapping[str, str]:
    """What those who wait and who are waited for want, each told from the others."""
    names = {uuid: name_of(run) for uuid, run in view.runs.items()}
    count = Counter(names.values())
    return {uuid: f"{name} ({uuid[:4]})" if count[name] > 1 else name for uuid, name in names.items()}


def draw(view: LocksView, story: Story) -> WaitGraph | None:
    """Waiters left of what they wait for; a ring is marked. None when nobody waits."""
    if not view.edges:
        return None
    places = _columns(view.edges)
    mine = {run.uuid for run in story.runs}
    ring = {end for edge in view.edges if edge.is_in_ring for end in (edge.waiter, edge.holder)}
    names = names_of(view)
    columns: dict[int, int] = {}
    nodes: dict[str, WaitNode] = {}
    for uuid, column in places.items():
        row = columns.get(column, 0)
        columns[column] = row + 1
        name = names.get(uuid, uuid[:8])
        x, y = 2 + column * (NODE_WIDTH + GAP_X), 4 + row * (NODE_HEIGHT + GAP_Y)
        nodes[uuid] = WaitNode(uuid, name, x, y, uuid in mine, uuid in ring)
    lines = tuple(_line(nodes[edge.waiter], nodes[edge.holder], edge) for edge in view.edges)
    width = max(node.x for node in nodes.values()) + NODE_WIDTH + 60
    height = max(node.y for node in nodes.values()) + NODE_HEIGHT + GAP_Y
    return WaitGraph(tuple(nodes.values()), lines, width, height, bool(ring), view.victim, names.get(view.victim, ""))


def _columns(edges: list[WaitEdge]) -> dict[str, int]:
    """As many columns to the right as there are others to wait for on the way; a ring ends the walk."""
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
    if other.x <= one.x:  # back to the left: around the right side
        bend = one.x + NODE_WIDTH + 40
        path = f"M{begin[0]} {begin[1]}H{bend}V{end[1] + NODE_HEIGHT // 2 + 8}H{other.x + NODE_WIDTH // 2}v-8"
        middle = (bend - 30, end[1] + NODE_HEIGHT // 2 + 4)
    else:
        half = (begin[0] + end[0]) // 2
        path = f"M{begin[0]} {begin[1]}C{half} {begin[1]} {half} {end[1]} {end[0] - 4} {end[1]}"
        middle = (half, (begin[1] + end[1]) // 2 - 6)
    kind, _, name = edge.resource.partition(":")
    return WaitLine(path, f"{kind} {name[:8]}", *middle, edge.is_in_ring)
