"""Turns what ports let through into rules for the kernel: one text that `nft -f` takes whole or not at all."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses

from compute_drivers import guest_metadata
from conductor.core.errors import BuildAborted
from conductor.core.port_filters import EGRESS, INGRESS, IPV4, FilterRule, PortFilter

# A packet of ours with this bit answers one that was let through. The bridge has no memory of connections; the layer
# above it has, and leaves the bit for it.
ANSWER = "0x20000000"
# Here the host's DHCP server is reached: link-local, so that no network of a guest and none of the host's is hidden.
SERVER = "169.254.67.67"
METADATA = guest_metadata.ADDRESS
# What a guest may ask of the metadata service in a second: the process behind it has others to answer.
ASKED_PER_SECOND = 1000
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
ICMP = 1
WITH_PORTS = frozenset(PROTOCOLS[name] for name in ("tcp", "udp", "dccp", "sctp", "udplite"))
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
QUOTED = '"{}"'.format
LAST_PORT, LAST_BYTE = 65_535, 255


@dataclass(frozen=True)
class Plug:
    """A port as the kernel has it: `device` is its end on the host, `bridge` its network."""

    device: str
    bridge: str
    mac_address: str
    ip_address: str
    filter: PortFilter


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
        lines += _own_chain(f"honest-{plug.device}", _honest(plug))
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
    known = f" {end} != {_set(map(QUOTED, devices))}" if devices else ""
    return [f'{end} "{names.devices}*"{known} drop']


def _asked(names: Names) -> list[str]:
    """The metadata service hears what is for it, and says what answers that, whatever groups say."""
    to_it, by_it = f'oifname "{names.services}*"', f'iifname "{names.services}*"'
    of_http = f"ip protocol tcp tcp {{port}} {guest_metadata.TCP_PORT} accept".format
    return [
        f"{to_it} ip daddr {METADATA} {of_http(port='dport')}",
        f"{to_it} arp daddr ip {METADATA} accept",
        f"{to_it} drop",
        f"{by_it} ip saddr {METADATA} {of_http(port='sport')}",
        f"{by_it} arp saddr ip {METADATA} accept",
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


def _honest(plug: Plug) -> list[str]:
    """Who says that it is somebody else is not heard; who has no address yet may ask for one, or whether it is free."""
    own = _own_mac(plug)
    first = [*_served(own, _own_address(plug))]
    if not plug.filter.is_on:
        return [*first, "return"]
    pairs = [(own, _own_address(plug))]
    for pair in plug.filter.pairs:
        mac = _mac(pair.mac_address or own)
        pairs += [(mac, network) for network in _networks([pair.ip_address]) if mac]
    rules = [
        *first,
        f"ether saddr {own} ip saddr 0.0.0.0 ip daddr 255.255.255.255 ip protocol udp udp sport 68 udp dport 67 return",
        "ip protocol udp udp sport 67 drop",  # a guest gives nobody an address
    ]
    for mac, network in dict.fromkeys(pairs):
        rules.append(f"ether saddr {mac} ip saddr {network} return")
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {network} return")
    for mac in dict.fromkeys(mac for mac, _ in pairs):
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip 0.0.0.0 return")
    return [*rules, "drop"]


def _served(mac: str, address: IPv4Network) -> list[str]:
    """Nobody is one of the host's services, and who asks for its metadata is itself: so it is known whose they are."""
    to_it = f"ip daddr {METADATA}"
    return [
        *(
            f"{layer} saddr {ip}{service} drop"
            for service in (SERVER, METADATA)
            for layer, ip in (("ip", ""), ("arp", "ip "))
        ),
        f"{to_it} ether saddr != {mac} drop",
        f"{to_it} ip saddr != {address} drop",
        f"{to_it} limit rate over {ASKED_PER_SECOND}/second burst {ASKED_PER_SECOND} packets drop",
    ]


