"""Reachability of one server from another: checks networks and routers, security groups, and what the hosts carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from conductor.cell_db.models import ComputeNode
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.ip_protocols import number_of
from conductor.core.phrases import phrase
from conductor.network.device_owners import ROUTER_INTERFACE
from conductor.network.models import AddressAllocation, FloatingIp, Port, SecurityGroupRule
from conductor.services.networks import ovn_state
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceData

PROTOCOLS = ("tcp", "udp", "icmp")
LAST_PORT = 65_535
_INGRESS, _EGRESS = "ingress", "egress"

OVN = "ovn"  # the only `guest_network` of a host's report that carries traffic between guests
NO_ROUTING = phrase(
    "Not carried here: no host of this cloud forwards traffic through routers and floating IPs. They are recorded, "
    "and servers don't answer at them."
)


@dataclass(frozen=True)
class Traffic:
    """Traffic to check. Port 0 is for a protocol without ports."""

    protocol: str
    port: int

    @property
    def words(self) -> str:
        if not self.port:
            return self.protocol
        return phrase("%(protocol)s to port %(port)s", protocol=self.protocol, port=self.port)


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
    """An address of a server, with its port. An external address has no port."""

    name: str
    address: str
    port: Port | None = None
    subnet_pk: int = 0
    entry: str = ""  # the floating IP that maps to this address
    host: str = ""
    guest_network: str = ""  # of the host, as it reported


def ask(context: RequestContext, source: str, target: str, protocol: str, port: str) -> Reachability:
    """Check all pairs of addresses. Return the first one that is reachable, else the one that gets furthest.

    `source` is a server's id, or an external address. Raises NotFound for an unknown server, Invalid for other errors.
    """
    traffic = _traffic(protocol, port)
    there = instances.get(context, target)
    ends = _ends(there)
    if not ends:
        return Reachability(False, phrase("%(name)s has no address yet.", name=there.name), ())
    starts = _starts(context, source)
    if not starts:
        return Reachability(False, phrase("The source server has no address yet."), ())
    routes = [_along(start, end, traffic) for start in starts for end in ends if _same_kind(start, end)]
    if not routes:
        return Reachability(False, phrase("The two servers have no addresses of the same kind (IPv4 or IPv6)."), ())
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
    """Whether this cloud has an engine that forwards traffic through routers and floating IPs."""
    return ovn_state.is_configured()


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
    """Return the guest_network that the server's host reported. Empty where it has none or its cell is down."""
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
    values = {"source": start.name, "target": end.name, "address": end.address, "traffic": traffic.words}
    if is_open:
        sentence = phrase("%(source)s can reach %(target)s (%(address)s) by %(traffic)s.", **values)
    elif is_permitted:
        sentence = phrase(
            "%(source)s cannot reach %(target)s (%(address)s) by %(traffic)s. "
            "The rules allow it, but the host network does not carry it.",
            **values,
        )
    else:
        sentence = phrase("%(source)s cannot reach %(target)s (%(address)s) by %(traffic)s.", **values)
    return Reachability(is_open, sentence, tuple(legs))


def _carriage(start: _End, end: _End) -> PathCheck:
    """Check whether the hosts' network carries traffic between the two, whatever the rules permit."""
    title = phrase("Host network")
    if start.port is None or end.port is None or start.port.network_id != end.port.network_id:
        return _routed_carriage(title, [one for one in (start, end) if one.port is not None])
    for server in (start, end):
        if server.guest_network != OVN:
            why = phrase(
                "Not carried here: the host of %(name)s doesn't connect its servers to each other.", name=server.name
            )
            return PathCheck(title, False, why)
    if start.host == end.host:
        return PathCheck(title, True, phrase("Both servers are on one host, which connects them."))
    return PathCheck(title, True, phrase("The servers are on two hosts, which are connected."))


def _routed_carriage(title: str, servers: Sequence[_End]) -> PathCheck:
    if not carries_routes():
        return PathCheck(title, False, NO_ROUTING)
    for server in servers:
        if server.guest_network != OVN:
            why = phrase("Not carried here: the host of %(name)s doesn't forward routed traffic.", name=server.name)
            return PathCheck(title, False, why)
    return PathCheck(title, True, phrase("Routed traffic is carried."))


