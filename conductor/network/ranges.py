"""Arithmetic of address ranges: gateways, allocation pools, overlaps, and subnets of a pool."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from conductor.network.errors import GatewayConflictWithAllocationPools, InvalidInput

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network
Pool = Mapping[str, str]


def parse_range(cidr: str, ip_version: int) -> Range:
    """Parse a range; `10.0.0.7/24` names `10.0.0.0/24`. Raises InvalidInput naming `cidr`."""
    try:
        parsed = ip_network(cidr, strict=False)
    except ValueError:
        raise InvalidInput(f"Invalid input for cidr. Reason: '{cidr}' is not a valid IP subnet.") from None
    if parsed.version != ip_version:
        raise InvalidInput(f"Invalid input for cidr. Reason: '{cidr}' is not an IPv{ip_version} subnet.")
    return parsed


def parse_address(text: str, ip_version: int, field: str) -> Address:
    """Parse an address of this version. Raises InvalidInput naming `field`."""
    try:
        parsed = ip_address(text)
    except ValueError:
        raise InvalidInput(f"Invalid input for {field}. Reason: '{text}' is not a valid IP address.") from None
    if parsed.version != ip_version:
        raise InvalidInput(f"Invalid input for {field}. Reason: '{text}' is not an IPv{ip_version} address.")
    return parsed


def parse_any_address(text: str, field: str) -> Address:
    """Parse an address of any version. Raises InvalidInput naming `field`."""
    return parse_address(text, 6 if ":" in text else 4, field)


def normalized(text: str) -> str:
    """Return an address, or the range of `10.0.0.7/24`, in its one spelling."""
    return str(ip_network(text, strict=False) if "/" in text else ip_address(text))


def normalized_range(text: str) -> str:
    """Return a range in its one spelling; an address is a range of one."""
    return str(ip_network(text, strict=False))


def version_of(cidr: str) -> int:
    return int(ip_network(cidr).version)


def host_bounds(network: Range) -> tuple[int, int]:
    """Return the first and last address for hosts, as numbers: IPv4 excludes both ends of a range, IPv6 the first."""
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.num_addresses <= 2:
        return first, last
    return first + 1, last - 1 if network.version == 4 else last


def default_gateway(network: Range) -> str:
    return str(network.network_address + (1 if network.num_addresses > 2 else 0))


def default_pools(network: Range, gateway_ip: str | None) -> list[dict[str, str]]:
    """Return all addresses for hosts except the gateway's."""
    first, last = host_bounds(network)
    gateway = int(ip_address(gateway_ip)) if gateway_ip else -1
    spans = [(first, last)] if not first <= gateway <= last else [(first, gateway - 1), (gateway + 1, last)]
    kind = type(network.network_address)
    return [{"start": str(kind(low)), "end": str(kind(high))} for low, high in spans if low <= high]


def checked_pools(network: Range, pools: Sequence[Pool]) -> list[dict[str, str]]:
    """Return pools in order of addresses. Raises InvalidInput when one is outside the range, reversed or overlaps."""
    first, last = host_bounds(network)
    spans = []
    for pool in pools:
        start = parse_address(pool["start"], network.version, "allocation_pools")
        end = parse_address(pool["end"], network.version, "allocation_pools")
        if not first <= int(start) <= int(end) <= last:
            raise InvalidInput(f"The allocation pool {start}-{end} is not valid in {network}.")
        spans.append((int(start), int(end), {"start": str(start), "end": str(end)}))
    spans.sort(key=lambda span: span[:2])
    for (_, end_number, before), (start_number, _, after) in itertools.pairwise(spans):
        if start_number <= end_number:
            raise InvalidInput(f"Found overlapping allocation pools: {before['start']} and {after['start']}.")
    return [pool for _, _, pool in spans]


def require_outside(gateway_ip: str | None, pools: Iterable[Pool]) -> None:
    """Raise GatewayConflictWithAllocationPools when a pool contains the gateway's address."""
    if gateway_ip is None:
        return
    gateway = int(ip_address(gateway_ip))
    for pool in pools:
        if int(ip_address(pool["start"])) <= gateway <= int(ip_address(pool["end"])):
            raise GatewayConflictWithAllocationPools(
                f"Gateway ip {gateway_ip} conflicts with allocation pool {pool['start']}-{pool['end']}."
            )


def first_overlap(network: Range, cidrs: Iterable[str]) -> str | None:
    return next((cidr for cidr in cidrs if _overlaps(network, ip_network(cidr))), None)


def is_within(network: Range, wider: str) -> bool:
    outer = ip_network(wider)
    if isinstance(network, IPv4Network):
        return isinstance(outer, IPv4Network) and network.subnet_of(outer)
    return isinstance(outer, IPv6Network) and network.subnet_of(outer)


def blocks(cidrs: Iterable[str]) -> int:
    """Return the size as quotas of pools count it: IPv4 addresses, IPv6 networks of 64 bits."""
    parsed = [ip_network(cidr) for cidr in cidrs]
    return sum(one.num_addresses if one.version == 4 else max(1, one.num_addresses >> 64) for one in parsed)


def in_pools(pools: Iterable[Pool]) -> int:
    """Return the number of addresses in the pools."""
    return sum(int(ip_address(pool["end"])) - int(ip_address(pool["start"])) + 1 for pool in pools)


def cut(prefixes: Iterable[str], prefix_length: int, taken: Iterable[str]) -> Range | None:
    """Return the first range of this length within `prefixes` that overlaps none of `taken`. None if there is none."""
    taken_ranges = [ip_network(cidr) for cidr in taken]
    for prefix in map(ip_network, prefixes):
        if prefix_length < prefix.prefixlen or prefix_length > prefix.max_prefixlen:
            continue
        candidate = _first_gap(prefix, prefix_length, taken_ranges)
        if candidate is not None:
            return candidate
    return None


def _first_gap(prefix: Range, prefix_length: int, taken: Sequence[Range]) -> Range | None:
    """Skip whole taken ranges, so that a long prefix costs no more than their number."""
    size = 1 << (prefix.max_prefixlen - prefix_length)
    start, end = int(prefix.network_address), int(prefix.broadcast_address)
    while start + size - 1 <= end:
        candidate = ip_network((start, prefix_length)) if prefix.version == 4 else IPv6Network((start, prefix_length))
        blocking = [other for other in taken if _overlaps(candidate, other)]
        if not blocking:
            return candidate
        past = max(int(other.broadcast_address) for other in blocking) + 1
        start = max(start + size, -(-past // size) * size)
    return None


def _overlaps(one: Range, other: Range) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)
