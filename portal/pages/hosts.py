"""The fleet, for operators: every host of every cell with its state and how full it is."""

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
from conductor.services import hosts
from conductor.services.hosts import HypervisorQuery
from conductor.services.values import HypervisorView, ServiceView
from portal.pages import page_lengths
from portal.pages.access import PageRequest, operators_only
from portal.pages.amounts import megabytes
from portal.pages.faces import Face
from portal.pages.host_deeds import MOST_PICKED
from portal.pages.live_marks import live_marks

HOSTS_PER_PAGE = 50


@dataclass(frozen=True)
class Figure:
    """How much of one resource is taken; `share` may pass 1 where a resource is given out more than once."""

    name: str
    words: str
    share: float


@dataclass(frozen=True)
class HostRow:
    """A host as the page shows it."""

    name: str
    face: Face
    zone: str
    hypervisor: str
    guests: int
    is_simulated: bool
    note: str
    figures: tuple[Figure, ...]


@require_safe
@operators_only
def host_list(request: PageRequest) -> HttpResponse:
    """Hosts by cell, fifty at a time by name; `q` narrows by name. Simulated ones are marked."""
    context = {**live_marks("hosts", "list"), **list_context(request.asker, request.GET)}
    return render(request, "hosts/_list.html" if request.htmx else "hosts/list.html", context)


def list_context(asker: RequestContext, given: Mapping[str, str]) -> dict[str, Any]:
    """Context of one page of the list of hosts."""
    text, marker = given.get("q", "").strip()[:255], given.get("marker", "")
    page = hosts.list_hypervisors(asker, HypervisorQuery(text, page_lengths.rows_of(given, HOSTS_PER_PAGE), marker))
    ordered = sorted(page.items, key=lambda found: (found.service.cell, found.is_simulated, found.node))
    cells = [_cell(name, list(found)) for name, found in groupby(ordered, key=lambda found: found.service.cell)]
    down = sum(not found.service.is_up for found in ordered)
    simulated = sum(found.is_simulated for found in ordered)
    none = gettext("none")
    said = {"hosts": _hosts(len(ordered)), "cells": _cells(len(cells)), "down": down or none}
    said["simulated"] = simulated or none
    sentence = gettext("%(hosts)s in %(cells)s; %(down)s down; %(simulated)s simulated.") % said
    here, narrowed = reverse("hosts"), {**({"q": text} if text else {}), **page_lengths.kept(given)}
    return {
        "asker": asker,
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


def _row(found: HypervisorView) -> HostRow:
    version = found.hypervisor_version
    number = f" {version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}" if version >= 1_000_000 else ""
    return HostRow(
        name=found.service.host or found.node,
        face=face_of(found.service),
        zone=found.service.zone,
        hypervisor=f"{found.hypervisor_type}{number}",
        guests=found.running_guests,
        is_simulated=found.is_simulated,
        note=found.service.maintenance_note,
        figures=tuple(_figures(found)),
    )


def face_of(service: ServiceView) -> Face:
    """Up, down, or closed to new work."""
    if not service.is_known:
        return Face("none", "unknown", "its cell does not answer")
    if service.is_forced_down:
        return Face("bad", "down", "an operator says so")
    if not service.is_up:
        return Face("bad", "down", "not heard of")
    if service.is_disabled:
        return Face("waiting", "closed", service.disabled_reason or "to new servers")
    return Face("good", "up")


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
