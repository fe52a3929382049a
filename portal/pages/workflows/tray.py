"""Header menus of every page: the user's running workflows, and those that ended since the last look."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_POST, require_safe

from conductor.core.states import RunState
from conductor.services.notifications import notices
from conductor.services.workflows import lists
from portal.pages.live_marks import live_marks
from portal.pages.permissions import STARTED_KEY, PageRequest, safe_next, signed_in
from portal.pages.timeline import presenter

TOPIC, VIEW = "me", "tray"


@require_safe
@signed_in
def tray(request: PageRequest) -> HttpResponse:
    """Show the two menus, which scripts put into the page; without scripts, a page of its own."""
    marks = live_marks(TOPIC, VIEW)
    mine = lists.of(request.caller)
    started = {run.request_id: run for run in mine.ended}
    reported, notice_count = notices.of(request.caller)
    context = {
        "mine": mine,
        "notices": reported,
        "bell_count": mine.ended_count + notice_count,
        "running": [presenter.of(run) for run in mine.running],
        "ended": [presenter.of(run) for run in mine.ended],
        "has_failed": any(run.state not in (RunState.DONE, RunState.CANCELLED) for run in mine.ended)
        or any(one.is_bad for one in reported),
        "started_here": set(request.session.get(STARTED_KEY, ())) & set(started),
        "marks": marks,
    }
    response = render(request, "workflows/_tray_menus.html" if request.htmx else "workflows/tray.html", context)
    patch_cache_control(response, no_store=True)
    return response


@require_POST
@signed_in
def clear(request: PageRequest) -> HttpResponse:
    """Remove one ended workflow or notice from the menu, or all. The workflows themselves are kept."""
    run, notice = request.POST.get("run", ""), request.POST.get("notice", "")
    if not notice:
        lists.clear(request.caller, run)
    if not run:
        notices.clear(request.caller, notice)
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(safe_next(request))
