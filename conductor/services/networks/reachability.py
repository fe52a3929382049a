"""Reachability of one server from another: networks and routers, security groups, and what the hosts carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from conductor.cell_db.models import ComputeNode
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.phrases import phrase
from conductor.network.models import AddressAllocation, FloatingIp, Port, SecurityGroupRule
from conductor.network.router_routes import INTERFACE
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceData

PROTOCOLS = ("tcp", "udp", "icmp")
NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "ipv6-icmp": "icmpv6"}
LAST_PORT = 65_535
_INGRESS, _EGRESS = "ingress", "egress"

WITHIN_HOST = "within_host"  # between guests of one network that are on one host
ROUTED = "routed"  # between networks, and between floating IPs and guests
# What a host's network carries, by the `guest_network` of its report. Any other carries no traffic between guests.
CARRIES: Mapping[str, frozenset[str]] = {"bridge": frozenset({WITHIN_HOST})}
NOT_CARRIED = "Not carried here"
NO_ROUTING = (
    "Not carried here: no host of this cloud forwards traffic through routers and floating IPs. They are recorded, "
    "and servers don't answer at them."
)


@dataclass(frozen=True)
class Traffic:
    """Traffic to check; port 0 where the protocol has none."""

    protocol: str
    port: int

    @property
    def words(self) -> str:
        return f"{self.protocol} to port {self.port}" if self.port else self.protocol


@dataclass(frozen=True)
class PathCheck:
    """One check on the path, and its result in words."""

    title: str
    is_open: bool
    why: str
    group_id: str = ""


@dataclass(frozen=True)
class Reachability:
    """Result of a reachability check, with each check on the path."""

    is_open: bool
    sentence: str
    legs: tuple[PathCheck, ...]


@dataclass(frozen=True)
class _End:
    """An address of a server, with the port that holds it; an external address has no port."""

    name: str
    address: str
    port: Port | None = None
    subnet_pk: int = 0
    entry: str = ""  # the floating IP that maps to this address
    host: str = ""
    guest_network: str = ""  # of the host, as it reported


def ask(context: RequestContext, source: str, target: str, protocol: str, port: str) -> Reachability:
    """Check all pairs of addresses; returns the first that is reachable, else the one that gets furthest.

    `source` is a server's id, or an external address. Raises NotFound for a server, Invalid for the rest.
    """
    traffic = _traffic(protocol, port)
    there = instances.get(context, target)
    ends = _ends(there)
    if not ends:
        return Reachability(False, f"{there.name} has no address yet.", ())
    starts = _starts(context, source)
    if not starts:
        return Reachability(False, "The server that asks has no address yet.", ())
    routes = [_along(start, end, traffic) for start in starts for end in ends if _same_kind(start, end)]
    if not routes:
        return Reachability(False, "They have no addresses of the same kind (IPv4 or IPv6).", ())
    return max(routes, key=lambda found: sum(leg.is_open for leg in found.legs) / len(found.legs))


def _traffic(protocol: str, port: str) -> Traffic:
    if protocol not in PROTOCOLS:
        raise Invalid(phrase("Select a protocol: %(choices)s.", choices=", ".join(PROTOCOLS)), field="protocol")
    if protocol == "icmp":
        return Traffic(protocol, 0)
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= LAST_PORT):
        raise Invalid(phrase("Enter a port from 1 to %(last)s.", last=LAST_PORT), field="port")
    return Traffic(protocol, int(port))


def _starts(context: RequestContext, source: str) -> list[_End]:
    try:
        outside = ip_address(source)
    except ValueError:
        return _ends(instances.get(context, source))
    return [_End(str(outside), str(outside))]


def carries_routes() -> bool:
    """Whether any kind of host network forwards traffic through routers and floating IPs."""
    return any(ROUTED in kinds for kinds in CARRIES.values())


def _ends(server: InstanceData) -> list[_End]:
    held = AddressAllocation.objects.filter(port__device_id=server.uuid).select_related("port__network", "subnet")
    rows = list(held.prefetch_related("port__security_groups__rules__remote_group").order_by("pk"))
    entries = dict(FloatingIp.objects.filter(port__device_id=server.uuid).values_list("fixed_ip_address", "address"))
    network = _guest_network(server)
    return [
        _End(
            server.name, row.ip_address, row.port, row.subnet_id, entries.get(row.ip_address, ""), server.host, network
        )
        for row in rows
    ]


def _guest_network(server: InstanceData) -> str:
    """Return the guest_network that the server's host reported; "" where it has none or its cell is down."""
    if not server.host or not server.cell:
        return ""

    def read(alias: str) -> Mapping[str, object]:
        report = ComputeNode.objects.using(alias).filter(host=server.host).values_list("report", flat=True).first()
        capabilities: Mapping[str, object] = (report or {}).get("capabilities", {})
        return capabilities

    return str(scatter_gather(read, [server.cell]).answers.get(server.cell, {}).get("guest_network", ""))


def _same_kind(start: _End, end: _End) -> bool:
    return ip_address(start.address).version == ip_address(end.address).version


