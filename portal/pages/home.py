"""The start page: what is running, what went wrong lately, and how much room is left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.states import LIVE_RUN_STATES
from conductor.services import announcements, costs, flows, quota_requests, quotas
from conductor.services.costs import Month
from portal.pages import quota_bars, stories
from portal.pages.access import PageRequest, signed_in
from portal.pages.budgets import budget_context
from portal.pages.flow_list import FAILED
from portal.pages.live_marks import live_marks
from portal.pages.resources.news import SEVERITY_FACES

MOST_RUNS = 8


@require_safe
@signed_in
def home(request: PageRequest) -> HttpResponse:
    """Every number is a link to its list."""
    context = {**live_marks("home", "home"), **home_context(request.asker)}
    if not request.htmx:  # counts a month of servers: more than each event is worth
        context |= {"month": _month(request.asker), **budget_context(request)}
    return render(request, "_home.html" if request.htmx else "home.html", context)


def home_context(asker: RequestContext) -> dict[str, Any]:
    """Context of the start page."""
    limits = quotas.show(asker, asker.project_id)
    page = flows.list_runs(asker, limit=MOST_RUNS, only_own_project=True)
    yesterday = datetime.now(UTC) - timedelta(hours=24)
    return {
        "asker": asker,
        "server_count": next((limit.in_use for limit in limits if limit.resource == "instances"), 0),
        "live_count": flows.count(asker, states=LIVE_RUN_STATES),
        "failed_count": flows.count(asker, states=FAILED, since=yesterday),
        "runs": [stories.of(run) for run in page.items],
        "open_requests": quota_requests.count_open(asker) if asker.is_admin else 0,
        "quotas": quota_bars.bars(limits),
        "news": [(one, SEVERITY_FACES[one.severity]) for one in announcements.current()],
        "missing_cells": page.missing_cells,
    }


def _month(asker: RequestContext) -> Month | None:
    """What the project costs; nothing for who may not know."""
    try:
        return costs.this_month(asker)
    except Forbidden:
        return None
