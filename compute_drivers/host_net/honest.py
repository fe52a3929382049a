"""Rules that hear a guest only as who it is, before the bridge learns anything of it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from compute_drivers import guest_metadata
from compute_drivers.host_net import ipv6
from compute_drivers.host_net.matching import set_of
from compute_drivers.host_net.plugs import (
    Plug,
    Range,
    addresses_of,
    link_local,
    mac_of,
    networks,
    own_addresses,
    own_mac,
)

# Here the host's DHCP server is reached: link-local, so that no network of a guest and none of the host's is hidden.
SERVER = "169.254.67.67"
METADATA = guest_metadata.ADDRESS
METADATA_IPV6 = IPv6Network(guest_metadata.ADDRESS_IPV6)
# What a guest may ask of the metadata service in a second: the process behind it has others to answer.
ASKED_PER_SECOND = 1000
# And for its addresses of IPv6, by a router solicitation or DHCPv6.
SOLICITED_PER_SECOND = 20
Pairs = Sequence[tuple[str, Range]]


def honest(plug: Plug) -> list[str]:
    """Who says that it is somebody else is not heard; who has no address yet may ask for one, or whether it is free.

    Raises BuildAborted for a port whose address is none.
    """
    own, addresses = own_mac(plug), own_addresses(plug)
    first = [
        *_served(own, [one for one in addresses if isinstance(one, IPv4Network)]),
        *_served_by_ipv6(own, addresses),
    ]
    if not plug.filter.is_on:
        return [*first, "return"]
    pairs = [(own, address) for address in addresses]
    for pair in plug.filter.pairs:
        mac = mac_of(pair.mac_address or own)
        found = (*networks([pair.ip_address], 4), *networks([pair.ip_address], 6))
        pairs += [(mac, network) for network in found if mac]
    pairs = list(dict.fromkeys(pairs))
    return [*first, *_by_ipv4(own, pairs), *_by_ipv6(own, pairs), "drop"]


def speaks_ipv6(plug: Plug) -> bool:
    """Whether a port has such an address; to one that has none it is nothing but noise."""
    return bool(networks(addresses_of(plug), 6))


def _served(mac: str, addresses: Sequence[IPv4Network]) -> list[str]:
    """Nobody is one of the host's services, and who asks for its metadata is itself: so it is known whose they are."""
    to_it = f"ip daddr {METADATA}"
    asker = f"{to_it} ip saddr != {set_of(map(str, addresses))} drop" if addresses else f"{to_it} drop"
    return [
        *(
            f"{layer} saddr {ip}{service} drop"
            for service in (SERVER, METADATA)
            for layer, ip in (("ip", ""), ("arp", "ip "))
        ),
        f"ip6 saddr {ipv6.OWN} drop",
        f"{to_it} ether saddr != {mac} drop",
        asker,
        f"{to_it} {_no_more_than(ASKED_PER_SECOND)}",
        f"icmpv6 type nd-router-solicit {_no_more_than(SOLICITED_PER_SECOND)}",
        f"ether type ip6 meta l4proto udp udp dport 547 {_no_more_than(SOLICITED_PER_SECOND)}",
    ]


def _served_by_ipv6(mac: str, addresses: Sequence[Range]) -> list[str]:
    """The same of the service's other address, which only those ask that have such an address."""
    to_it = f"ip6 daddr {METADATA_IPV6.network_address}"
    own = [str(address.network_address) for address in addresses if isinstance(address, IPv6Network)]
    askers = set_of([*own, str(link_local(mac).network_address)])
    return [
        f"ip6 saddr {METADATA_IPV6.network_address} drop",
        f"icmpv6 type nd-neighbor-advert {_told(METADATA_IPV6)} drop",
        f"{to_it} ether saddr != {mac} drop",
        f"{to_it} ip6 saddr != {askers} drop" if own else f"{to_it} drop",
        f"{to_it} {_no_more_than(ASKED_PER_SECOND)}",
    ]


def _no_more_than(number: int) -> str:
    return f"limit rate over {number}/second burst {number} packets drop"


def _by_ipv4(own: str, pairs: Pairs) -> list[str]:
    rules = [
        f"ether saddr {own} ip saddr 0.0.0.0 ip daddr 255.255.255.255 ip protocol udp udp sport 68 udp dport 67 return",
        "ip protocol udp udp sport 67 drop",  # a guest gives nobody an address
    ]
    mine = [(mac, network) for mac, network in pairs if isinstance(network, IPv4Network)]
    for mac, network in mine:
        rules.append(f"ether saddr {mac} ip saddr {network} return")
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {network} return")
    for mac in dict.fromkeys(mac for mac, _ in mine):
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip 0.0.0.0 return")
    return rules


def _by_ipv6(own: str, pairs: Pairs) -> list[str]:
    """None where it has no such address. What it says of others' cards is what ARP is in IPv4."""
    mine = [(mac, network) for mac, network in pairs if isinstance(network, IPv6Network)]
    if not mine:
        return []
    mine = list(dict.fromkeys([*mine, *((mac, link_local(mac)) for mac in (own, *(mac for mac, _ in mine)))]))
    rules = [
        "icmpv6 type { nd-router-advert, nd-redirect } drop",  # a guest leads nobody
        "ether type ip6 meta l4proto udp udp sport 547 drop",  # and gives nobody an address
    ]
    for mac, network in mine:
        told = f" {_told(network)}" if network.prefixlen else ""
        saddr = f"ip6 saddr {_of(mac, mine)}"
        rules.append(f"ether saddr {mac} {saddr} icmpv6 type nd-neighbor-advert{told} return")
    rules.append("icmpv6 type nd-neighbor-advert drop")
    for mac in dict.fromkeys(mac for mac, _ in mine):
        asks = "icmpv6 type { nd-router-solicit, nd-neighbor-solicit }"
        rules.append(f"ether saddr {mac} ip6 saddr :: {asks} return")
    return [*rules, *(f"ether saddr {mac} ip6 saddr {network} return" for mac, network in mine)]


def _told(network: IPv6Network) -> str:
    """Whose card it tells of: this release of nft has no word for the address, which begins 64 bits in."""
    return f"@th,64,{network.prefixlen} {int(network.network_address) >> (128 - network.prefixlen):#x}"


def _of(mac: str, pairs: Pairs) -> str:
    found = networks((str(network) for other, network in pairs if other == mac), 6)
    return set_of(map(str, found))
