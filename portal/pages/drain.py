"""Emptying a host: what would become of each server first, then how it gets on, until nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.core.states import RunState
from conductor.services import canaries, drains, fleet, flows, host_deeds, host_details, what_if
from conductor.services.drains import DrainView, Wish
from conductor.services.values import RunView
from portal.pages import faces, fleet_drawing, stories
from portal.pages.access import PageRequest, operators_only
from portal.pages.amounts import large_megabytes, whole
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (Conflict, 409))
USUAL = Wish()  # a person ticks that servers may be off meanwhile; nobody has it ticked for them
HOW_WORDS = {drains.LIVE: "while it runs", drains.COLD: "switched off for the move"}
ROOM_WORDS: Mapping[str, str] = {"free_vcpus": "vCPU", "free_memory_mb": "Memory", "free_disk_gb": "Disk"}
ROOM_UNITS: Mapping[str, Callable[[float], str]] = {
    "free_vcpus": whole,
    "free_memory_mb": large_megabytes,
    "free_disk_gb": lambda amount: f"{whole(amount)} GB",
}
DONE_WORDS = {"pause": "No further move begins.", "resume": "It goes on."}
DONE_WORDS |= {"stop": "It stops; the host stays closed.", "cancel": "It stops; the host is opened again."}


@dataclass(frozen=True)
class GuestRow:
    """A server on its way: the newest move of it, where it has one, and why it stays."""

    uuid: str
    name: str
    face: Face
    how: str
    reason: str
    run_uuid: str = ""


@dataclass(frozen=True)
class RoomRow:
    """What the rest of the fleet has left of one resource."""

    title: str
    before: str
    after: str


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def drain(request: PageRequest, name: str) -> HttpResponse:
    """What would happen, with the form that begins it; and while a drain is under way, how it gets on."""
    error: NovellaError | None = None
    if request.method == "POST" and not request.htmx:
        try:
            host_deeds.drain(request.asker, name, wish_of(request.POST), reason=request.POST.get("reason", ""))
        except (Invalid, Conflict) as refused:
            error = refused
        else:
            messages.add_message(
                request, messages.INFO, gettext("%(name)s is being emptied.") % {"name": name}, extra_tags="good"
            )
            return redirect("host-drain", name)
    found = host_details.drain_of(request.asker, name)
    is_under_way = found is not None and not host_details.is_over(found)
    if is_under_way or (found is not None and "again" not in request.GET and error is None):
        return _run_page(request, name)
    return _preview(request, name, error)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def steer(request: PageRequest, name: str, action: str) -> HttpResponse:
    """Pause, resume, stop or cancel; resuming has a form, for another deadline."""
    if request.method != "POST":
        return _resume_form(request, name, action)
    try:
        host_deeds.steer(request.asker, name, action, deadline_at=deadline_of(request.POST))
    except (Invalid, Conflict) as error:
        if error.details.get("field") == "deadline_at":
            return _resume_form(request, name, action, error)
        messages.add_message(request, messages.INFO, error.message, extra_tags="bad")
    else:
        messages.add_message(request, messages.INFO, DONE_WORDS[action], extra_tags="waiting")
    return redirect("host-drain", name)


def _resume_form(request: PageRequest, name: str, action: str, error: NovellaError | None = None) -> HttpResponse:
    if action != "resume":
        raise Http404
    sent = request.POST.get("deadline", "")
    context = {"asker": request.asker, "name": name, "deadline": sent, "problem": error.message if error else ""}
    return render(request, "hosts/drain_resume.html", context, status=400 if error else 200)


def _preview(request: PageRequest, name: str, error: NovellaError | None) -> HttpResponse:
    sent = request.POST if request.method == "POST" else request.GET
    wrong, problem = (error.details.get("field", ""), error.message) if error else ("", "")
    try:
        wish = wish_of(sent)
    except Invalid as refused:
        wish, wrong, problem = USUAL, refused.details["field"], refused.message
    plan = what_if.drain(request.asker, name, wish)
    state = host_details.state_of(request.asker, name)
    context = {
        "asker": request.asker,
        "name": name,
        "plan": plan,
        "rooms": rooms_of(plan),
        "how_words": HOW_WORDS,
        "wish": wish,
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
    """Why a drain would lead nowhere now."""
    if state == fleet.DOWN:
        return "Its agent does not answer, so that nothing can be moved from it. Say that it is off, and evacuate it."
    return ""


def rooms_of(plan: what_if.DrainPreview | what_if.DrainsPreview) -> list[RoomRow]:
    """The room of the other hosts, a row for each resource."""
    rows = []
    for key, title in ROOM_WORDS.items():
        words = ROOM_UNITS[key]
        rows.append(RoomRow(title, words(plan.room_before[key]), words(plan.room_after[key])))
    return rows


def wish_of(sent: Mapping[str, str]) -> Wish:
    """How it is to be emptied. Boxes that are not ticked are not sent: whether the form was, its hidden field tells.

    Raises Invalid naming the field.
    """
    text = sent.get("most_at_once", str(USUAL.most_at_once)).strip()
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 100:
        raise Invalid("A drain moves 1 to 100 servers at once.", field="most_at_once")
    allows_cold = "allows_cold" in sent if "sent" in sent else USUAL.allows_cold
    return Wish(int(text), allows_cold, deadline_of(sent))


def deadline_of(sent: Mapping[str, str]) -> datetime | None:
    """The time that was typed, in the viewer's zone; None for none. Raises Invalid."""
    text = sent.get("deadline", "").strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else timezone.make_aware(moment)
    except (ValueError, OverflowError):
        raise Invalid("A deadline is a day and a time of day.", field="deadline_at") from None


