"""The start page: running work, recent failures, and free quota."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.states import LIVE_RUN_STATES
from conductor.services.billing import costs
from conductor.services.billing.costs import Month
from conductor.services.operations import announcements
from conductor.services.quotas import quotas, requests
from conductor.services.workflows import workflows
from portal.pages import quota_bars
from portal.pages.live_marks import live_marks
from portal.pages.operations.announcements import SEVERITY_BADGES
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.projects.budgets import budget_context
from portal.pages.timeline import presenter
from portal.pages.workflows.workflow_list import FAILED

MOST_RUNS = 8


@require_safe
@signed_in
def home(request: PageRequest) -> HttpResponse:
    """Show the start page. Every number is a link to its list."""
    context = {**live_marks("home", "home"), **home_context(request.caller)}
    if not request.htmx:  # counts a month of servers, too expensive for live updates
        context |= {"month": _month(request.caller), **budget_context(request)}
    return render(request, "_home.html" if request.htmx else "home.html", context)


def home_context(caller: RequestContext) -> dict[str, Any]:
    """Context of the start page."""
    limits = quotas.show(caller, caller.project_id)
    page = workflows.list_runs(caller, limit=MOST_RUNS, only_own_project=True)
    yesterday = datetime.now(UTC) - timedelta(hours=24)
    return {
        "caller": caller,
        "server_count": next((limit.in_use for limit in limits if limit.resource == "instances"), 0),
        "live_count": workflows.count(caller, states=LIVE_RUN_STATES),
        "failed_count": workflows.count(caller, states=FAILED, since=yesterday),
        "runs": [presenter.of(run) for run in page.items],
        "open_requests": requests.count_open(caller) if caller.is_admin else 0,
        "quotas": quota_bars.bars(limits),
        "news": [(one, SEVERITY_BADGES[one.severity]) for one in announcements.current()],
        "missing_cells": page.missing_cells,
    }


def _month(caller: RequestContext) -> Month | None:
    """Return the project's cost this month; None for callers that may not see it."""
    try:
        return costs.this_month(caller)
    except Forbidden:
        return None
