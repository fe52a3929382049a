"""Hosts of all cells, for operators, with state and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services.hosts import hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.hosts.types import HypervisorView, ServiceView
from portal.pages import page_lengths
from portal.pages.amounts import megabytes
from portal.pages.hosts.host_actions import MOST_PICKED
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

HOSTS_PER_PAGE = 50


@dataclass(frozen=True)
class Figure:
    """Usage of one resource; `share` may exceed 1 where a resource is overcommitted."""

    name: str
    words: str
    share: float


@dataclass(frozen=True)
class HostListRow:
    """A host in the list."""

    name: str
    badge: StatusBadge
    zone: str
    hypervisor: str
    guests: int
    is_simulated: bool
    note: str
    figures: tuple[Figure, ...]


@require_safe
@operators_only
def host_list(request: PageRequest) -> HttpResponse:
    """Show hosts by cell, fifty per page by name; `q` filters by name. Simulated hosts are marked."""
    context = {**live_marks("hosts", "list"), **list_context(request.caller, request.GET)}
    return render(request, "hosts/_list.html" if request.htmx else "hosts/list.html", context)


def list_context(caller: RequestContext, given: Mapping[str, str]) -> dict[str, Any]:
    """Context of one page of the list of hosts."""
    text, marker = given.get("q", "").strip()[:255], given.get("marker", "")
    page = hosts.list_hypervisors(caller, HypervisorQuery(text, page_lengths.rows_of(given, HOSTS_PER_PAGE), marker))
    ordered = sorted(page.items, key=lambda found: (found.service.cell, found.is_simulated, found.node))
    cells = [_cell(name, list(found)) for name, found in groupby(ordered, key=lambda found: found.service.cell)]
    down = sum(not found.service.is_up for found in ordered)
    simulated = sum(found.is_simulated for found in ordered)
    none = gettext("none")
    fields = {"hosts": _hosts(len(ordered)), "cells": _cells(len(cells)), "down": down or none}
    fields["simulated"] = simulated or none
    sentence = gettext("%(hosts)s in %(cells)s; %(down)s down; %(simulated)s simulated.") % fields
    here, narrowed = reverse("hosts"), {**({"q": text} if text else {}), **page_lengths.kept(given)}
    return {
        "caller": caller,
        "cells": cells,
        "sentence": sentence,
        "missing_cells": page.missing_cells,
        "most": MOST_PICKED,
        "text": text,
        "given": narrowed,
        "first_url": f"{here}?{urlencode(narrowed)}" if marker else "",
        "next_url": f"{here}?{urlencode({**narrowed, 'marker': page.items[-1].uuid})}" if page.has_more else "",
        **page_lengths.other(here, narrowed, HOSTS_PER_PAGE, has_others=page.has_more or bool(marker)),
    }


def _hosts(number: int) -> str:
    return ngettext("%(count)s host", "%(count)s hosts", number) % {"count": number}


def _cells(number: int) -> str:
    return ngettext("%(count)s cell", "%(count)s cells", number) % {"count": number}


def _cell(name: str, found: list[HypervisorView]) -> dict[str, Any]:
    up = sum(one.service.is_up for one in found)
    return {
        "name": name,
        "words": gettext("%(up)s of %(count)s up") % {"up": up, "count": len(found)},
        "hosts": [_row(one) for one in found],
    }


def _row(found: HypervisorView) -> HostListRow:
    version = found.hypervisor_version
    number = f" {version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}" if version >= 1_000_000 else ""
    return HostListRow(
        name=found.service.host or found.node,
        badge=badge_of(found.service),
        zone=found.service.zone,
        hypervisor=f"{found.hypervisor_type}{number}",
        guests=found.running_guests,
        is_simulated=found.is_simulated,
        note=found.service.maintenance_note,
        figures=tuple(_figures(found)),
    )


def badge_of(service: ServiceView) -> StatusBadge:
    """Return the badge: up, down, or closed to new work."""
    if not service.is_known:
        return StatusBadge("none", "unknown", "its cell doesn't respond")
    if service.is_forced_down:
        return StatusBadge("bad", "down", "marked by an operator")
    if not service.is_up:
        return StatusBadge("bad", "down", "down")
    if service.is_disabled:
        return StatusBadge("waiting", "closed", service.disabled_reason or "to new servers")
    return StatusBadge("good", "up")


def _figures(found: HypervisorView) -> Iterable[Figure]:
    yield _figure("vCPU", found.vcpus_used, found.vcpus, str)
    yield _figure("Memory", found.memory_mb_used, found.memory_mb, megabytes)
    yield _figure("Disk", found.disk_gb_used, found.disk_gb, lambda amount: f"{amount} GB")


def _figure(name: str, used: int, total: int, words: Any) -> Figure:
    return Figure(
        name,
        gettext("%(some)s of %(all)s") % {"some": words(used), "all": words(total)},
        min(1.0, used / total) if total else 0.0,
    )
