"""Builds the nft ruleset of a host's ports, which the kernel applies atomically."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from compute_drivers import metadata_pages
from compute_drivers.host_net import ipv6_addresses
from compute_drivers.host_net.anti_spoofing import METADATA, METADATA_IPV6, SERVER, anti_spoofing, has_ipv6
from compute_drivers.host_net.host_ports import HostPort, normalize_mac, own_mac
from compute_drivers.host_net.security_groups import match_of, set_of
from conductor.core.port_filters import EGRESS, INGRESS

# Mark of packets that answer allowed ones. Bridge rules have no connection tracking; the inet table has, and sets it.
REPLY_MARK = "0x20000000"
# Neighbor discovery passes like ARP in IPv4: anti-spoofing has checked it.
NEIGHBOR_DISCOVERY = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"
QUOTED = '"{}"'.format
MAX_ZONE = 65_535


@dataclass(frozen=True)
class NetNames:
    """The nft table of a host, and the prefixes of its devices; unique among the hosts of one machine."""

    table: str
    devices: str
    bridges: str
    services: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        return self.devices, self.bridges, self.services


def ruleset(names: NetNames, ports: Sequence[HostPort]) -> str:
    """Return all rules of a host, replacing the former ones. Raises BuildAborted for a port with an invalid address.

    Invalid addresses in rules or address pairs match nothing, so that one port's groups cannot break other ports.
    """
    ports = sorted(ports, key=lambda port: port.device)
    lines = [*_replaced(names), f"table inet {names.table} {{"]
    lines += _chain("zones", "prerouting", "raw", _zones(ports))
    lines += _chain("answers", "forward", "filter", _replies(names))
    lines += ["}", f"table bridge {names.table} {{"]
    for port in ports:
        lines += _own_chain(f"spoof-{port.device}", anti_spoofing(port))
        lines += _own_chain(f"out-{port.device}", _passing(port, EGRESS, ports))
        lines += _own_chain(f"in-{port.device}", _passing(port, INGRESS, ports))
    devices = [port.device for port in ports]
    # prerouting: before the bridge learns addresses.
    incoming = [*_drop_unknown(names, "iifname", devices), *_dispatch("iifname", devices, "spoof")]
    lines += _chain("come", "prerouting", "-300", incoming)
    forwarded = [
        *_agent_rules(names),
        *_drop_unknown(names, "oifname", devices),
        *_dispatch("iifname", devices, "out"),
        *_dispatch("oifname", devices, "in"),
    ]
    # Priority 10: after the inet table has seen the packet at -1.
    lines += _chain("pass", "forward", "10", forwarded)
    lines += _chain("to_host", "input", "0", _to_host(names))
    lines += _chain("from_host", "output", "0", _from_host(names))
    return "\n".join([*lines, "}", ""])


def empty_ruleset(names: NetNames) -> str:
    """Return the commands that remove all rules of the host."""
    return "\n".join([*_replaced(names), ""])


def _replaced(names: NetNames) -> list[str]:
    # Declared first, because deleting a missing table fails.
    return [
        line
        for family in ("inet", "bridge")
        for line in (f"table {family} {names.table}", f"delete table {family} {names.table}")
    ]


def _chain(name: str, hook: str, priority: str, rules: Sequence[str]) -> list[str]:
    return [
        f"  chain {name} {{",
        f"    type filter hook {hook} priority {priority}; policy accept;",
        *(f"    {rule}" for rule in rules),
        "  }",
    ]


def _own_chain(name: str, rules: Sequence[str]) -> list[str]:
    return [f"  chain {name} {{", *(f"    {rule}" for rule in rules), "  }"]


def _zones(ports: Sequence[HostPort]) -> list[str]:
    """Give each network its own connection tracking zone: networks may have the same addresses."""
    return [f'iifname "{bridge}" ct zone set {_zone(bridge)}' for bridge in sorted({port.bridge for port in ports})]


def _replies(names: NetNames) -> list[str]:
    """Mark replies. The original direction is checked by the rules each time, so removing a rule ends connections."""
    return [
        f'iifname "{names.bridges}*" ct direction reply meta mark set meta mark or {REPLY_MARK}',
        f'iifname "{names.bridges}*" ct state related meta mark set meta mark or {REPLY_MARK}',
    ]


def _drop_unknown(names: NetNames, end: str, devices: Sequence[str]) -> list[str]:
    """Drop packets of devices without rules."""
    known = f" {end} != {set_of(map(QUOTED, devices))}" if devices else ""
    return [f'{end} "{names.devices}*"{known} drop']


def _agent_rules(names: NetNames) -> list[str]:
    """Allow packets to and from the agent's services, independent of security groups."""
    to_agent, from_agent = f'oifname "{names.services}*"', f'iifname "{names.services}*"'
    http = f"ip protocol tcp tcp {{port}} {metadata_pages.TCP_PORT} accept".format
    return [
        f"{to_agent} ip daddr {METADATA} {http(port='dport')}",
        f"{to_agent} arp daddr ip {METADATA} accept",
        f"{to_agent} ip6 daddr {METADATA_IPV6.network_address} tcp dport {metadata_pages.TCP_PORT} accept",
        f"{to_agent} icmpv6 type {{ nd-router-solicit, nd-neighbor-solicit }} accept",
        f"{to_agent} ether type ip6 meta l4proto udp udp sport 546 udp dport 547 accept",
        f"{to_agent} drop",
        f"{from_agent} ip saddr {METADATA} {http(port='sport')}",
        f"{from_agent} arp saddr ip {METADATA} accept",
        f"{from_agent} ip6 saddr {METADATA_IPV6.network_address} tcp sport {metadata_pages.TCP_PORT} accept",
        f"{from_agent} ip6 saddr {METADATA_IPV6.network_address} icmpv6 type nd-neighbor-advert accept",
        f"{from_agent} ip6 saddr {ipv6_addresses.ROUTER_ADDRESS} icmpv6 type nd-router-advert accept",
        f"{from_agent} ip6 saddr {ipv6_addresses.ROUTER_ADDRESS} meta l4proto udp udp sport 547 udp dport 546 accept",
        f"{from_agent} drop",
    ]