def _way(start: _End, end: _End) -> PathCheck:
    title = phrase("Path")
    if end.port is None:
        return PathCheck(title, False, phrase("The target is an external address."))
    if start.port is None:
        if end.port.network.is_external:
            why = phrase("%(network)s is an external network.", network=end.port.network.name)
            return PathCheck(title, True, why)
        if end.entry:
            why = phrase(
                "The floating IP %(floating_ip)s leads to %(address)s.", floating_ip=end.entry, address=end.address
            )
            return PathCheck(title, True, why)
        why = phrase("No floating IP leads to %(address)s, so nothing outside reaches it.", address=end.address)
        return PathCheck(title, False, why)
    if start.port.network_id == end.port.network_id:
        network = end.port.network.name or str(end.port.network.uuid)
        return PathCheck(title, True, phrase("Both are on the network %(network)s.", network=network))
    if _routers(start.subnet_pk) & _routers(end.subnet_pk):
        return PathCheck(title, True, phrase("A router connects their subnets."))
    why = phrase(
        "No router connects %(source)s and %(target)s. Add both subnets to one router.",
        source=start.address,
        target=end.address,
    )
    return PathCheck(title, False, why)


def _routers(subnet_pk: int) -> set[str]:
    ports = Port.objects.filter(device_owner=ROUTER_INTERFACE, addresses__subnet=subnet_pk)
    return set(ports.values_list("device_id", flat=True))


def _side(here: _End, there: _End, traffic: Traffic, direction: str) -> PathCheck:
    is_inward = direction == _INGRESS
    title = phrase("Into %(name)s", name=here.name) if is_inward else phrase("Out of %(name)s", name=here.name)
    port = here.port
    if port is None or not port.is_port_security_enabled:
        return PathCheck(title, True, phrase("Its port is not filtered."))
    groups = list(port.security_groups.all())
    if not groups:
        return PathCheck(title, False, phrase("Its port has no security group, so no traffic passes."))
    rules = [rule for group in groups for rule in group.rules.all() if rule.direction == direction]
    opener = next((rule for rule in rules if _lets(rule, there, traffic)), None)
    names = ", ".join(sorted(group.name for group in groups))
    if opener is None:
        values = {"groups": names, "traffic": traffic.words, "address": there.address}
        if is_inward:
            why = phrase("No rule of %(groups)s allows %(traffic)s from %(address)s.", **values)
        else:
            why = phrase("No rule of %(groups)s allows %(traffic)s to %(address)s.", **values)
        return PathCheck(title, False, why)
    group = next(one for one in groups if one.pk == opener.group_id)
    why = phrase("The security group %(group)s allows it: %(rule)s.", group=group.name, rule=_rule_words(opener))
    return PathCheck(title, True, why, str(group.uuid))


def _lets(rule: SecurityGroupRule, there: _End, traffic: Traffic) -> bool:
    if rule.ethertype != f"IPv{ip_address(there.address).version}":
        return False
    return _lets_protocol(rule, traffic) and _lets_port(rule, traffic) and _lets_whom(rule, there)


def _lets_protocol(rule: SecurityGroupRule, traffic: Traffic) -> bool:
    return rule.protocol is None or number_of(rule.protocol, rule.ethertype) == number_of(
        traffic.protocol, rule.ethertype
    )


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
    protocol = rule.protocol or phrase("any protocol")
    if rule.port_range_min is not None:
        low, high = rule.port_range_min, rule.port_range_max
        ports = {"protocol": protocol, "low": low, "high": high}
        one_port = phrase("%(protocol)s, port %(low)s", **ports)
        protocol = one_port if low == high else phrase("%(protocol)s, ports %(low)s to %(high)s", **ports)
    remote: str = rule.remote_ip_prefix or phrase("anywhere")
    if rule.remote_group and not rule.remote_ip_prefix:
        remote = phrase("servers of %(group)s", group=rule.remote_group.name)
    if rule.direction == _INGRESS:
        return phrase("%(traffic)s, from %(remote)s", traffic=protocol, remote=remote)
    return phrase("%(traffic)s, to %(remote)s", traffic=protocol, remote=remote)
