"""All networks of a cloud as plain values: the input of the projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from conductor.core.port_filters import AddressPair, FilterRule
from conductor.network.ovn.balancer_specs import LoadBalancerSpec


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """A limit of what a port's guest sends (egress) or receives (ingress); a burst of 0 leaves it to OVN."""

    direction: str
    kbps: int
    burst_kbps: int = 0


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A network. `physical_network` and `segmentation_id` are those of a provider network.

    `limits` apply to ports without limits of their own.
    """

    uuid: str
    name: str = ""
    revision: int = 0
    project: str = ""
    mtu: int = 1442
    is_admin_up: bool = True
    is_external: bool = False
    physical_network: str = ""
    segmentation_id: int | None = None
    dns_domain: str = ""
    limits: tuple[BandwidthLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class SubnetSpec:
    """A subnet. `host_routes` are pairs of destination and next hop; `ipv6_mode` is "" for IPv4."""

    uuid: str
    network: str
    cidr: str
    name: str = ""
    revision: int = 0
    gateway_ip: str = ""
    is_dhcp_enabled: bool = True
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[tuple[str, str], ...] = ()
    ipv6_mode: str = ""


class FixedAddress(NamedTuple):
    """An address of a port, with the id of its subnet."""

    subnet: str
    ip_address: str


@dataclass(frozen=True, slots=True)
class DhcpOption:
    """A DHCP option of a port, in the API's names."""

    name: str
    value: str
    ip_version: int = 4


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port. `host` is "" while no host has it; `groups` are ids of its security groups.

    `destination` is the host that its guest is moving to while it runs.
    """

    uuid: str
    network: str
    mac_address: str
    name: str = ""
    revision: int = 0
    project: str = ""
    dns_name: str = ""
    is_admin_up: bool = True
    is_port_security_enabled: bool = True
    device_owner: str = ""
    device_id: str = ""
    host: str = ""
    destination: str = ""
    addresses: tuple[FixedAddress, ...] = ()
    pairs: tuple[AddressPair, ...] = ()
    dhcp_options: tuple[DhcpOption, ...] = ()
    groups: tuple[str, ...] = ()
    limits: tuple[BandwidthLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class SecurityGroupSpec:
    """A security group; `rules` maps ids to rules."""

    uuid: str
    name: str = ""
    revision: int = 0
    is_stateful: bool = True
    rules: Mapping[str, FilterRule] | None = None


@dataclass(frozen=True, slots=True)
class RouterSpec:
    """A router. `gateway_port` is the id of its port on an external network, if any."""

    uuid: str
    name: str = ""
    revision: int = 0
    is_admin_up: bool = True
    is_snat_enabled: bool = True
    gateway_port: str = ""
    routes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FloatingIpSpec:
    """A floating IP that is associated with a port's address, through a router."""

    uuid: str
    router: str
    address: str
    fixed_ip_address: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class GatewayHost:
    """A host that connects routers with external networks; it has bridges for these physical networks."""

    name: str
    physical_networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CloudTopology:
    """Networks and everything that belongs to them."""

    networks: tuple[NetworkSpec, ...] = ()
    subnets: tuple[SubnetSpec, ...] = ()
    ports: tuple[PortSpec, ...] = ()
    security_groups: tuple[SecurityGroupSpec, ...] = ()
    routers: tuple[RouterSpec, ...] = ()
    floating_ips: tuple[FloatingIpSpec, ...] = ()
    gateway_hosts: tuple[GatewayHost, ...] = ()
    load_balancers: tuple[LoadBalancerSpec, ...] = ()
