"""Fleet map, for operators: cells, zones and aggregates, each with its totals and its hosts as squares."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from conductor.core.errors import Invalid, NotFound
from conductor.services.fleet import fleet, overlays
from conductor.services.fleet.fleet import FleetHost, Sum
from conductor.services.fleet.overlays import Overlay
from portal.pages.amounts import large_megabytes, whole
from portal.pages.hosts import fleet_drawing
from portal.pages.hosts.fleet_drawing import (
    BADGES,
    MEASURES,
    MOST_DRAWN,
    MOST_LINKED,
    MOST_TILES,
    DrawingStyle,
    FleetDrawing,
    Square,
)
from portal.pages.hosts.host_actions import MOST_PICKED
from portal.pages.hosts.hosts import Figure
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, operators_only

GIVEN = ("cell", "zone", "aggregate", "measure", "overlay", "q")
ROWS_PER_PAGE = 100
TABLE = "#fleet-table"


@dataclass(frozen=True)
class Total:
    """The total of some hosts, in words and as meters of the hosts that are up."""

    words: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Block:
    """A group of hosts, such as those of a zone. `url` zooms in; "" at the closest level."""

    name: str
    url: str
    total: Total
    drawing: FleetDrawing | None
    tiles: Sequence[Square] = ()
    words: str = ""  # of its link, for screen readers


@dataclass(frozen=True)
class FleetSection:
    """A cell, or at a closer level a zone: its blocks and its totals."""

    name: str
    url: str
    total: Total
    blocks: Sequence[Block]


@dataclass(frozen=True)
class TableRow:
    """A host of the map in the table."""

    square: Square
    measured: str
    count: int | None


@require_safe
@operators_only
def fleet_map(request: PageRequest) -> HttpResponse:
    """Show the map with its table; the address has filters, measure and overlay."""
    marks = live_marks("fleet", "map")
    context = {**marks, **_context(request)}
    return render(request, "hosts/_fleet_map.html" if request.htmx else "hosts/fleet.html", context)


def _context(request: PageRequest) -> dict[str, Any]:
    given = {name: request.GET.get(name, "") for name in GIVEN}
    measure = MEASURES.get(given["measure"] or "memory")
    if measure is None:
        raise Invalid(
            gettext("Unknown measure %(measure)s. Use one of %(choices)s.")
            % {"measure": given["measure"][:60], "choices": ", ".join(MEASURES)},
            field="measure",
        )
    found = fleet.survey(request.caller)
    overlay = overlays.overlay(request.caller, given["overlay"]) if given["overlay"] else None
    shown = _narrowed(found.hosts, given)
    if not shown and any(given[name] for name in ("cell", "zone", "aggregate")):
        raise NotFound("This part of the fleet has no hosts.")
    drawing_style = _drawing_style(shown, measure, overlay, given["q"])
    return {
        "given": given,
        "measures": MEASURES.values(),
        "measure": measure,
        "full": measure.words(drawing_style.full),
        "levels": range(fleet_drawing.LEVELS),
        "badges": [(state, BADGES[state], fleet_drawing.shape(state, 1, 1, 12)) for state in fleet.STATES],
        "overlay": overlay,
        "overlays": overlays.choices(request.caller),
        "crumbs": _crumbs(given),
        "total": _part(fleet.total(shown)),
        "sections": _labelled(_sections(shown, given, drawing_style)),
        "is_far": len(shown) > MOST_LINKED,
        "most_drawn": whole(MOST_DRAWN) if len(shown) > MOST_DRAWN else "",
        "most": MOST_PICKED,
        "matches": sum(drawing_style.is_lit(host) for host in shown) if drawing_style.lit is not None else None,
        "missing_cells": found.missing_cells,
        **_table(shown, drawing_style, request.GET),
    }


def _narrowed(hosts: Sequence[FleetHost], given: Mapping[str, str]) -> list[FleetHost]:
    return [
        host
        for host in hosts
        if given["cell"] in ("", host.cell)
        and given["zone"] in ("", host.zone)
        and (not given["aggregate"] or given["aggregate"] in host.aggregates)
    ]


def _drawing_style(
    shown: Sequence[FleetHost], measure: fleet_drawing.Measure, overlay: Overlay | None, query: str
) -> DrawingStyle:
    drawing_style = fleet_drawing.drawing_style_for(shown, measure)
    lit: set[str] | None = None
    if overlay is not None:
        lit = set(overlay.hosts)
        drawing_style = replace(drawing_style, counts=overlay.hosts, unit=overlay.unit)
    if query:
        wanted = query.casefold()
        found = {host.name for host in shown if _says(host, wanted)}
        lit = found if lit is None else lit & found
    return drawing_style if lit is None else replace(drawing_style, lit=frozenset(lit))


def _says(host: FleetHost, wanted: str) -> bool:
    return any(wanted in text.casefold() for text in (host.name, host.zone, *host.aggregates))


def _sections(shown: Sequence[FleetHost], given: Mapping[str, str], drawing_style: DrawingStyle) -> list[FleetSection]:
    """Return cells of zones; within a cell, zones of aggregates."""
    is_far = not given["cell"]
    sections = []
    for name, hosts in _grouped(shown, lambda host: host.cell if is_far else host.zone).items():
        blocks = []
        for part, members in _grouped(hosts, lambda host: host.zone if is_far else _racks(host)).items():
            nearer = {"cell": members[0].cell, "zone": part if is_far else name}
            url = "" if given["zone"] and given["cell"] else _url(given, **nearer)
            blocks.append(
                _block(part or gettext("in no other aggregate"), url, members, drawing_style, count=len(shown))
            )
        url = "" if given["cell"] and given["zone"] else _url(given, **({"cell": name} if is_far else {"zone": name}))
        sections.append(FleetSection(name, url, _part(fleet.total(hosts)), blocks))
    return sections


def _labelled(sections: Sequence[FleetSection]) -> list[FleetSection]:
    """Add the text of each block: its number, section and totals."""
    numbers = itertools.count(1)
    count = sum(len(section.blocks) for section in sections)
    shape = gettext("%(name)s in %(section)s, group %(number)s of %(count)s: %(total)s")

    def words(section: FleetSection, block: Block) -> str:
        place = {"name": block.name, "section": section.name, "number": whole(next(numbers)), "count": whole(count)}
        return shape % {**place, "total": block.total.words}

    return [replace(one, blocks=[replace(block, words=words(one, block)) for block in one.blocks]) for one in sections]


def _grouped(hosts: Sequence[FleetHost], key: Any) -> dict[str, list[FleetHost]]:
    groups: dict[str, list[FleetHost]] = {}
    for host in hosts:
        groups.setdefault(key(host), []).append(host)
    return dict(sorted(groups.items()))


def _racks(host: FleetHost) -> str:
    """Return the host's aggregates, except those that only define the zone."""
    return ", ".join(name for name in host.aggregates if name != host.zone)


