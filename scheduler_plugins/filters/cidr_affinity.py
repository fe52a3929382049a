"""Filter by the network of the host's address."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hints import (
    ADDRESS_HINT,
    DEFAULT_LENGTH,
    LENGTH_HINT,
    network_of,
    word_of,
    words_of,
)
from conductor.core.verdict import PASS, Verdict, reject, unreadable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
KEPT = 16_384  # addresses that are parsed already


class SimpleCIDRAffinityFilter(Filter):
    """With the hint build_near_host_ip, keep hosts in that network; the hint cidr sets its size."""

    name = "SimpleCIDRAffinityFilter"
    runs_once_per_request = True
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not words_of(spec, ADDRESS_HINT):
            return hosts.everyone
        network = _network(spec)
        return hosts.factor("host_ip").mask(lambda address: _is_in(address, network))

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not words_of(spec, ADDRESS_HINT):
            return PASS
        network = _network(spec)
        if network is None:
            text = _text(spec) or "a list"
            return unreadable(f"the hints {ADDRESS_HINT} and {LENGTH_HINT} name no network: {text:.60}", need=text)
        if _is_in(host.host_ip, network):
            return PASS
        if not _is_address(host.host_ip):
            return unreadable("the host has no address", need=network, have=host.host_ip)
        return reject(message("reject.other_network"), need=network, have=host.host_ip)


def _text(spec: RequestSpec) -> str | None:
    """Return address and length together; None where a hint is a list."""
    address, length = word_of(spec, ADDRESS_HINT), word_of(spec, LENGTH_HINT, DEFAULT_LENGTH)
    return None if address is None or length is None else address + length


def _network(spec: RequestSpec) -> Network | None:
    """Return the network, None where the hints name none. Any address in it may name it."""
    return network_of(_text(spec) or "", "")


def _is_address(text: str) -> bool:
    return _address(text) is not None


@lru_cache(KEPT)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_in(text: str, network: Network | None) -> bool:
    address = _address(text)
    return network is not None and address is not None and address in network
