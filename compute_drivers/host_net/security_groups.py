"""Translates rules of security groups to nft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compute_drivers.host_net.host_ports import HostPort, addresses_of, networks
from conductor.core.port_filters import INGRESS, IPV4, IPV6, FilterRule

PROTOCOLS: Mapping[str, int] = {
    "icmp": 1,
    "igmp": 2,
    "ipip": 4,
    "tcp": 6,
    "egp": 8,
    "udp": 17,
    "dccp": 33,
    "rsvp": 46,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ospf": 89,
    "vrrp": 112,
    "pgm": 113,
    "sctp": 132,
    "udplite": 136,
}
PROTOCOLS_IPV6: Mapping[str, int] = {
    **{name: number for name, number in PROTOCOLS.items() if name not in ("icmp", "igmp", "ipip")},
    "icmp": 58,
    "icmpv6": 58,
    "ipv6-icmp": 58,
    "ipv6-encap": 41,
    "ipv6-route": 43,
    "ipv6-frag": 44,
    "ipv6-nonxt": 59,
    "ipv6-opts": 60,
}
WITH_PORTS = frozenset(PROTOCOLS[name] for name in ("tcp", "udp", "dccp", "sctp", "udplite"))
MAX_PORT, MAX_BYTE = 65_535, 255


@dataclass(frozen=True)
class _Family:
    """nft's names for one version of IP."""

    layer: str
    version: int
    protocols: Mapping[str, int]
    protocol: str
    icmp: str

    @property
    def icmp_number(self) -> int:
        return self.protocols["icmp"]


FAMILIES: Mapping[str, _Family] = {
    IPV4: _Family("ip", 4, PROTOCOLS, "ip protocol", "icmp"),
    # l4proto: IPv6 may have extension headers before the protocol.
    IPV6: _Family("ip6", 6, PROTOCOLS_IPV6, "meta l4proto", "icmpv6"),
}


def match_of(rule: FilterRule, port: HostPort, ports: Sequence[HostPort]) -> str | None:
    """Return the nft match of a rule; None where no packet on this host can match it."""
    family = FAMILIES.get(rule.ethertype)
    if family is None:
        return None
    remote = _remote(rule, family, port, ports)
    protocol = _protocol(rule, family)
    if remote is None or protocol is None:
        return None
    return " ".join(filter(None, (f"ether type {family.layer}", remote, protocol)))


def set_of(members: Iterable[str]) -> str:
    return f"{{ {', '.join(members)} }}"


def _remote(rule: FilterRule, family: _Family, port: HostPort, ports: Sequence[HostPort]) -> str | None:
    where = "saddr" if rule.direction == INGRESS else "daddr"
    if rule.remote_group:
        members = (other for other in ports if other.bridge == port.bridge and rule.remote_group in other.filter.groups)
        found = networks((address for member in members for address in addresses_of(member)), family.version)
    elif rule.remote_prefix:
        found = networks([rule.remote_prefix], family.version)
    else:
        return ""
    return f"{family.layer} {where} {set_of(map(str, found))}" if found else None


def _protocol(rule: FilterRule, family: _Family) -> str | None:
    if not rule.protocol:
        return ""
    number = int(rule.protocol) if rule.protocol.isdecimal() else family.protocols.get(rule.protocol)
    if number is None or number > MAX_BYTE:
        return None
    words = f"{family.protocol} {number}"
    if number == family.icmp_number:
        kind, code = (f"{family.icmp} {name}" for name in ("type", "code"))
        return words + _bounded(kind, rule.low, MAX_BYTE) + _bounded(code, rule.high, MAX_BYTE)
    if number not in WITH_PORTS or rule.low is None:
        return words
    low, high = rule.low, rule.low if rule.high is None else rule.high
    return f"{words} th dport {low}-{high}" if 0 <= low <= high <= MAX_PORT else None


def _bounded(words: str, value: int | None, most: int) -> str:
    return f" {words} {value}" if value is not None and 0 <= value <= most else ""
