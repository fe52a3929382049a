"""What stands at the top of every page: one's workflows that run, and those that have ended since one looked."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_POST, require_safe

from conductor.core.states import RunState
from conductor.services import own_flows
from conductor.services.notifications import notices
from portal.pages import stories
from portal.pages.access import STARTED_KEY, PageRequest, safe_next, signed_in
from portal.pages.live_marks import live_marks

TOPIC, VIEW = "me", "tray"


@require_safe
@signed_in
def tray(request: PageRequest) -> HttpResponse:
    """The two menus, which scripts put into the page; without scripts it is a page of its own."""
    marks = live_marks(TOPIC, VIEW)
    mine = own_flows.of(request.asker)
    started = {run.request_id: run for run in mine.ended}
    told, told_count = notices.of(request.asker)
    context = {
        "mine": mine,
        "notices": told,
        "bell_count": mine.ended_count + told_count,
        "running": [stories.of(run) for run in mine.running],
        "ended": [stories.of(run) for run in mine.ended],
        "has_failed": any(run.state not in (RunState.DONE, RunState.CANCELLED) for run in mine.ended)
        or any(one.is_bad for one in told),
        "started_here": set(request.session.get(STARTED_KEY, ())) & set(started),
        "marks": marks,
    }
    response = render(request, "tray/_menus.html" if request.htmx else "tray/page.html", context)
    patch_cache_control(response, no_store=True)
    return response


@require_POST
@signed_in
def clear(request: PageRequest) -> HttpResponse:
    """Take one ended workflow, or one notice, out of the bell, or all. The workflows themselves stay where they are."""
    run, notice = request.POST.get("run", ""), request.POST.get("notice", "")
    if not notice:
        own_flows.clear(request.asker, run)
    if not run:
        notices.clear(request.asker, notice)
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(safe_next(request))
