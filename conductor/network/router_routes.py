"""Routes of a router: its connected subnets, and extra routes through neighbours on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from django.db.models import Q, QuerySet

from conductor.network import ranges
from conductor.network.device_owners import ROUTER_INTERFACE
from conductor.network.errors import InvalidInput, InvalidRoutes, RouterInterfaceInUseByRoute
from conductor.network.models import AddressAllocation, Port, Router, Subnet

MAX_ROUTES = 30
Route = Mapping[str, str]


def interfaces(router: Router) -> QuerySet[Port]:
    """Return the router's ports except the gateway's."""
    return Port.objects.filter(device_id=str(router.uuid), device_owner=ROUTER_INTERFACE)


def subnets_of(router: Router) -> list[Subnet]:
    """Return the router's connected internal subnets, one for each address of its interfaces."""
    held = AddressAllocation.objects.filter(port__in=interfaces(router).values("pk")).select_related("subnet__network")
    return [address.subnet for address in held]


def refuse_overlap(router: Router, wanted: Iterable[Subnet]) -> None:
    """Raise InvalidInput for a subnet that is connected already, or that overlaps with a connected one."""
    there = subnets_of(router)
    for subnet in wanted:
        if any(other.pk == subnet.pk for other in there):
            raise InvalidInput(
                f"Bad router request: Router already has a port on subnet {subnet.uuid}.", type="BadRequest"
            )
        other_cidr = ranges.first_overlap(ip_network(subnet.cidr), (other.cidr for other in there))
        if other_cidr is not None:
            raise InvalidInput(
                f"Bad router request: Cidr {subnet.cidr} of subnet {subnet.uuid} overlaps with cidr {other_cidr} of "
                "another interface of the router.",
                type="BadRequest",
            )


def normalised(routes: Sequence[Route]) -> list[dict[str, str]]:
    """Return routes with normalised ranges and addresses, each once."""
    spelt: list[dict[str, str]] = []
    for route in routes:
        destination = str(ip_network(route["destination"], strict=False))
        nexthop = str(ranges.parse_address(route["nexthop"], ranges.version_of(destination), "routes"))
        one = {"destination": destination, "nexthop": nexthop}
        if one not in spelt:
            spelt.append(one)
    return spelt


def checked(router: Router, routes: Sequence[Route]) -> list[dict[str, str]]:
    """Return valid routes. Raises InvalidRoutes when a next hop is on none of its subnets, or is the router itself."""
    wanted = normalised(routes)
    if len(wanted) > MAX_ROUTES:
        raise InvalidRoutes(f"Unable to set more than {MAX_ROUTES} routes on router {router.uuid}.")
    held = _addresses(router)
    cidrs = {address.subnet.cidr for address in held}
    own = {address.ip_address for address in held}
    for route in wanted:
        if not any(ip_address(route["nexthop"]) in ip_network(cidr) for cidr in cidrs):
            raise InvalidRoutes(f"Invalid format for routes: {route}, the nexthop is not connected with router")
        if route["nexthop"] in own:
            raise InvalidRoutes(f"Invalid format for routes: {route}, the nexthop is used by router")
    return wanted


def refuse_cut(router: Router, port: Port) -> None:
    """Raise RouterInterfaceInUseByRoute when a route needs a subnet that only `port` connects."""
    rest = {address.subnet.cidr for address in _addresses(router) if address.port_id != port.pk}
    for route in router.routes:
        if not any(ip_address(route["nexthop"]) in ip_network(cidr) for cidr in rest):
            raise RouterInterfaceInUseByRoute(
                f"Router {router.uuid} cannot let port {port.uuid} go: it is required by the route to "
                f"{route['destination']} by {route['nexthop']}."
            )


def _addresses(router: Router) -> list[AddressAllocation]:
    """Return the addresses of all ports of the router, including the gateway's."""
    mine = Q(pk=router.gateway_port_id) | Q(device_id=str(router.uuid), device_owner=ROUTER_INTERFACE)
    ports = Port.objects.filter(mine)
    return list(AddressAllocation.objects.filter(port__in=ports.values("pk")).select_related("subnet"))
