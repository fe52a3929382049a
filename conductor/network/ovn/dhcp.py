"""DHCP of OVN: the options of subnets, and of ports that have options of their own.

OVN accepts options that it cannot parse, and then does not answer the guest. So an option with an unknown name or an
invalid value is left out here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from conductor.network.ipv6_modes import STATEFUL, STATELESS
from conductor.network.ovn.acls import METADATA
from conductor.network.ovn.topology import DhcpOption, NetworkSpec, SubnetSpec

LEASE_SECONDS = 86_400
# Address of the DHCP server where the subnet has no gateway.
SERVER = "169.254.67.67"


def server_mac(subnet_uuid: str) -> str:
    """Return the MAC address that answers DHCP for a subnet; it stays the same."""
    digits = hashlib.sha256(subnet_uuid.encode()).hexdigest()
    return ":".join(("fa:16:3e", digits[:2], digits[2:4], digits[4:6]))


def options_of(network: NetworkSpec, subnet: SubnetSpec) -> Mapping[str, str] | None:
    """Return the options of guests on a subnet; None where they get no addresses or options by DHCP."""
    if not subnet.is_dhcp_enabled:
        return None
    if ":" not in subnet.cidr:
        return _options_ipv4(network, subnet)
    return _options_ipv6(subnet) if subnet.ipv6_mode in (STATEFUL, STATELESS) else None


def with_own(options: Mapping[str, str], own: Iterable[DhcpOption], ip_version: int) -> Mapping[str, str]:
    """Return the options of a subnet with those that a port has itself."""
    merged = dict(options)
    for option in own:
        if option.ip_version != ip_version or option.name not in OWN_OPTIONS[ip_version]:
            continue
        name, compile_value = OWN_OPTIONS[ip_version][option.name]
        try:
            merged[name] = compile_value(option.value)
        except ValueError:
            continue
    return merged


def has_own(own: Iterable[DhcpOption], ip_version: int) -> bool:
    """Whether OVN can send some of these options."""
    return any(option.ip_version == ip_version and option.name in OWN_OPTIONS[ip_version] for option in own)


def _options_ipv4(network: NetworkSpec, subnet: SubnetSpec) -> Mapping[str, str]:
    # A guest that gets these routes ignores the router option, so they contain the default route (RFC 3442).
    routes = [(f"{METADATA}/32", "0.0.0.0"), *subnet.host_routes]
    options = {
        "server_id": subnet.gateway_ip or SERVER,
        "server_mac": server_mac(subnet.uuid),
        "lease_time": str(LEASE_SECONDS),
        "mtu": str(network.mtu),
    }
    if network.dns_domain:
        options["domain_name"] = _text(network.dns_domain.rstrip("."))
    if subnet.gateway_ip:
        options["router"] = subnet.gateway_ip
        # The default of subnets without DNS servers: OVN answers queries to it for names of the network.
        options["dns_server"] = _set_of([subnet.gateway_ip])
        if not any(destination == "0.0.0.0/0" for destination, _ in routes):
            routes.append(("0.0.0.0/0", subnet.gateway_ip))
    options["classless_static_route"] = _set_of(f"{destination},{nexthop}" for destination, nexthop in routes)
    return {**options, **_dns(subnet, is_ipv6=False)}


def _options_ipv6(subnet: SubnetSpec) -> Mapping[str, str]:
    stateless = {"dhcpv6_stateless": "true"} if subnet.ipv6_mode == STATELESS else {}
    return {"server_id": server_mac(subnet.uuid), **stateless, **_dns(subnet, is_ipv6=True)}


def _dns(subnet: SubnetSpec, *, is_ipv6: bool) -> Mapping[str, str]:
    servers = [server for server in subnet.dns_nameservers if (":" in server) == is_ipv6]
    return {"dns_server": _set_of(servers)} if servers else {}


def _set_of(values: Iterable[str]) -> str:
    return f"{{{', '.join(values)}}}"


def _text(value: str) -> str:
    """Return a string constant of OVN, which has the escapes of JSON."""
    if not value.isascii() or not value.isprintable():
        raise ValueError(value)
    return json.dumps(value)


def _addresses(parse: Callable[[str], IPv4Address | IPv6Address]) -> Callable[[str], str]:
    return lambda value: _set_of(str(parse(one.strip())) for one in value.strip("{}").split(","))


def _number(highest: int) -> Callable[[str], str]:
    def compile_value(value: str) -> str:
        if not (value.isascii() and value.isdecimal()) or int(value) > highest:
            raise ValueError(value)
        return str(int(value))

    return compile_value


def _one_address(value: str) -> str:
    return str(IPv4Address(value))


def _host(value: str) -> str:
    """Return an address, or a name as text."""
    try:
        return _one_address(value)
    except AddressValueError:
        return _text(value)


_BYTE, _SHORT, _LONG = _number(2**8 - 1), _number(2**16 - 1), _number(2**32 - 1)
_ADDRESSES, _ADDRESSES_IPV6 = _addresses(IPv4Address), _addresses(IPv6Address)
# Version of IP → the API's name of an option (dnsmasq's) → OVN's name, and the function that compiles the value.
OWN_OPTIONS: Mapping[int, Mapping[str, tuple[str, Callable[[str], str]]]] = {
    4: {
        "arp-timeout": ("arp_cache_timeout", _LONG),
        "bootfile-name": ("bootfile_name", _text),
        "default-ttl": ("default_ttl", _BYTE),
        "dns-server": ("dns_server", _ADDRESSES),
        "domain-name": ("domain_name", _text),
        "hostname": ("hostname", _text),
        "lease-time": ("lease_time", _LONG),
        "log-server": ("log_server", _ADDRESSES),
        "lpr-server": ("lpr_server", _ADDRESSES),
        "mtu": ("mtu", _SHORT),
        "netbios-ns": ("netbios_name_server", _ADDRESSES),
        "nis-server": ("nis_server", _ADDRESSES),
        "ntp-server": ("ntp_server", _ADDRESSES),
        "path-prefix": ("path_prefix", _text),
        "router": ("router", _one_address),
        "server-ip-address": ("tftp_server_address", _ADDRESSES),
        "T1": ("T1", _LONG),
        "T2": ("T2", _LONG),
        "tcp-keepalive": ("tcp_keepalive_interval", _LONG),
        "tcp-ttl": ("tcp_ttl", _BYTE),
        "tftp-server": ("tftp_server", _host),
        "wpad": ("wpad", _text),
    },
    6: {
        "dns-server": ("dns_server", _ADDRESSES_IPV6),
        "domain-search": ("domain_search", _text),
    },
}
