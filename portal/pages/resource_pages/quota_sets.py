"""Limits and usage of all projects, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.services.quotas import tables
from conductor.services.quotas.tables import ProjectQuotas
from conductor.services.quotas.types import QuotaView
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.projects.limits import PROJECT_QUOTAS
from portal.pages.quota_bars import QuotaBar
from portal.pages.resource_pages import views

COLUMN_WORDS = {
    "instances": "Servers",
    "cores": "vCPU",
    "ram": "Memory",
    "volumes": "Volumes",
    "gigabytes": "Volumes and snapshots (GB)",
}
LAST_PAGE = 10_000


@dataclass(frozen=True)
class QuotaRow:
    """A project with its bars, and a link to its limits."""

    project: ProjectQuotas
    bars: list[QuotaBar]
    url: str


@require_safe
@operators_only
def quota_table(request: PageRequest) -> HttpResponse:
    """Show a page of projects; `q` filters by name."""
    text, number = request.GET.get("q", "").strip()[:255], request.GET.get("page", "1")
    page = int(number) if number.isascii() and number.isdigit() and 1 <= int(number[:6]) <= LAST_PAGE else 1
    found = tables.table(request.caller, text, page)
    rows = [QuotaRow(one, _bars(one.limits), views.item_url(PROJECT_QUOTAS, one.project_id)) for one in found.rows]
    following = {**({"q": text} if text else {}), "page": page + 1}
    context = {
        "rows": rows,
        "columns": COLUMN_WORDS.items(),
        "defaults": _bars(found.defaults),
        "given": {"q": text},
        "creations": [
            (action.title, views.action_url(PROJECT_QUOTAS, action))
            for action in PROJECT_QUOTAS.actions
            if action.is_creation
        ],
        "first_url": reverse("quota-table") if page > 1 else "",
        "next_url": f"{reverse('quota-table')}?{urlencode(following)}" if found.has_more else "",
    }
    return render(
        request, "resource_pages/_quota_sets.html" if request.htmx else "resource_pages/quota_sets.html", context
    )


def _bars(limits: tuple[QuotaView, ...]) -> list[QuotaBar]:
    return [QuotaBar(COLUMN_WORDS[one.resource], one.resource, one.in_use, one.limit) for one in limits]
