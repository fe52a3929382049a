"""Network topology of the project: external networks on top, then routers, then networks with their servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.errors import Invalid, NotFound
from conductor.services.networks import reachability
from conductor.services.networks.reachability import PROTOCOLS, Reachability
from portal.pages.live_marks import live_marks
from portal.pages.networking.networks import NETWORKS_KIND, PORTS_KIND, SUBNETS_KIND
from portal.pages.networking.routers import ROUTERS
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.resources import service_calls
from portal.pages.server_items import SERVERS

MOST = 1000
MOST_DRAWN = 12  # servers of one network; the table below the drawing has them all
COLUMN, BOX, ROW = 190, 160, 34
TOP, LEVEL = 16, 80  # external networks, routers, networks: an empty level takes no space
INTERFACES = ("network:router_interface", "network:router_gateway")


@dataclass(frozen=True)
class Box:
    """A box of the drawing."""

    x: float
    y: float
    kind: str
    name: str
    detail: str
    url: str
    width: int = BOX

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def short_name(self) -> str:
        return self.name if len(self.name) <= 20 else f"{self.name[:19]}…"


@dataclass(frozen=True)
class TopologyLink:
    """A line between two boxes."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass
class Net:
    """A network with its servers and routers, for the table."""

    ident: str
    name: str
    is_external: bool
    url: str
    ranges: list[str] = field(default_factory=list)
    servers: list[tuple[str, str, str]] = field(default_factory=list)  # (name, address, URL of the page)
    routers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TopologyDrawing:
    """All boxes and lines, and the size of the drawing."""

    boxes: list[Box]
    lines: list[TopologyLink]
    width: float
    height: float


@require_safe
@signed_in
def topology(request: PageRequest) -> HttpResponse:
    """Show the topology as a drawing and as a table."""
    nets, routers = _read(request)
    context = {
        **live_marks("things", "page"),
        "nets": nets,
        "router_names": routers,
        "drawing": _draw(nets, routers),
        "server_count": len({url for net in nets for _, _, url in net.servers}),
    }
    return render(request, "networking/_topology.html" if request.htmx else "networking/topology.html", context)


def _read(request: PageRequest) -> tuple[list[Net], dict[str, str]]:
    """Read networks and links by five lists, whatever their number.

    The external side of a router comes from the router.
    """
    networks, subnets, ports, found = (
        service_calls.list_items(request.caller, kind, {"limit": MOST}).items
        for kind in (NETWORKS_KIND, SUBNETS_KIND, PORTS_KIND, ROUTERS)
    )
    routers = {one["id"]: one["name"] or one["id"][:8] for one in found}
    servers = {one.value: one.words for one in service_calls.list_options(request.caller, SERVERS, MOST)}
    nets = {one["id"]: _net(one) for one in networks}
    for subnet in subnets:
        if subnet["network_id"] in nets:
            nets[subnet["network_id"]].ranges.append(subnet["cidr"])
    for port in ports:
        _place(port, nets, servers, routers)
    for one in found:
        net = nets.get((one["external_gateway_info"] or {}).get("network_id", ""))
        if net is not None and one["id"] not in net.routers:
            net.routers.append(one["id"])
    return sorted(nets.values(), key=lambda net: (not net.is_external, net.name)), routers


def _net(one: Mapping[str, Any]) -> Net:
    return Net(one["id"], one["name"] or one["id"][:8], bool(one["router:external"]), f"/networks/of/{one['id']}")


def _place(
    port: Mapping[str, Any], nets: Mapping[str, Net], servers: Mapping[str, str], routers: Mapping[str, str]
) -> None:
    net = nets.get(port["network_id"])
    if net is None:
        return
    device = port["device_id"]
    if port["device_owner"].startswith("compute:"):
        addresses = ", ".join(one["ip_address"] for one in port["fixed_ips"])
        net.servers.append((servers.get(device, device[:8]), addresses, f"/servers/{quote(device, safe='')}"))
    elif port["device_owner"] in INTERFACES and device in routers and device not in net.routers:
        net.routers.append(device)


