"""Translates rules of security groups to nft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compute_drivers.host_net.host_ports import HostPort, addresses_of, networks
from conductor.core.ip_protocols import MAX_BYTE, MAX_PORT, NUMBERS, WITH_PORTS, number_of
from conductor.core.port_filters import INGRESS, IPV4, IPV6, FilterRule


@dataclass(frozen=True)
class _Family:
    """nft's names for one version of IP."""

    layer: str
    version: int
    protocol: str
    icmp: str
    icmp_number: int


FAMILIES: Mapping[str, _Family] = {
    IPV4: _Family("ip", 4, "ip protocol", "icmp", NUMBERS[IPV4]["icmp"]),
    # l4proto: IPv6 may have extension headers before the protocol.
    IPV6: _Family("ip6", 6, "meta l4proto", "icmpv6", NUMBERS[IPV6]["icmp"]),
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
    number = number_of(rule.protocol, rule.ethertype)
    if number is None:
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
