"""Access control lists of OVN: the rules of security groups, and what applies to every port with port security.

OVN accepts a match that it cannot parse, and then ignores it. So this module leaves out each rule that OVN might not
parse. The traffic of a rule that is left out is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from conductor.core import ip_protocols
from conductor.core.port_filters import EGRESS, INGRESS, IPV4, IPV6, FilterRule

PRIORITY_DROP, PRIORITY_ALLOW = 1001, 1002
METADATA, METADATA_IPV6 = "169.254.169.254", "fe80::a9fe:a9fe"


@dataclass(frozen=True, slots=True)
class Acl:
    """An entry of a port group's access control list."""

    direction: str
    priority: int
    match: str
    action: str


@dataclass(frozen=True, slots=True)
class _Family:
    """OVN's names for a version of IP."""

    ip: str
    icmp: str
    icmp_number: int


_FAMILIES: Mapping[str, _Family] = {
    IPV4: _Family("ip4", "icmp4", ip_protocols.NUMBERS[IPV4]["icmp"]),
    IPV6: _Family("ip6", "icmp6", ip_protocols.NUMBERS[IPV6]["icmp"]),
}
# Direction of a rule → OVN's direction, the field with the guest's port, and the field with the peer's address.
DIRECTIONS: Mapping[str, tuple[str, str, str]] = {
    INGRESS: ("to-lport", "outport", "src"),
    EGRESS: ("from-lport", "inport", "dst"),
}
# Number → OVN's name, for the protocols whose ports OVN can match.
_PORT_PROTOCOLS: Mapping[int, str] = {6: "tcp", 17: "udp", 132: "sctp"}


def group_name(group_uuid: str) -> str:
    """Return the name of a security group's port group, which is an identifier in matches."""
    return f"pg_{group_uuid.replace('-', '_')}"


def default_acls(port_group: str) -> Mapping[str, Acl]:
    """Return the entries for every port with port security, by name.

    IP traffic is dropped unless a rule allows it, except the guest's own requests for DHCP and metadata.
    """
    guest = f"inport == @{port_group}"
    dhcp = "ip4 && udp && udp.src == 68 && udp.dst == 67"
    dhcpv6 = "ip6 && udp && udp.src == 546 && udp.dst == 547"
    metadata = f"ip4.dst == {METADATA} && tcp && tcp.dst == 80"
    metadata_ipv6 = f"ip6.dst == {METADATA_IPV6} && tcp && tcp.dst == 80"
    return {
        "drop-ingress": Acl("to-lport", PRIORITY_DROP, f"outport == @{port_group} && ip", "drop"),
        "drop-egress": Acl("from-lport", PRIORITY_DROP, f"{guest} && ip", "drop"),
        "dhcp": Acl("from-lport", PRIORITY_ALLOW, f"{guest} && {dhcp}", "allow"),
        "dhcpv6": Acl("from-lport", PRIORITY_ALLOW, f"{guest} && {dhcpv6}", "allow"),
        "metadata": Acl("from-lport", PRIORITY_ALLOW, f"{guest} && {metadata}", "allow-related"),
        "metadata-ipv6": Acl("from-lport", PRIORITY_ALLOW, f"{guest} && {metadata_ipv6}", "allow-related"),
    }


def rule_acl(group_uuid: str, rule: FilterRule, *, is_stateful: bool) -> Acl | None:
    """Return the entry of a rule; None if OVN cannot match its traffic, which is then dropped."""
    family = _FAMILIES.get(rule.ethertype)
    if family is None or rule.direction not in DIRECTIONS:
        return None
    protocol = _protocol(rule, family)
    if protocol is None:
        return None
    direction, port_field, address_field = DIRECTIONS[rule.direction]
    parts = (f"{port_field} == @{group_name(group_uuid)}", family.ip, *_peer(rule, family, address_field), *protocol)
    return Acl(direction, PRIORITY_ALLOW, " && ".join(parts), "allow-related" if is_stateful else "allow-stateless")


def _peer(rule: FilterRule, family: _Family, field: str) -> tuple[str, ...]:
    if rule.remote_group:
        return (f"{family.ip}.{field} == ${group_name(rule.remote_group)}_{family.ip}",)
    if not rule.remote_prefix or ip_network(rule.remote_prefix).prefixlen == 0:
        return ()
    return (f"{family.ip}.{field} == {rule.remote_prefix}",)


def _protocol(rule: FilterRule, family: _Family) -> tuple[str, ...] | None:
    if not rule.protocol:
        return ()
    number = ip_protocols.number_of(rule.protocol, rule.ethertype)
    if number is None:
        return None
    if number == family.icmp_number:
        return _icmp(rule, family.icmp)
    name = _PORT_PROTOCOLS.get(number)
    if number not in ip_protocols.WITH_PORTS or rule.low is None:
        return (name or f"ip.proto == {number}",)
    high = rule.low if rule.high is None else rule.high
    if name is None or not 0 <= rule.low <= high <= ip_protocols.MAX_PORT:
        return None
    if rule.low == high:
        return (name, f"{name}.dst == {high}")
    return (name, f"{name}.dst >= {rule.low}", f"{name}.dst <= {high}")


def _icmp(rule: FilterRule, name: str) -> tuple[str, ...] | None:
    """Return the match of a type and code, which a rule of ICMP has instead of ports."""
    given = [(field, value) for field, value in (("type", rule.low), ("code", rule.high)) if value is not None]
    if any(not 0 <= value <= ip_protocols.MAX_BYTE for _, value in given):
        return None
    return (name, *(f"{name}.{field} == {value}" for field, value in given))