def _draw(nets: list[Net], routers: Mapping[str, str]) -> TopologyDrawing:
    outer = [net for net in nets if net.is_external]
    inner = [net for net in nets if not net.is_external]
    boxes: list[Box] = []
    lines: list[TopologyLink] = []
    places: dict[str, Box] = {}
    columns = max(len(outer), len(inner), len(routers), 1)
    router_y = TOP + LEVEL * bool(outer)
    for row, y in ((outer, TOP), (inner, router_y + LEVEL * bool(routers))):
        for number, net in enumerate(row):
            x = _x(number, len(row), columns)
            box = Box(x, y, "outside" if net.is_external else "network", net.name, ", ".join(net.ranges), net.url)
            places[net.ident] = box
            boxes.append(box)
            _hang_servers(net, box, boxes, lines)
    for number, (ident, name) in enumerate(sorted(routers.items(), key=lambda one: one[1])):
        box = Box(
            _x(number, len(routers), columns), router_y, "router", name, gettext("router"), f"/routers/of/{ident}"
        )
        boxes.append(box)
        for net in nets:
            if ident in net.routers:
                end = places[net.ident]
                is_above = end.y < box.y
                start_y, end_y = (box.y, end.y + 44) if is_above else (box.y + 44, end.y)
                lines.append(TopologyLink(box.middle, start_y, end.middle, end_y))
    lowest = max((box.y for box in boxes), default=0) + 60
    return TopologyDrawing(boxes, lines, columns * COLUMN + 20, lowest)


def _x(number: int, count: int, columns: int) -> float:
    """Center rows with fewer boxes."""
    return 15 + (columns - count) * COLUMN / 2 + number * COLUMN


def _hang_servers(net: Net, above: Box, boxes: list[Box], lines: list[TopologyLink]) -> None:
    """Place the servers of a network below it, on one vertical line."""
    if net.is_external:
        return
    shown = net.servers[:MOST_DRAWN]
    for number, (name, address, url) in enumerate(shown):
        y = above.y + 62 + number * (ROW + 12)
        boxes.append(Box(above.x + 22, y, "server", name, address, url, BOX - 22))
        lines.append(TopologyLink(above.x + 10, y + ROW / 2, above.x + 22, y + ROW / 2))
    if shown:
        lowest = above.y + 62 + (len(shown) - 1) * (ROW + 12) + ROW / 2
        lines.append(TopologyLink(above.x + 10, above.y + 44, above.x + 10, lowest))
    if len(net.servers) > MOST_DRAWN:
        y = above.y + 62 + MOST_DRAWN * (ROW + 12)
        more = gettext("and %(count)s more") % {"count": len(net.servers) - MOST_DRAWN}
        boxes.append(Box(above.x + 22, y, "more", more, gettext("in the table"), net.url, BOX - 22))


@require_safe
@signed_in
def reach(request: PageRequest) -> HttpResponse:
    """Check whether one endpoint reaches another on a port; the answer names the deciding rule."""
    given = {
        name: request.GET.get(name, "").strip()[:255] for name in ("source", "outside", "target", "protocol", "port")
    }
    servers = service_calls.list_options(request.caller, SERVERS, MOST)
    answer: Reachability | None = None
    problem: dict[str, str] = defaultdict(str)
    if given["target"]:
        try:
            source = given["outside"] or given["source"]
            answer = reachability.ask(request.caller, source, given["target"], given["protocol"], given["port"])
        except Invalid as error:
            problem[str(error.details.get("field") or "target")] = error.message
        except NotFound as error:
            problem["source"] = error.message
    context = {
        "servers": servers,
        "given": given,
        "answer": answer,
        "problem": dict(problem),
        "protocols": PROTOCOLS,
    }
    return render(request, "networking/reachability.html", context, status=400 if problem else 200)