def _dispatch(end: str, devices: Sequence[str], chain: str) -> list[str]:
    pairs = ", ".join(f'"{device}" : jump {chain}-{device}' for device in devices)
    return [f"{end} vmap {{ {pairs} }}"] if devices else []


def _to_host(names: NetNames) -> list[str]:
    """Let guests reach the host's DHCP server, and nothing else of the host."""
    end = f'iifname "{names.devices}*"'
    return [
        f"{end} ip protocol udp udp sport 68 udp dport 67 accept",
        f"{end} arp daddr ip {SERVER} accept",
        f"{end} drop",
    ]


def _from_host(names: NetNames) -> list[str]:
    end = f'oifname "{names.devices}*"'
    return [
        f"{end} ip protocol udp udp sport 67 udp dport 68 accept",
        f"{end} arp saddr ip {SERVER} accept",
        f"{end} drop",
    ]


def _passing(port: HostPort, direction: str, ports: Sequence[HostPort]) -> list[str]:
    """Return the rules of one direction; `return` continues with the other port's rules."""
    if not port.filter.is_on:
        return ["return"]
    rules = [_drop_flooded(port)] if direction == INGRESS else []
    rules += [f"{NEIGHBOR_DISCOVERY} return"] if has_ipv6(port) else []
    rules += ["ether type arp return", f"meta mark & {REPLY_MARK} == {REPLY_MARK} return"]
    for rule in port.filter.rules:
        if rule.direction == direction:
            found = match_of(rule, port, ports)
            rules += [f"{found} return"] if found is not None else []
    return [*dict.fromkeys(rules), "drop"]


def _drop_flooded(port: HostPort) -> str:
    """Drop unicast for other MAC addresses, which a bridge floods while it does not know the receiver."""
    own = {
        own_mac(port): None,
        **dict.fromkeys(filter(None, (normalize_mac(pair.mac_address) for pair in port.filter.pairs))),
    }
    return f"ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ether daddr != {set_of(own)} drop"


def _zone(bridge: str) -> int:
    """Return a zone number that depends on the bridge's name only."""
    return 1 + zlib.crc32(bridge.encode()) % MAX_ZONE
