"""Traffic that a port may send and receive: rules of its security groups, and further addresses."""

from __future__ import annotations

from dataclasses import dataclass

INGRESS, EGRESS = "ingress", "egress"
IPV4, IPV6 = "IPv4", "IPv6"


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One kind of traffic that passes.

    Attributes:
        protocol: A name or number; "" is any. For ICMP the ports hold type and code.
        remote_prefix: Addresses of the peer.
        remote_group: Id of the security group of the peer. With neither this nor a prefix any peer is allowed.
    """

    direction: str
    ethertype: str = IPV4
    protocol: str = ""
    low: int | None = None
    high: int | None = None
    remote_prefix: str = ""
    remote_group: str = ""


@dataclass(frozen=True, slots=True)
class AddressPair:
    """Another address that a port may send from; an empty MAC is the port's own."""

    ip_address: str
    mac_address: str = ""
