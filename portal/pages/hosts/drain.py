"""Drain of a host: a preview for each server, then the progress until the host is empty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.core.states import RunState
from conductor.services.fleet import canaries, drains, fleet, host_actions, host_details
from conductor.services.fleet.drains import DrainRequest, DrainView
from conductor.services.scheduling import what_if
from conductor.services.workflows import workflows
from conductor.services.workflows.types import RunView
from portal.pages import status_badges
from portal.pages.amounts import large_megabytes, whole
from portal.pages.hosts import fleet_drawing
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter

STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (Conflict, 409))
DEFAULT = DrainRequest()  # shutting servers down for moves is off by default: the operator turns it on
HOW_WORDS = {drains.LIVE: "while running", drains.COLD: "shut down for the move"}
ROOM_WORDS: Mapping[str, str] = {"free_vcpus": "vCPU", "free_memory_mb": "Memory", "free_disk_gb": "Disk"}
ROOM_UNITS: Mapping[str, Callable[[float], str]] = {
    "free_vcpus": whole,
    "free_memory_mb": large_megabytes,
    "free_disk_gb": lambda amount: f"{whole(amount)} GB",
}
DONE_WORDS = {"pause": "Drain paused. No further moves start.", "resume": "Drain resumed."}
DONE_WORDS |= {
    "stop": "Drain cancelled. The host stays disabled.",
    "cancel": "Drain cancelled. The host is enabled again.",
}


@dataclass(frozen=True)
class DrainGuestRow:
    """A server to move: its newest migration, if any, and why it stays."""

    uuid: str
    name: str
    badge: StatusBadge
    how: str
    reason: str
    run_uuid: str = ""


@dataclass(frozen=True)
class RoomRow:
    """Free capacity of the other hosts, for one resource."""

    title: str
    before: str
    after: str


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def drain(request: PageRequest, name: str) -> HttpResponse:
    """Show the preview, with the form that begins the drain; during a drain, its progress."""
    error: NovellaError | None = None
    if request.method == "POST" and not request.htmx:
        try:
            host_actions.drain(request.caller, name, request_of(request.POST), reason=request.POST.get("reason", ""))
        except (Invalid, Conflict) as refused:
            error = refused
        else:
            leave_note(request, gettext("Draining %(name)s.") % {"name": name}, "good")
            return redirect("host-drain", name)
    found = host_details.drain_of(request.caller, name)
    is_under_way = found is not None and not host_details.is_over(found)
    if is_under_way or (found is not None and "again" not in request.GET and error is None):
        return _run_page(request, name)
    return _preview(request, name, error)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def steer(request: PageRequest, name: str, action: str) -> HttpResponse:
    """Pause, resume, stop or cancel; resuming has a form for a new deadline."""
    if request.method != "POST":
        return _resume_form(request, name, action)
    try:
        host_actions.steer(request.caller, name, action, deadline_at=deadline_of(request.POST))
    except (Invalid, Conflict) as error:
        if error.details.get("field") == "deadline_at":
            return _resume_form(request, name, action, error)
        leave_note(request, error.message, "bad")
    else:
        leave_note(request, gettext(DONE_WORDS[action]), "waiting")
    return redirect("host-drain", name)


def _resume_form(request: PageRequest, name: str, action: str, error: NovellaError | None = None) -> HttpResponse:
    if action != "resume":
        raise Http404
    sent = request.POST.get("deadline", "")
    context = {"caller": request.caller, "name": name, "deadline": sent, "problem": error.message if error else ""}
    return render(request, "hosts/drain_resume.html", context, status=400 if error else 200)


def _preview(request: PageRequest, name: str, error: NovellaError | None) -> HttpResponse:
    sent = request.POST if request.method == "POST" else request.GET
    wrong, problem = (error.details.get("field", ""), error.message) if error else ("", "")
    try:
        requested = request_of(sent)
    except Invalid as refused:
        requested, wrong, problem = DEFAULT, refused.details["field"], refused.message
    plan = what_if.drain(request.caller, name, requested)
    state = host_details.state_of(request.caller, name)
    context = {
        "caller": request.caller,
        "name": name,
        "plan": plan,
        "rooms": rooms_of(plan),
        "how_words": HOW_WORDS,
        "requested": requested,
        "deadline": sent.get("deadline", ""),
        "reason": sent.get("reason", ""),
        "problem": problem,
        "wrong": wrong,
        "why_not": reasons_not(state),
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    template = "hosts/_drain_plan.html" if request.htmx else "hosts/drain.html"
    return render(request, template, context, status=status)


def reasons_not(state: str) -> str:
    """Return why a drain is not possible now."""
    if state == fleet.DOWN:
        return (
            "The host's agent doesn't respond, so servers can't be moved from it. Mark the host as powered "
            "off and evacuate it."
        )
    return ""


def rooms_of(plan: what_if.DrainPreview | what_if.DrainsPreview) -> list[RoomRow]:
    """Return the free capacity of the other hosts, a row for each resource."""
    rows = []
    for key, title in ROOM_WORDS.items():
        words = ROOM_UNITS[key]
        rows.append(RoomRow(title, words(plan.room_before[key]), words(plan.room_after[key])))
    return rows


def request_of(sent: Mapping[str, str]) -> DrainRequest:
    """Return the DrainRequest of a form. Browsers leave unchecked boxes out; a hidden field shows that the form was
    sent.

    Raises Invalid naming the field.
    """
    text = sent.get("most_at_once", str(DEFAULT.most_at_once)).strip()
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 100:
        raise Invalid("Enter a number of servers from 1 to 100.", field="most_at_once")
    allows_cold = "allows_cold" in sent if "sent" in sent else DEFAULT.allows_cold
    return DrainRequest(int(text), allows_cold, deadline_of(sent))


def deadline_of(sent: Mapping[str, str]) -> datetime | None:
    """Return the typed time, in the viewer's zone; None for none. Raises Invalid."""
    text = sent.get("deadline", "").strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else timezone.make_aware(moment)
    except (ValueError, OverflowError):
        raise Invalid("Enter a date and time for the deadline.", field="deadline_at") from None