def _run_page(request: PageRequest, name: str) -> HttpResponse:
    marks = live_marks(f"host:{name}", "drain")
    context = {**marks, **run_context(request.asker, name)}
    return render(request, "hosts/_drain_run.html" if request.htmx else "hosts/drain_run.html", context)


def run_context(asker: RequestContext, name: str) -> dict[str, Any]:
    """Context of the live part. Raises NotFound for a host that was never drained."""
    found = drains.get(asker, name)
    run = flows.get(asker, found.run_uuid)
    is_over = host_details.is_over(found)
    rows = _guests(found, run)
    stuck = sum(bool(row.reason) for row in rows)
    return {
        "asker": asker,
        "name": name,
        "drain": found,
        "story": stories.of(run),
        "face": face_of_drain(found, run),
        "is_over": is_over,
        "rows": rows,
        "stuck": stuck,
        "total": found.moved + len(found.left),
        "share": found.moved / (found.moved + len(found.left)) if found.moved + len(found.left) else 1.0,
        "actions": [] if is_over else [_action(one, found) for one in drains.ACTIONS],
        "open_offer": host_deeds.offer(asker, name, "open"),
        "try_offer": host_deeds.offer(asker, name, "try"),
        "canary": canaries.news(asker, name),
        "state_face": fleet_drawing.FACES[host_details.state_of(asker, name)],
    }


def face_of_drain(found: DrainView, run: RunView) -> Face:
    """The state of a drain: that of its workflow, unless it is paused."""
    if found.is_paused and found.state not in (RunState.DONE, RunState.CANCELLED):
        return Face("waiting", "paused")
    if found.is_late and found.state not in (RunState.DONE, RunState.CANCELLED):
        return Face("waiting", "deadline passed")
    return faces.of_run(run)


def _action(action: str, found: DrainView) -> tuple[str, str]:
    """A button, and why it is of no use now."""
    if action == "pause":
        return action, "It is paused already." if found.is_paused else ""
    if action == "resume":
        return action, "" if found.is_paused or found.is_late else "It is not paused."
    return action, ""


def _guests(found: DrainView, run: RunView) -> list[GuestRow]:
    """Every server that was there when it began, those that are left first."""
    newest: dict[str, RunView] = {child.instance_uuid: child for child in run.children if child.instance_uuid}
    rows = []
    for plan in found.left:
        child = newest.pop(plan.instance_uuid, None)
        is_moving = child is not None and faces.is_live(child)
        waits = Face("bad", "stays") if plan.reason else Face("waiting", "waits for its turn")
        face = faces.of_run(child) if child is not None and is_moving else waits
        reason, run_uuid = "" if is_moving else plan.reason, child.uuid if child else ""
        rows.append(GuestRow(plan.instance_uuid, plan.name, face, HOW_WORDS.get(plan.how, ""), reason, run_uuid))
    gone = [
        GuestRow(uuid, child.instance_name or uuid[:8], faces.of_run(child), "", "", child.uuid)
        for uuid, child in newest.items()
    ]
    return rows + gone