def _passing(plug: Plug, direction: str, plugs: Sequence[Plug]) -> list[str]:
    """What passes in one direction; `return` is on to the other side's rules."""
    if not plug.filter.is_on:
        return ["return"]
    rules = [_not_ours(plug)] if direction == INGRESS else []
    rules += ["ether type arp return", f"meta mark & {ANSWER} == {ANSWER} return"]
    for rule in plug.filter.rules:
        if rule.direction == direction:
            found = matching(rule, plug, plugs)
            rules += [f"{found} return"] if found is not None else []
    return [*dict.fromkeys(rules), "drop"]


def _not_ours(plug: Plug) -> str:
    """A bridge that does not know where somebody is asks everybody: what is meant for one is not for the others."""
    own = {_own_mac(plug): None, **dict.fromkeys(filter(None, (_mac(pair.mac_address) for pair in plug.filter.pairs)))}
    return f"ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ether daddr != {_set(own)} drop"


def matching(rule: FilterRule, plug: Plug, plugs: Sequence[Plug]) -> str | None:
    """A rule in nft's words; None for one that nothing here can match."""
    if rule.ethertype != IPV4:
        return None
    remote = _remote(rule, plug, plugs)
    protocol = _protocol(rule)
    return None if remote is None or protocol is None else " ".join(filter(None, ("ether type ip", remote, protocol)))


def _remote(rule: FilterRule, plug: Plug, plugs: Sequence[Plug]) -> str | None:
    where = "saddr" if rule.direction == INGRESS else "daddr"
    if rule.remote_group:
        members = (other for other in plugs if other.bridge == plug.bridge and rule.remote_group in other.filter.groups)
        found = _networks(address for member in members for address in _addresses(member))
    elif rule.remote_prefix:
        found = _networks([rule.remote_prefix])
    else:
        return ""
    return f"ip {where} {_set(map(str, found))}" if found else None


def _addresses(plug: Plug) -> Iterator[str]:
    yield plug.ip_address
    yield from (pair.ip_address for pair in plug.filter.pairs)


def _protocol(rule: FilterRule) -> str | None:
    if not rule.protocol:
        return ""
    number = int(rule.protocol) if rule.protocol.isdecimal() else PROTOCOLS.get(rule.protocol)
    if number is None or number > LAST_BYTE:
        return None
    words = f"ip protocol {number}"
    if number == ICMP:
        return words + _bounded("icmp type", rule.low, LAST_BYTE) + _bounded("icmp code", rule.high, LAST_BYTE)
    if number not in WITH_PORTS or rule.low is None:
        return words
    low, high = rule.low, rule.low if rule.high is None else rule.high
    return f"{words} th dport {low}-{high}" if 0 <= low <= high <= LAST_PORT else None


def _bounded(words: str, value: int | None, most: int) -> str:
    return f" {words} {value}" if value is not None and 0 <= value <= most else ""


def _networks(addresses: Iterable[str]) -> list[IPv4Network]:
    """Each once, none within another: sets of the kernel refuse what overlaps. What is not IPv4 is left out."""
    found = []
    for address in addresses:
        with suppress(ValueError):
            found.append(IPv4Network(address, strict=False))
    return list(collapse_addresses(found))


def _own_address(plug: Plug) -> IPv4Network:
    try:
        return IPv4Network(plug.ip_address)
    except ValueError:
        raise BuildAborted(f"A port has no usable address: {plug.ip_address!r}.") from None


def _own_mac(plug: Plug) -> str:
    if not (found := _mac(plug.mac_address)):
        raise BuildAborted(f"A port has no usable MAC address: {plug.mac_address!r}.")
    return found


def _zone(bridge: str) -> int:
    """The same as long as the bridge is there, whatever others come and go."""
    return 1 + zlib.crc32(bridge.encode()) % LAST_PORT


def _mac(address: str) -> str:
    """As the kernel writes it; "" for what is none."""
    found = address.lower()
    return found if MAC.fullmatch(found) else ""


def _set(members: Iterable[str]) -> str:
    return f"{{ {', '.join(members)} }}"
