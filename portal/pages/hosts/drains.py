"""Drain of several hosts: one preview, and one page with the progress of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.core.phrases import phrase
from conductor.services.fleet import drains, host_actions, host_details
from conductor.services.fleet.drains import DrainView
from conductor.services.scheduling import what_if
from conductor.services.workflows import workflows
from portal.pages.hosts.drain import (
    DEFAULT,
    DONE_WORDS,
    HOW_WORDS,
    STATUS,
    badge_of_drain,
    deadline_of,
    reasons_not,
    request_of,
    rooms_of,
)
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge
from portal.pages.wording import translated

STEER_WORDS = {"pause": "Pause all", "resume": "Resume all", "stop": "Cancel all drains", "cancel": "Cancel all"}
MOST_NAMED = 5  # remaining servers to list, per host


@dataclass(frozen=True)
class DrainRow:
    """A host that is being drained."""

    drain: DrainView
    badge: StatusBadge
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
    """Show a preview for every server of the given hosts, with the form that begins the drains."""
    sent = request.POST if request.method == "POST" else request.GET
    names = list(dict.fromkeys(sent.getlist("host")))
    if not 1 <= len(names) <= host_actions.MOST_HOSTS:
        raise Invalid(phrase("Select 1 to %(most)s hosts.", most=host_actions.MOST_HOSTS), field="host")
    error: NovellaError | None = None
    requested = DEFAULT
    try:
        requested = request_of(sent)
        if request.method == "POST":
            host_actions.drain_all(request.caller, names, requested, reason=sent.get("reason", ""))
            sentence = ngettext(
                "%(count)s host is being emptied.", "%(count)s hosts are being emptied.", len(names)
            ) % {"count": len(names)}
            leave_note(request, sentence, "good")
            return redirect(_url("drains", names))
    except (Invalid, Conflict) as refused:
        error = refused
    plan = what_if.drain_all(request.caller, names, requested)
    context = {
        "caller": request.caller,
        "names": names,
        "plan": plan,
        "rooms": rooms_of(plan),
        "how_words": HOW_WORDS,
        "requested": requested,
        "deadline": sent.get("deadline", ""),
        "reason": sent.get("reason", ""),
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
        "not_now": _not_now(request.caller, names),
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "hosts/drains_begin.html", context, status=status)


@require_safe
@operators_only
def progress(request: PageRequest) -> HttpResponse:
    """Show the progress of all drains; those of the given hosts also when they are finished."""
    context = {**live_marks("drains", "list"), **list_context(request.caller, request.GET.getlist("host"))}
    return render(request, "hosts/_drains.html" if request.htmx else "hosts/drains.html", context)


@require_POST
@operators_only
def steer(request: PageRequest, action: str) -> HttpResponse:
    """Pause, resume, stop or cancel the drains of the given hosts; each has a result of its own.

    If deadlines have passed, resuming first asks for a new one, so that none is dropped unnoticed.
    """
    if action not in drains.ACTIONS:
        raise Http404
    names = list(dict.fromkeys(request.POST.getlist("host")))
    late = _late(request.caller, names) if action == "resume" else []
    if late and "deadline" not in request.POST:
        return _resume_form(request, names, late)
    done, refused = 0, []
    unknown: set[str] = set()
    for name in [*late, *(name for name in names if name not in late)]:
        try:
            until = deadline_of(request.POST) if name in late else None
            host_actions.steer(request.caller, name, action, deadline_at=until)
        except Invalid as error:  # of the first late drain, before any was resumed
            return _resume_form(request, names, late, error)
        except (Conflict, NotFound) as error:
            refused.append(translated(error.message))
            unknown |= {name} if isinstance(error, NotFound) else set()
        else:
            done += 1
    if done:
        answer = {"count": done, "answer": gettext(DONE_WORDS[action])}
        sentence = ngettext("%(count)s host: %(answer)s", "%(count)s hosts: %(answer)s", done) % answer
        leave_note(request, sentence, "waiting")
    for message in refused:
        leave_note(request, message, "bad")
    return redirect(_url("drains", [name for name in names if name not in unknown]))


def _late(caller: RequestContext, names: list[str]) -> list[str]:
    """Return the hosts whose deadline has passed."""
    late = {view.host for view in drains.under_way(caller).items if view.is_late}
    return [name for name in names if name in late]


def _resume_form(
    request: PageRequest, names: list[str], late: list[str], error: NovellaError | None = None
) -> HttpResponse:
    context = {
        "caller": request.caller,
        "names": names,
        "late": late,
        "back_url": _url("drains", names),
        "deadline": request.POST.get("deadline", ""),
        "problem": error.message if error else "",
    }
    return render(request, "hosts/drains_resume.html", context, status=400 if error else 200)


def list_context(caller: RequestContext, names: list[str]) -> dict[str, Any]:
    """Context of the live part. Raises NotFound for a host that was never drained."""
    found = drains.under_way(caller)
    live = {view.host: view for view in found.items}
    over = {name: drains.get(caller, name) for name in dict.fromkeys(names) if name not in live}
    runs = workflows.briefs(caller, [view.run_uuid for view in (*live.values(), *over.values())])
    rows = [
        DrainRow(view, badge_of_drain(view, runs[view.run_uuid]), view.host in over)
        for view in (*live.values(), *over.values())
        if view.run_uuid in runs
    ]
    moved, total = sum(row.drain.moved for row in rows), sum(row.total for row in rows)
    return {
        "caller": caller,
        "rows": rows,
        "live_rows": [row for row in rows if not row.is_over],
        "moved": moved,
        "total": total,
        "share": moved / total if total else 1.0,
        "stuck": sum(len(row.stuck) for row in rows),
        "actions": list(STEER_WORDS.items()),
        "missing_cells": found.missing_cells,
    }


def _not_now(caller: RequestContext, names: list[str]) -> list[tuple[str, str]]:
    """Return hosts whose drain is impossible, or already in progress, with the reason."""
    states = {name: host_details.state_of(caller, name) for name in names}
    return [(name, reason) for name, state in states.items() if (reason := reasons_not(state))]


def _url(route: str, names: list[str]) -> str:
    return f"{reverse(route)}?{urlencode([('host', name) for name in names])}"
