"""The limits of all projects and what they take of them, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.services import quota_tables
from conductor.services.quota_tables import ProjectQuotas
from conductor.services.values import QuotaView
from portal.pages.access import PageRequest, operators_only
from portal.pages.quota_bars import QuotaBar
from portal.pages.resources import views
from portal.pages.resources.limits import PROJECT_QUOTAS

COLUMN_WORDS = {
    "instances": "Servers",
    "cores": "vCPU",
    "ram": "Memory",
    "volumes": "Volumes",
    "gigabytes": "GB of volumes and snapshots",
}
LAST_PAGE = 10_000


@dataclass(frozen=True)
class QuotaRow:
    """A project with its bars, and the way to its limits."""

    project: ProjectQuotas
    bars: list[QuotaBar]
    url: str


@require_safe
@operators_only
def quota_table(request: PageRequest) -> HttpResponse:
    """A page of projects; `q` narrows by name."""
    text, number = request.GET.get("q", "").strip()[:255], request.GET.get("page", "1")
    page = int(number) if number.isascii() and number.isdigit() and 1 <= int(number[:6]) <= LAST_PAGE else 1
    found = quota_tables.table(request.asker, text, page)
    rows = [QuotaRow(one, _bars(one.limits), views.item_url(PROJECT_QUOTAS, one.project_id)) for one in found.rows]
    following = {**({"q": text} if text else {}), "page": page + 1}
    context = {
        "rows": rows,
        "columns": COLUMN_WORDS.items(),
        "defaults": _bars(found.defaults),
        "given": {"q": text},
        "creations": [
            (deed.title, views.deed_url(PROJECT_QUOTAS, deed)) for deed in PROJECT_QUOTAS.deeds if deed.is_creation
        ],
        "first_url": reverse("quota-table") if page > 1 else "",
        "next_url": f"{reverse('quota-table')}?{urlencode(following)}" if found.has_more else "",
    }
    return render(request, "quotas/_list.html" if request.htmx else "quotas/list.html", context)


def _bars(limits: tuple[QuotaView, ...]) -> list[QuotaBar]:
    return [QuotaBar(COLUMN_WORDS[one.resource], one.resource, one.in_use, one.limit) for one in limits]
