"""Turns what ports let through into rules for the kernel: one text that `nft -f` takes whole or not at all."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from compute_drivers import guest_metadata
from compute_drivers.host_net import ipv6
from compute_drivers.host_net.honest import METADATA, METADATA_IPV6, SERVER, honest, speaks_ipv6
from compute_drivers.host_net.matching import matching, set_of
from compute_drivers.host_net.plugs import Plug, mac_of, own_mac
from conductor.core.port_filters import EGRESS, INGRESS

# A packet of ours with this bit answers one that was let through. The bridge has no memory of connections; the layer
# above it has, and leaves the bit for it.
ANSWER = "0x20000000"
# What ARP is in IPv4, passes as ARP does: who says what was seen to before.
NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"
QUOTED = '"{}"'.format
LAST_PORT = 65_535


@dataclass(frozen=True)
class Names:
    """The table of a host of ours, and with what the names of its devices begin: several may share a machine."""

    table: str
    devices: str
    bridges: str
    services: str

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.devices, self.bridges, self.services


def ruleset(names: Names, plugs: Sequence[Plug]) -> str:
    """All rules of a host in the place of those that it had. Raises BuildAborted for a port whose address is none.

    What is no address in a rule or pair lets nothing through: no port's groups keep another port from its rules.
    """
    plugs = sorted(plugs, key=lambda plug: plug.device)
    lines = [*_replaced(names), f"table inet {names.table} {{"]
    lines += _chain("zones", "prerouting", "raw", _zones(plugs))
    lines += _chain("answers", "forward", "filter", _answers(names))
    lines += ["}", f"table bridge {names.table} {{"]
    for plug in plugs:
        lines += _own_chain(f"honest-{plug.device}", honest(plug))
        lines += _own_chain(f"out-{plug.device}", _passing(plug, EGRESS, plugs))
        lines += _own_chain(f"in-{plug.device}", _passing(plug, INGRESS, plugs))
    devices = [plug.device for plug in plugs]
    # Before the bridge learns who is where.
    come = [*_ours_only(names, "iifname", devices), *_map("iifname", devices, "honest")]
    lines += _chain("come", "prerouting", "-300", come)
    go = [
        *_asked(names),
        *_ours_only(names, "oifname", devices),
        *_map("iifname", devices, "out"),
        *_map("oifname", devices, "in"),
    ]
    # After the layer above has looked at the packet, which it does at -1.
    lines += _chain("pass", "forward", "10", go)
    lines += _chain("to_host", "input", "0", _to_host(names))
    lines += _chain("from_host", "output", "0", _from_host(names))
    return "\n".join([*lines, "}", ""])


def nothing(names: Names) -> str:
    """Takes the host's rules away, whether it has any or not."""
    return "\n".join([*_replaced(names), ""])


def _replaced(names: Names) -> list[str]:
    # A table that is not there cannot be deleted; it is declared first.
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


def _zones(plugs: Sequence[Plug]) -> list[str]:
    """Networks may have the same addresses: connections of each are remembered apart."""
    return [f'iifname "{bridge}" ct zone set {_zone(bridge)}' for bridge in sorted({plug.bridge for plug in plugs})]


def _answers(names: Names) -> list[str]:
    """Only the other direction of a connection is let through for its own sake: what began it is asked for ever.

    So a rule that goes ends the connections that it had let in.
    """
    return [
        f'iifname "{names.bridges}*" ct direction reply meta mark set meta mark or {ANSWER}',
        f'iifname "{names.bridges}*" ct state related meta mark set meta mark or {ANSWER}',
    ]


def _ours_only(names: Names, end: str, devices: Sequence[str]) -> list[str]:
    """A device that there are no rules for passes nothing."""
    known = f" {end} != {set_of(map(QUOTED, devices))}" if devices else ""
    return [f'{end} "{names.devices}*"{known} drop']


def _asked(names: Names) -> list[str]:
    """The agent hears what is for its services, and says what answers that, whatever groups say."""
    to_it, by_it = f'oifname "{names.services}*"', f'iifname "{names.services}*"'
    of_http = f"ip protocol tcp tcp {{port}} {guest_metadata.TCP_PORT} accept".format
    return [
        f"{to_it} ip daddr {METADATA} {of_http(port='dport')}",
        f"{to_it} arp daddr ip {METADATA} accept",
        f"{to_it} ip6 daddr {METADATA_IPV6.network_address} tcp dport {guest_metadata.TCP_PORT} accept",
        f"{to_it} icmpv6 type {{ nd-router-solicit, nd-neighbor-solicit }} accept",
        f"{to_it} ether type ip6 meta l4proto udp udp sport 546 udp dport 547 accept",
        f"{to_it} drop",
        f"{by_it} ip saddr {METADATA} {of_http(port='sport')}",
        f"{by_it} arp saddr ip {METADATA} accept",
        f"{by_it} ip6 saddr {METADATA_IPV6.network_address} tcp sport {guest_metadata.TCP_PORT} accept",
        f"{by_it} ip6 saddr {METADATA_IPV6.network_address} icmpv6 type nd-neighbor-advert accept",
        f"{by_it} ip6 saddr {ipv6.OWN} icmpv6 type nd-router-advert accept",
        f"{by_it} ip6 saddr {ipv6.OWN} meta l4proto udp udp sport 547 udp dport 546 accept",
        f"{by_it} drop",
    ]


def _map(end: str, devices: Sequence[str], chain: str) -> list[str]:
    pairs = ", ".join(f'"{device}" : jump {chain}-{device}' for device in devices)
    return [f"{end} vmap {{ {pairs} }}"] if devices else []


def _to_host(names: Names) -> list[str]:
    """A guest asks for its address and no more."""
    end = f'iifname "{names.devices}*"'
    return [
        f"{end} ip protocol udp udp sport 68 udp dport 67 accept",
        f"{end} arp daddr ip {SERVER} accept",
        f"{end} drop",
    ]


def _from_host(names: Names) -> list[str]:
    end = f'oifname "{names.devices}*"'
    return [
        f"{end} ip protocol udp udp sport 67 udp dport 68 accept",
        f"{end} arp saddr ip {SERVER} accept",
        f"{end} drop",
    ]


def _passing(plug: Plug, direction: str, plugs: Sequence[Plug]) -> list[str]:
    """What passes in one direction; `return` is on to the other side's rules."""
    if not plug.filter.is_on:
        return ["return"]
    rules = [_not_ours(plug)] if direction == INGRESS else []
    rules += [f"{NEIGHBOURS} return"] if speaks_ipv6(plug) else []
    rules += ["ether type arp return", f"meta mark & {ANSWER} == {ANSWER} return"]
    for rule in plug.filter.rules:
        if rule.direction == direction:
            found = matching(rule, plug, plugs)
            rules += [f"{found} return"] if found is not None else []
    return [*dict.fromkeys(rules), "drop"]


def _not_ours(plug: Plug) -> str:
    """A bridge that does not know where somebody is asks everybody: what is meant for one is not for the others."""
    own = {own_mac(plug): None, **dict.fromkeys(filter(None, (mac_of(pair.mac_address) for pair in plug.filter.pairs)))}
    return f"ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ether daddr != {set_of(own)} drop"


def _zone(bridge: str) -> int:
    """The same as long as the bridge is there, whatever others come and go."""
    return 1 + zlib.crc32(bridge.encode()) % LAST_PORT