def _run_page(request: PageRequest, name: str) -> HttpResponse:
    marks = live_marks(f"host:{name}", "drain")
    context = {**marks, **run_context(request.caller, name)}
    return render(request, "hosts/_drain_run.html" if request.htmx else "hosts/drain_run.html", context)


def run_context(caller: RequestContext, name: str) -> dict[str, Any]:
    """Context of the live part. Raises NotFound for a host that was never drained."""
    found = drains.get(caller, name)
    run = workflows.get(caller, found.run_uuid)
    is_over = host_details.is_over(found)
    rows = _guests(found, run)
    stuck = sum(bool(row.reason) for row in rows)
    return {
        "caller": caller,
        "name": name,
        "drain": found,
        "presenter": presenter.of(run),
        "badge": badge_of_drain(found, run),
        "is_over": is_over,
        "rows": rows,
        "stuck": stuck,
        "total": found.moved + len(found.left),
        "share": found.moved / (found.moved + len(found.left)) if found.moved + len(found.left) else 1.0,
        "actions": [] if is_over else [_action(one, found) for one in drains.ACTIONS],
        "open_action": host_actions.get_action(caller, name, "open"),
        "try_action": host_actions.get_action(caller, name, "try"),
        "canary": canaries.news(caller, name),
        "state_face": fleet_drawing.BADGES[host_details.state_of(caller, name)],
    }


def badge_of_drain(found: DrainView, run: RunView) -> StatusBadge:
    """Return the badge of a drain: that of its workflow, unless it is paused."""
    if found.is_paused and found.state not in (RunState.DONE, RunState.CANCELLED):
        return StatusBadge("waiting", "paused")
    if found.is_late and found.state not in (RunState.DONE, RunState.CANCELLED):
        return StatusBadge("waiting", "deadline passed")
    return status_badges.of_run(run)


def _action(action: str, found: DrainView) -> tuple[str, str]:
    """Return an action, and why it is not available now."""
    if action == "pause":
        return action, "The drain is already paused." if found.is_paused else ""
    if action == "resume":
        return action, "" if found.is_paused or found.is_late else "The drain isn't paused."
    return action, ""


def _guests(found: DrainView, run: RunView) -> list[DrainGuestRow]:
    """Return every server that was on the host at the start, the remaining ones first."""
    newest: dict[str, RunView] = {child.instance_uuid: child for child in run.children if child.instance_uuid}
    rows = []
    for plan in found.left:
        child = newest.pop(plan.instance_uuid, None)
        is_moving = child is not None and status_badges.is_live(child)
        waits = StatusBadge("bad", "stays") if plan.reason else StatusBadge("waiting", "queued")
        badge = status_badges.of_run(child) if child is not None and is_moving else waits
        reason, run_uuid = "" if is_moving else plan.reason, child.uuid if child else ""
        rows.append(DrainGuestRow(plan.instance_uuid, plan.name, badge, HOW_WORDS.get(plan.how, ""), reason, run_uuid))
    gone = [
        DrainGuestRow(uuid, child.instance_name or uuid[:8], status_badges.of_run(child), "", "", child.uuid)
        for uuid, child in newest.items()
    ]
    return rows + gone