def _block(name: str, url: str, hosts: Sequence[FleetHost], drawing_style: DrawingStyle, *, count: int) -> Block:
    """Return the block of hosts; `count` is the number of hosts on the whole map, which sets the level of detail."""
    total = _part(fleet.total(hosts))
    if count > MOST_DRAWN:
        return Block(name, url, total, None)
    if count <= MOST_TILES:
        return Block(name, url, total, None, [fleet_drawing.square(host, drawing_style) for host in hosts])
    return Block(name, url, total, fleet_drawing.drawing(hosts, drawing_style))


def _table(shown: Sequence[FleetHost], drawing_style: DrawingStyle, sent: QueryDict) -> dict[str, Any]:
    """Return a page of the highlighted hosts, those with most of the measure first."""
    lit = [host for host in shown if drawing_style.is_lit(host)]
    lit.sort(key=lambda host: (-drawing_style.counts.get(host.name, 0), -drawing_style.measure.value(host), host.name))
    text = sent.get("page", "1")
    page = int(text) if text.isdecimal() and len(text) < 6 else 1
    start = (max(1, page) - 1) * ROWS_PER_PAGE
    part = lit[start : start + ROWS_PER_PAGE]
    rows = [
        TableRow(
            fleet_drawing.square(host, drawing_style),
            drawing_style.measure.words(drawing_style.measure.value(host)),
            drawing_style.counts.get(host.name, 0) if drawing_style.unit else None,
        )
        for host in part
    ]
    given = {name: sent.get(name, "") for name in GIVEN}
    return {
        "rows": rows,
        "rows_of": len(lit),
        "first_row": start + 1,
        "last_row": start + len(part),
        "previous_url": _url(given, page=str(page - 1)) + TABLE if start else "",
        "next_url": _url(given, page=str(page + 1)) + TABLE if start + ROWS_PER_PAGE < len(lit) else "",
    }


def _crumbs(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the breadcrumbs: each part of the fleet that the address selects."""
    crumbs = [(gettext("Fleet"), _url(given, cell="", zone="", aggregate=""))]
    if given["cell"]:
        crumbs.append((given["cell"], _url(given, zone="", aggregate="")))
    if given["zone"]:
        crumbs.append((given["zone"], _url(given, aggregate="")))
    return [*crumbs, *([(given["aggregate"], _url(given))] if given["aggregate"] else [])]


def _url(given: Mapping[str, str], **changes: str) -> str:
    wanted = {name: value for name, value in {**given, **changes}.items() if value}
    return f"{reverse('fleet')}{'?' if wanted else ''}{urlencode(wanted)}"


def _part(total: Sum) -> Total:
    states = [f"{whole(count)} {gettext(BADGES[state].word)}" for state, count in total.states.items() if count]
    servers = ngettext("%(count)s running server", "%(count)s running servers", total.guests)
    hosts = ngettext("%(count)s host", "%(count)s hosts", total.count) % {"count": whole(total.count)}
    return Total(f"{hosts}: {', '.join(states)}; {servers % {'count': whole(total.guests)}}", _meters(total))


def _meters(total: Sum) -> tuple[Figure, ...]:
    memory = _share(large_megabytes(total.memory_mb.used), large_megabytes(total.memory_mb.total))
    return (
        Figure("vCPU", _share(whole(total.vcpus.used), whole(total.vcpus.total)), min(1.0, total.vcpus.share)),
        Figure("Memory", memory, min(1.0, total.memory_mb.share)),
        Figure(
            "Disk",
            _share(whole(total.disk_gb.used), f"{whole(total.disk_gb.total)} GB"),
            min(1.0, total.disk_gb.share),
        ),
    )


def _share(some: str, everything: str) -> str:
    return gettext("%(some)s of %(all)s") % {"some": some, "all": everything}