def _along(start: _End, end: _End, traffic: Traffic) -> Reachability:
    legs = [_way(start, end), _side(end, start, traffic, _INGRESS)]
    if start.port is not None:
        legs.insert(0, _side(start, end, traffic, _EGRESS))
    is_permitted = all(leg.is_open for leg in legs)
    legs.append(_carriage(start, end))
    is_open = is_permitted and legs[-1].is_open
    word = "can" if is_open else "cannot"
    sentence = f"{start.name} {word} reach {end.name} ({end.address}) by {traffic.words}."
    if is_permitted and not is_open:
        sentence = f"{sentence} The rules allow it, but it is not carried here."
    return Reachability(is_open, sentence, tuple(legs))


def _carriage(start: _End, end: _End) -> PathCheck:
    """Check whether the hosts' network carries traffic between the two, whatever the rules permit."""
    title = "Host network"
    if start.port is None or end.port is None or start.port.network_id != end.port.network_id:
        is_carried = carries_routes()
        return PathCheck(title, is_carried, "Routed traffic is carried." if is_carried else NO_ROUTING)
    if WITHIN_HOST not in CARRIES.get(start.guest_network, ()):
        why = f"the host of {start.name} doesn't connect its servers to each other."
        return PathCheck(title, False, f"{NOT_CARRIED}: {why}")
    if start.host != end.host:
        return PathCheck(title, False, f"{NOT_CARRIED}: the servers are on different hosts, which aren't connected.")
    return PathCheck(title, True, "Both servers are on one host, which connects them.")


def _way(start: _End, end: _End) -> PathCheck:
    title = "The way"
    if end.port is None:
        return PathCheck(title, False, "It ends outside.")
    if start.port is None:
        if end.port.network.is_external:
            return PathCheck(title, True, f"{end.port.network.name} is an outside network itself.")
        if end.entry:
            return PathCheck(title, True, f"The floating IP {end.entry} leads to {end.address}.")
        return PathCheck(title, False, f"No floating IP leads to {end.address}: from outside nothing gets there.")
    if start.port.network_id == end.port.network_id:
        return PathCheck(title, True, f"Both are on the network {end.port.network.name or end.port.network.uuid}.")
    if _routers(start.subnet_pk) & _routers(end.subnet_pk):
        return PathCheck(title, True, "A router joins their subnets.")
    return PathCheck(title, False, f"No router joins {start.address} and {end.address}: add both subnets to one.")


def _routers(subnet_pk: int) -> set[str]:
    ports = Port.objects.filter(device_owner=INTERFACE, addresses__subnet=subnet_pk)
    return set(ports.values_list("device_id", flat=True))


def _side(here: _End, there: _End, traffic: Traffic, direction: str) -> PathCheck:
    title = f"Into {here.name}" if direction == _INGRESS else f"Out of {here.name}"
    port = here.port
    if port is None or not port.is_port_security_enabled:
        return PathCheck(title, True, "Its port is not filtered.")
    groups = list(port.security_groups.all())
    if not groups:
        return PathCheck(title, False, "Its port has no security group: nothing passes.")
    rules = [rule for group in groups for rule in group.rules.all() if rule.direction == direction]
    opener = next((rule for rule in rules if _lets(rule, there, traffic)), None)
    names = ", ".join(sorted(group.name for group in groups))
    if opener is None:
        word = "from" if direction == _INGRESS else "to"
        return PathCheck(title, False, f"No rule of {names} lets {traffic.words} {word} {there.address} through.")
    group = next(one for one in groups if one.pk == opener.group_id)
    return PathCheck(title, True, f"The group {group.name} lets it through: {_rule_words(opener)}.", str(group.uuid))


def _lets(rule: SecurityGroupRule, there: _End, traffic: Traffic) -> bool:
    if rule.ethertype != f"IPv{ip_address(there.address).version}":
        return False
    return _lets_protocol(rule, traffic) and _lets_port(rule, traffic) and _lets_whom(rule, there)


def _lets_protocol(rule: SecurityGroupRule, traffic: Traffic) -> bool:
    wanted = "icmpv6" if traffic.protocol == "icmp" and rule.ethertype == "IPv6" else traffic.protocol
    return rule.protocol is None or NUMBERS.get(rule.protocol, rule.protocol) == wanted


def _lets_port(rule: SecurityGroupRule, traffic: Traffic) -> bool:
    low, high = rule.port_range_min, rule.port_range_max
    if not traffic.port or low is None:
        return True
    return low <= traffic.port <= (high if high is not None else low)


def _lets_whom(rule: SecurityGroupRule, there: _End) -> bool:
    if rule.remote_ip_prefix:
        return ip_address(there.address) in ip_network(rule.remote_ip_prefix, strict=False)
    if rule.remote_group_id is not None:
        return there.port is not None and _is_in(there.port.security_groups.all(), rule.remote_group_id)
    return True


def _is_in(groups: Iterable[object], wanted: int) -> bool:
    return any(getattr(group, "pk", None) == wanted for group in groups)


def _rule_words(rule: SecurityGroupRule) -> str:
    parts: Sequence[str] = [rule.protocol or "any protocol"]
    if rule.port_range_min is not None:
        low, high = rule.port_range_min, rule.port_range_max
        parts = [*parts, f"port {low}" if low == high else f"ports {low} to {high}"]
    whom = rule.remote_ip_prefix or (f"servers of {rule.remote_group.name}" if rule.remote_group else "anywhere")
    return f"{', '.join(parts)}, {'from' if rule.direction == _INGRESS else 'to'} {whom}"
