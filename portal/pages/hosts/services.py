"""Services of all cells, for operators: whether each is up and accepts work, and its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView
from portal.pages.hosts.service_resources import BINARY_WORDS, COMPUTE, STATES, STATUSES
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge


@dataclass(frozen=True)
class ServiceRow:
    """A service with its badges, and a link to its page."""

    service: ServiceView
    kind: str
    state: StatusBadge
    takes_work: StatusBadge | None
    url: str
    host_url: str


@require_safe
@operators_only
def service_list(request: PageRequest) -> HttpResponse:
    """Show every service; `q` filters by host, `binary` by kind."""
    context = {**live_marks("services", "list"), **list_context(request.caller, request.GET)}
    return render(request, "hosts/_services.html" if request.htmx else "hosts/services.html", context)


def list_context(caller: RequestContext, given: Any) -> dict[str, Any]:
    """Context of the list."""
    text, binary = str(given.get("q", "")).strip()[:255], str(given.get("binary", ""))
    found = hosts.list_services(caller, binary=binary if binary in BINARY_WORDS else "")
    rows = [_row(one) for one in found.items if text.lower() in one.host.lower()]
    rows.sort(key=lambda row: (row.service.cell, row.service.binary != COMPUTE, row.service.host))
    versions = sorted({row.service.version for row in rows if row.service.is_known and row.service.is_up})
    return {
        "caller": caller,
        "rows": rows,
        "given": {"q": text, "binary": binary},
        "is_narrowed": bool(text or binary),
        "kinds": [(name, words.capitalize() + "s") for name, words in BINARY_WORDS.items()],
        "missing_cells": found.missing_cells,
        "down": sum(row.service.is_known and not row.service.is_up for row in rows),
        "closed": sum(row.service.is_disabled for row in rows),
        "versions": versions,
    }


def _row(service: ServiceView) -> ServiceRow:
    is_host = service.binary == COMPUTE
    state = STATES["up" if service.is_up else "down"] if service.is_known else StatusBadge("none", "not known")
    if service.is_forced_down:
        state = StatusBadge("bad", "down", "marked as powered off")
    return ServiceRow(
        service=service,
        kind=BINARY_WORDS.get(service.binary, service.binary),
        state=state,
        takes_work=STATUSES["disabled" if service.is_disabled else "enabled"] if is_host and service.is_known else None,
        url=reverse("resource", args=["services", service.uuid]) if service.is_known and service.uuid else "",
        host_url=reverse("host", args=[service.host]) if is_host else "",
    )
