"""Anti-spoofing rules: drop what a guest sends under another MAC or IP address, before the bridge learns it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from compute_drivers import metadata_pages
from compute_drivers.host_net import ipv6_addresses
from compute_drivers.host_net.host_ports import (
    AddressRange,
    HostPort,
    addresses_of,
    link_local,
    networks,
    normalize_mac,
    own_addresses,
    own_mac,
)
from compute_drivers.host_net.security_groups import set_of

# Address of the host's DHCP server: link-local, so that it hides no network of guests or of the host.
SERVER = "169.254.67.67"
METADATA = metadata_pages.ADDRESS
METADATA_IPV6 = IPv6Network(metadata_pages.ADDRESS_IPV6)
# Packets per second of one guest to the metadata service, which serves all guests.
METADATA_PACKETS_PER_SECOND = 1000
# Router solicitations and DHCPv6 packets per second of one guest.
SOLICITATIONS_PER_SECOND = 20
AddressPairs = Sequence[tuple[str, AddressRange]]  # MAC and addresses


def anti_spoofing(port: HostPort) -> list[str]:
    """Return the rules for what a port sends. A guest without an address may ask for one, or whether it is free.

    Raises BuildAborted for a port with an invalid address.
    """
    own, addresses = own_mac(port), own_addresses(port)
    first = [
        *_service_rules(own, [one for one in addresses if isinstance(one, IPv4Network)]),
        *_service_rules_ipv6(own, addresses),
    ]
    if not port.filter.is_on:
        return [*first, "return"]
    pairs = [(own, address) for address in addresses]
    for pair in port.filter.pairs:
        mac = normalize_mac(pair.mac_address or own)
        found = (*networks([pair.ip_address], 4), *networks([pair.ip_address], 6))
        pairs += [(mac, network) for network in found if mac]
    pairs = list(dict.fromkeys(pairs))
    return [*first, *_by_ipv4(own, pairs), *_by_ipv6(own, pairs), "drop"]


def has_ipv6(port: HostPort) -> bool:
    """Return whether the port has an IPv6 address."""
    return bool(networks(addresses_of(port), 6))


def _service_rules(mac: str, addresses: Sequence[IPv4Network]) -> list[str]:
    """Guests must not send as a service of the host, and reach the metadata service only under their own address."""
    to_service = f"ip daddr {METADATA}"
    own_only = f"{to_service} ip saddr != {set_of(map(str, addresses))} drop" if addresses else f"{to_service} drop"
    return [
        *(
            f"{layer} saddr {ip}{service} drop"
            for service in (SERVER, METADATA)
            for layer, ip in (("ip", ""), ("arp", "ip "))
        ),
        f"ip6 saddr {ipv6_addresses.ROUTER_ADDRESS} drop",
        f"{to_service} ether saddr != {mac} drop",
        own_only,
        f"{to_service} {_rate_limit(METADATA_PACKETS_PER_SECOND)}",
        f"icmpv6 type nd-router-solicit {_rate_limit(SOLICITATIONS_PER_SECOND)}",
        f"ether type ip6 meta l4proto udp udp dport 547 {_rate_limit(SOLICITATIONS_PER_SECOND)}",
    ]


def _service_rules_ipv6(mac: str, addresses: Sequence[AddressRange]) -> list[str]:
    """Return the rules for the service's IPv6 address, which only ports with IPv6 can reach."""
    to_service = f"ip6 daddr {METADATA_IPV6.network_address}"
    own = [str(address.network_address) for address in addresses if isinstance(address, IPv6Network)]
    sources = set_of([*own, str(link_local(mac).network_address)])
    return [
        f"ip6 saddr {METADATA_IPV6.network_address} drop",
        f"icmpv6 type nd-neighbor-advert {_target_matches(METADATA_IPV6)} drop",
        f"{to_service} ether saddr != {mac} drop",
        f"{to_service} ip6 saddr != {sources} drop" if own else f"{to_service} drop",
        f"{to_service} {_rate_limit(METADATA_PACKETS_PER_SECOND)}",
    ]


def _rate_limit(number: int) -> str:
    return f"limit rate over {number}/second burst {number} packets drop"


def _by_ipv4(own: str, pairs: AddressPairs) -> list[str]:
    rules = [
        f"ether saddr {own} ip saddr 0.0.0.0 ip daddr 255.255.255.255 ip protocol udp udp sport 68 udp dport 67 return",
        "ip protocol udp udp sport 67 drop",  # a guest must not act as a DHCP server
    ]
    mine = [(mac, network) for mac, network in pairs if isinstance(network, IPv4Network)]
    for mac, network in mine:
        rules.append(f"ether saddr {mac} ip saddr {network} return")
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {network} return")
    for mac in dict.fromkeys(mac for mac, _ in mine):
        rules.append(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip 0.0.0.0 return")
    return rules


def _by_ipv6(own: str, pairs: AddressPairs) -> list[str]:
    """Return the rules for IPv6, none for a port without it. Neighbor discovery is what ARP is for IPv4."""
    mine = [(mac, network) for mac, network in pairs if isinstance(network, IPv6Network)]
    if not mine:
        return []
    mine = list(dict.fromkeys([*mine, *((mac, link_local(mac)) for mac in (own, *(mac for mac, _ in mine)))]))
    rules = [
        "icmpv6 type { nd-router-advert, nd-redirect } drop",  # a guest must not act as a router
        "ether type ip6 meta l4proto udp udp sport 547 drop",  # or as a DHCPv6 server
    ]
    for mac, network in mine:
        target = f" {_target_matches(network)}" if network.prefixlen else ""
        saddr = f"ip6 saddr {_addresses_with_mac(mac, mine)}"
        rules.append(f"ether saddr {mac} {saddr} icmpv6 type nd-neighbor-advert{target} return")
    rules.append("icmpv6 type nd-neighbor-advert drop")
    for mac in dict.fromkeys(mac for mac, _ in mine):
        asks = "icmpv6 type { nd-router-solicit, nd-neighbor-solicit }"
        rules.append(f"ether saddr {mac} ip6 saddr :: {asks} return")
    return [*rules, *(f"ether saddr {mac} ip6 saddr {network} return" for mac, network in mine)]


def _target_matches(network: IPv6Network) -> str:
    """Match the target address of a neighbor message by its raw offset: this nft release has no name for it."""
    return f"@th,64,{network.prefixlen} {int(network.network_address) >> (128 - network.prefixlen):#x}"


def _addresses_with_mac(mac: str, pairs: AddressPairs) -> str:
    found = networks((str(network) for other, network in pairs if other == mac), 6)
    return set_of(map(str, found))
