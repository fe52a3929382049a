"""Emptying several hosts together: one preview, and one page on which all of them get on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.services import drains, flows, host_deeds, host_details, what_if
from conductor.services.drains import DrainView
from portal.pages.access import PageRequest, operators_only
from portal.pages.drain import (
    DONE_WORDS,
    HOW_WORDS,
    STATUS,
    USUAL,
    deadline_of,
    face_of_drain,
    reasons_not,
    rooms_of,
    wish_of,
)
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

STEER_WORDS = {"pause": "Pause all", "resume": "Resume all", "stop": "Stop all", "cancel": "Cancel all"}
MOST_NAMED = 5  # servers that stay, of one host


@dataclass(frozen=True)
class HostRow:
    """One of the hosts on its way to be empty."""

    drain: DrainView
    face: Face
    is_over: bool

    @property
    def total(self) -> int:
        return self.drain.moved + len(self.drain.left)

    @property
    def share(self) -> float:
        return self.drain.moved / self.total if self.total else 1.0

    @property
    def stuck(self) -> list[drains.PlannedMove]:
        return [one for one in self.drain.left if one.reason]

    @property
    def named(self) -> list[drains.PlannedMove]:
        return self.stuck[:MOST_NAMED]


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def begin(request: PageRequest) -> HttpResponse:
    """What would become of every server of the hosts that are named, with the form that begins it."""
    sent = request.POST if request.method == "POST" else request.GET
    names = list(dict.fromkeys(sent.getlist("host")))
    if not 1 <= len(names) <= host_deeds.MOST_HOSTS:
        raise Invalid(f"Pick 1 to {host_deeds.MOST_HOSTS} hosts to empty together.", field="host")
    error: NovellaError | None = None
    wish = USUAL
    try:
        wish = wish_of(sent)
        if request.method == "POST":
            host_deeds.drain_all(request.asker, names, wish, reason=sent.get("reason", ""))
            said = f"{len(names)} host{' is' if len(names) == 1 else 's are'} being emptied."
            messages.add_message(request, messages.INFO, said, extra_tags="good")
            return redirect(_url("drains", names))
    except (Invalid, Conflict) as refused:
        error = refused
    plan = what_if.drain_all(request.asker, names, wish)
    context = {
        "asker": request.asker,
        "names": names,
        "plan": plan,
        "rooms": rooms_of(plan),
        "how_words": HOW_WORDS,
        "wish": wish,
        "deadline": sent.get("deadline", ""),
        "reason": sent.get("reason", ""),
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
        "not_now": _not_now(request.asker, names),
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "hosts/drains_begin.html", context, status=status)


@require_safe
@operators_only
def progress(request: PageRequest) -> HttpResponse:
    """How all hosts get on that are being emptied, and those that are named also when they are through."""
    context = {**live_marks("drains", "list"), **list_context(request.asker, request.GET.getlist("host"))}
    return render(request, "hosts/_drains.html" if request.htmx else "hosts/drains.html", context)


@require_POST
@operators_only
def steer(request: PageRequest, action: str) -> HttpResponse:
    """Pause, resume, stop or cancel the drains of the hosts that are named; each has its own answer.

    Where deadlines have passed, resuming asks first for another one: nobody loses a deadline without being told.
    """
    if action not in drains.ACTIONS:
        raise Http404
    names = list(dict.fromkeys(request.POST.getlist("host")))
    late = _late(request.asker, names) if action == "resume" else []
    if late and "deadline" not in request.POST:
        return _resume_form(request, names, late)
    done, refused = 0, []
    unknown: set[str] = set()
    for name in [*late, *(name for name in names if name not in late)]:
        try:
            until = deadline_of(request.POST) if name in late else None
            host_deeds.steer(request.asker, name, action, deadline_at=until)
        except Invalid as error:  # of the first of those that are late, when nothing is done yet
            return _resume_form(request, names, late, error)
        except (Conflict, NotFound) as error:
            refused.append(error.message)
            unknown |= {name} if isinstance(error, NotFound) else set()
        else:
            done += 1
    if done:
        said = f"{done} host{'' if done == 1 else 's'}: {DONE_WORDS[action]}"
        messages.add_message(request, messages.INFO, said, extra_tags="waiting")
    for message in refused:
        messages.add_message(request, messages.INFO, message, extra_tags="bad")
    return redirect(_url("drains", [name for name in names if name not in unknown]))


def _late(asker: RequestContext, names: list[str]) -> list[str]:
    """Those of the hosts whose deadline has passed."""
    late = {view.host for view in drains.under_way(asker).items if view.is_late}
    return [name for name in names if name in late]


def _resume_form(
    request: PageRequest, names: list[str], late: list[str], error: NovellaError | None = None
) -> HttpResponse:
    context = {
        "asker": request.asker,
        "names": names,
        "late": late,
        "back_url": _url("drains", names),
        "deadline": request.POST.get("deadline", ""),
        "problem": error.message if error else "",
    }
    return render(request, "hosts/drains_resume.html", context, status=400 if error else 200)


def list_context(asker: RequestContext, names: list[str]) -> dict[str, Any]:
    """Context of the live part. Raises NotFound for a host that is named and was never emptied."""
    found = drains.under_way(asker)
    live = {view.host: view for view in found.items}
    over = {name: drains.get(asker, name) for name in dict.fromkeys(names) if name not in live}
    runs = flows.briefs(asker, [view.run_uuid for view in (*live.values(), *over.values())])
    rows = [
        HostRow(view, face_of_drain(view, runs[view.run_uuid]), view.host in over)
        for view in (*live.values(), *over.values())
        if view.run_uuid in runs
    ]
    moved, total = sum(row.drain.moved for row in rows), sum(row.total for row in rows)
    return {
        "asker": asker,
        "rows": rows,
        "live_rows": [row for row in rows if not row.is_over],
        "moved": moved,
        "total": total,
        "share": moved / total if total else 1.0,
        "stuck": sum(len(row.stuck) for row in rows),
        "actions": list(STEER_WORDS.items()),
        "missing_cells": found.missing_cells,
    }


def _not_now(asker: RequestContext, names: list[str]) -> list[tuple[str, str]]:
    """Hosts whose drain would lead nowhere, or is under way already, with the reason."""
    states = {name: host_details.state_of(asker, name) for name in names}
    return [(name, reason) for name, state in states.items() if (reason := reasons_not(state))]


def _url(route: str, names: list[str]) -> str:
    return f"{reverse(route)}?{urlencode([('host', name) for name in names])}"
