"""Routers of OVN: distributed between networks, and on a gateway host towards an external network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network

from conductor.network.device_owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from conductor.network.ipv6_modes import SLAAC, STATEFUL, STATELESS
from conductor.network.ovn.northbound import NorthboundBuilder, RowKey
from conductor.network.ovn.topology import CloudTopology, GatewayHost, NetworkSpec, PortSpec, RouterSpec, SubnetSpec

# A router has at most this many gateway hosts to choose from.
MOST_GATEWAY_HOSTS = 5
# A gateway host counts as failed when the others miss this many successive messages of it.
MISSED_MESSAGES = 3
EVERYWHERE: Mapping[int, str] = {4: "0.0.0.0/0", 6: "::/0"}
_ADDRESS_MODES: Mapping[str, str] = {SLAAC: "slaac", STATEFUL: "dhcpv6_stateful", STATELESS: "dhcpv6_stateless"}


def router_name(router_uuid: str) -> str:
    return f"novella-{router_uuid}"


def router_port_name(port_uuid: str) -> str:
    """Return the name of the router's end of a port."""
    return f"lrp-{port_uuid}"


def failover_options(milliseconds: int) -> Mapping[str, str]:
    """Return the options of the whole database that replace a gateway host after `milliseconds` of silence."""
    interval = str(milliseconds // MISSED_MESSAGES)
    return {"bfd-min-rx": interval, "bfd-min-tx": interval, "bfd-mult": str(MISSED_MESSAGES)}


def add_routers(builder: NorthboundBuilder, topology: CloudTopology) -> None:
    """Add all routers with their ports, routes and address translation."""
    networks = {network.uuid: network for network in topology.networks}
    subnets = {subnet.uuid: subnet for subnet in topology.subnets}
    ports: dict[str, list[PortSpec]] = {router.uuid: [] for router in topology.routers}
    for port in topology.ports:
        if port.device_owner in (ROUTER_INTERFACE, ROUTER_GATEWAY) and port.device_id in ports:
            ports[port.device_id].append(port)
    rows = {}
    for router in topology.routers:
        rows[router.uuid] = row = builder.add(
            "Logical_Router",
            router_name(router.uuid),
            name=router.name,
            revision=router.revision,
            enabled=frozenset({router.is_admin_up}),
        )
        _RouterRows(builder, row, router, ports[router.uuid], networks, subnets).add(topology.gateway_hosts)
    for floating in topology.floating_ips:
        if floating.router in rows:
            translation = builder.add(
                "NAT",
                floating.uuid,
                name=floating.address,
                revision=floating.revision,
                type="dnat_and_snat",
                external_ip=floating.address,
                logical_ip=floating.fixed_ip_address,
            )
            builder.refer(rows[floating.router], "nat", translation)


class _RouterRows:
    """The rows of one router."""

    def __init__(
        self,
        builder: NorthboundBuilder,
        row: RowKey,
        router: RouterSpec,
        ports: Sequence[PortSpec],
        networks: Mapping[str, NetworkSpec],
        subnets: Mapping[str, SubnetSpec],
    ) -> None:
        self._builder = builder
        self._row = row
        self._router = router
        self._networks = networks
        self._subnets = subnets
        usable = [port for port in ports if port.addresses]  # a router's port needs an address in OVN
        self._interfaces = [port for port in usable if port.device_owner == ROUTER_INTERFACE]
        self._gateway = next((port for port in usable if port.uuid == router.gateway_port), None)

    def add(self, gateway_hosts: Iterable[GatewayHost]) -> None:
        for port in self._interfaces:
            self._add_port(port, options=self._interface_options(port), ipv6_ra_configs=self._advertised(port))
        own_routes = {destination for destination, _ in self._router.routes}
        for destination, nexthop in self._router.routes:
            self._add_route(destination, nexthop)
        if self._gateway is not None:
            self._add_gateway(self._gateway, gateway_hosts)
            for subnet in self._subnets_of(self._gateway):
                everywhere = EVERYWHERE[ip_network(subnet.cidr).version]
                if subnet.gateway_ip and everywhere not in own_routes:
                    own_routes.add(everywhere)
                    self._add_route(everywhere, subnet.gateway_ip, output_port=router_port_name(self._gateway.uuid))

    def _add_gateway(self, gateway: PortSpec, gateway_hosts: Iterable[GatewayHost]) -> None:
        network = self._networks[gateway.network]
        mtus = [self._networks[port.network].mtu for port in self._interfaces]
        options = {"gateway_mtu": str(network.mtu)} if max(mtus, default=0) > network.mtu else {}
        group = self._add_group(network, gateway_hosts)
        self._add_port(gateway, options=options, ha_chassis_group=frozenset({group}))
        outer = next((held.ip_address for held in gateway.addresses if ":" not in held.ip_address), None)
        if outer is None or not self._router.is_snat_enabled:
            return
        for subnet in {subnet.uuid: subnet for port in self._interfaces for subnet in self._subnets_of(port)}.values():
            if ":" not in subnet.cidr:
                self._add_child(
                    "NAT", f"{self._router.uuid}:snat:{subnet.cidr}", "nat", type="snat", external_ip=outer,
                    logical_ip=subnet.cidr,
                )  # fmt: skip

    def _add_group(self, network: NetworkSpec, gateway_hosts: Iterable[GatewayHost]) -> RowKey:
        """Add the group of hosts for the gateway. Different routers prefer different hosts."""
        name = router_name(self._router.uuid)
        group = self._builder.add("HA_Chassis_Group", name, name=self._router.name, revision=self._router.revision)
        able = [
            host.name
            for host in gateway_hosts
            if not network.physical_network or network.physical_network in host.physical_networks
        ]
        able.sort(key=lambda host: hashlib.sha256(f"{self._router.uuid} {host}".encode()).digest())
        for rank, host in enumerate(able[:MOST_GATEWAY_HOSTS]):
            member = self._builder.add(
                "HA_Chassis", f"{name}:{host}", chassis_name=host, priority=MOST_GATEWAY_HOSTS - rank
            )
            self._builder.refer(group, "ha_chassis", member)
        return group

    def _add_port(self, port: PortSpec, **columns: object) -> None:
        lengths = {subnet.uuid: subnet.cidr.rpartition("/")[2] for subnet in self._subnets_of(port)}
        row = self._builder.add(
            "Logical_Router_Port",
            router_port_name(port.uuid),
            name=port.name,
            revision=port.revision,
            mac=port.mac_address,
            networks=frozenset(f"{held.ip_address}/{lengths[held.subnet]}" for held in port.addresses),
            **columns,  # type: ignore[arg-type]
        )
        self._builder.refer(self._row, "ports", row)

    def _add_route(self, destination: str, nexthop: str, output_port: str = "") -> None:
        self._add_child(
            "Logical_Router_Static_Route",
            f"{self._router.uuid}:{destination}:{nexthop}",
            "static_routes",
            ip_prefix=destination,
            nexthop=nexthop,
            output_port=frozenset({output_port} if output_port else ()),
        )

    def _add_child(self, table: str, key: str, column: str, **columns: str | frozenset[str]) -> None:
        row = self._builder.add(table, key, name=self._router.name, revision=self._router.revision, **columns)
        self._builder.refer(self._row, column, row)

    def _interface_options(self, port: PortSpec) -> Mapping[str, str]:
        """Return options that route a physical network's traffic at the gateway, so switches see one MAC address."""
        is_physical = bool(self._networks[port.network].physical_network)
        return {"reside-on-redirect-chassis": "true"} if is_physical and self._gateway is not None else {}

    def _advertised(self, port: PortSpec) -> Mapping[str, str]:
        """Return what the router advertises to IPv6 guests; {} for nothing."""
        subnets = [subnet for subnet in self._subnets_of(port) if subnet.ipv6_mode in _ADDRESS_MODES]
        if not subnets:
            return {}
        servers = [server for subnet in subnets for server in subnet.dns_nameservers if ":" in server]
        return {
            "address_mode": _ADDRESS_MODES[subnets[0].ipv6_mode],
            "send_periodic": "true",
            "mtu": str(self._networks[port.network].mtu),
            **({"rdnss": servers[0]} if servers else {}),
        }

    def _subnets_of(self, port: PortSpec) -> list[SubnetSpec]:
        return [self._subnets[held.subnet] for held in port.addresses]
