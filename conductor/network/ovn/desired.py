"""The rows that OVN's northbound database should have for the networks of the cloud."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from conductor.core.ovn_names import METADATA_MAC, metadata_port_name
from conductor.network.device_owners import FLOATING_IP, ROUTER_GATEWAY, ROUTER_INTERFACE
from conductor.network.ovn import acls, dhcp, names
from conductor.network.ovn.balancing import OWNERS as BALANCER_OWNERS
from conductor.network.ovn.balancing import add_load_balancers
from conductor.network.ovn.northbound import Northbound, NorthboundBuilder, RowKey, Value
from conductor.network.ovn.routing import add_routers, router_port_name
from conductor.network.ovn.topology import CloudTopology, NetworkSpec, PortSpec, SubnetSpec

# The group of all ports with port security. It drops the traffic that no rule allows.
DEFAULT_GROUP = "pg_novella_drop"
# The chassis of a port without a host. No host has this name, so none claims the port.
NO_HOST = "-"
PRIORITY_LIMIT = 1000


def desired(topology: CloudTopology) -> Northbound:
    """Return all rows of the projection. Equal topologies have equal rows."""
    return DesiredRows().of(topology)


class DesiredRows:
    """The rows of one topology after another: those of a network and its ports are made only where it differs."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[CloudTopology, NorthboundBuilder]] = {}

    def of(self, topology: CloudTopology) -> Northbound:
        """Return the same as `desired`. Ports that are the same objects as before are compared fast."""
        before, self._made = self._made, {}
        builder = NorthboundBuilder()
        for network, part in _by_network(topology).items():
            known = before.get(network)
            self._made[network] = made = known if known and known[0] == part else (part, _rows_of_network(part))
            builder.include(made[1])
        _add_security_groups(builder, topology)
        add_routers(builder, topology)
        switch_of = {network: RowKey("Logical_Switch", switch_name(network)) for network in self._made}
        add_load_balancers(builder, topology, switch_of)
        return builder.build()


def _by_network(topology: CloudTopology) -> Mapping[str, CloudTopology]:
    """Return each network with its subnets and ports, and the routers that have ports there, by the network's id."""
    routers = {router.uuid: router for router in topology.routers}
    subnets: dict[str, list[SubnetSpec]] = {network.uuid: [] for network in topology.networks}
    ports: dict[str, list[PortSpec]] = {network.uuid: [] for network in topology.networks}
    connected: dict[str, set[str]] = {network.uuid: set() for network in topology.networks}
    for subnet in topology.subnets:
        subnets[subnet.network].append(subnet)
    for port in topology.ports:
        ports[port.network].append(port)
        if port.device_id in routers:
            connected[port.network].add(port.device_id)
    return {
        network.uuid: CloudTopology(
            networks=(network,),
            subnets=tuple(subnets[network.uuid]),
            ports=tuple(ports[network.uuid]),
            routers=tuple(routers[router] for router in sorted(connected[network.uuid])),
        )
        for network in topology.networks
    }


def _rows_of_network(part: CloudTopology) -> NorthboundBuilder:
    builder = NorthboundBuilder()
    switches = _Switches(builder, part)
    switches.add_networks()
    switches.add_ports()
    switches.add_names()
    return builder


def switch_name(network_uuid: str) -> str:
    return f"novella-{network_uuid}"


def localnet_name(network_uuid: str) -> str:
    """Return the name of the port that connects a network with its physical network."""
    return f"physical-{network_uuid}"


class _Switches:
    """Switches, their ports and the DHCP options of these."""

    def __init__(self, builder: NorthboundBuilder, topology: CloudTopology) -> None:
        self._builder = builder
        self._topology = topology
        self._networks = {network.uuid: network for network in topology.networks}
        self._subnets = {subnet.uuid: subnet for subnet in topology.subnets}
        self._dhcp: dict[str, Mapping[str, str]] = {}  # of subnets, by id

    def add_networks(self) -> None:
        for network in self._topology.networks:
            self._builder.add("Logical_Switch", switch_name(network.uuid), name=network.name, revision=network.revision)
            if network.physical_network:
                self._add_localnet(network)
            if not network.is_external:
                self._add_metadata_port(network)
        for subnet in self._topology.subnets:
            options = dhcp.options_of(self._networks[subnet.network], subnet)
            if options is not None:
                self._dhcp[subnet.uuid] = options
                self._builder.add(
                    "DHCP_Options", subnet.uuid, name=subnet.name, revision=subnet.revision, cidr=subnet.cidr,
                    options=options,
                )  # fmt: skip

    def add_ports(self) -> None:
        routers = {router.uuid for router in self._topology.routers}
        for port in self._topology.ports:
            if port.device_owner in (FLOATING_IP, *BALANCER_OWNERS):
                continue  # it has no place on a switch as a guest: its address is a router's
            if port.device_owner in (ROUTER_INTERFACE, ROUTER_GATEWAY):
                if port.device_id in routers and port.addresses:
                    self._add_router_port(port)
            else:
                self._add_guest_port(port)

    def add_names(self) -> None:
        for network_uuid, records in names.records_by_network(self._topology).items():
            network = self._networks[network_uuid]
            row = self._builder.add(
                "DNS", network_uuid, name=network.name, revision=network.revision, records=records
            )  # fmt: skip
            self._builder.refer(RowKey("Logical_Switch", switch_name(network_uuid)), "dns_records", row)

    def _add_guest_port(self, port: PortSpec) -> None:
        addresses = " ".join((port.mac_address, *(held.ip_address for held in port.addresses)))
        is_secure = port.is_port_security_enabled
        row = self._add_port(
            port.network,
            port.uuid,
            port,
            type="",
            addresses=frozenset({addresses} if is_secure else {addresses, "unknown"}),
            port_security=_port_security(port) if is_secure else frozenset(),
            options=_binding(port),
            enabled=frozenset({port.is_admin_up and self._networks[port.network].is_admin_up}),
            dhcpv4_options=self._dhcp_of(port, 4),
            dhcpv6_options=self._dhcp_of(port, 6),
        )
        self._add_limits(port)
        if is_secure:
            for group in (DEFAULT_GROUP, *map(acls.group_name, port.groups)):
                self._builder.refer(RowKey("Port_Group", group), "ports", row)

    def _add_limits(self, port: PortSpec) -> None:
        for limit in port.limits:
            direction, field, _ = acls.DIRECTIONS[limit.direction]
            row = self._builder.add(
                "QoS", f"{port.uuid}:{limit.direction}", direction=direction, priority=PRIORITY_LIMIT,
                match=f'{field} == "{port.uuid}"',
                bandwidth={"rate": limit.kbps} | ({"burst": limit.burst_kbps} if limit.burst_kbps else {}),
            )  # fmt: skip
            self._builder.refer(RowKey("Logical_Switch", switch_name(port.network)), "qos_rules", row)

    def _add_router_port(self, port: PortSpec) -> None:
        is_gateway = port.device_owner == ROUTER_GATEWAY
        options = {"router-port": router_port_name(port.uuid)}
        self._add_port(
            port.network,
            port.uuid,
            port,
            type="router",
            addresses=frozenset({"router"}),
            # The gateway host announces the addresses of the router and of its floating IPs.
            options=options | ({"nat-addresses": "router"} if is_gateway else {}),
            enabled=frozenset({self._networks[port.network].is_admin_up}),
        )

    def _add_localnet(self, network: NetworkSpec) -> None:
        tag = network.segmentation_id
        self._add_port(
            network.uuid,
            localnet_name(network.uuid),
            network,
            type="localnet",
            addresses=frozenset({"unknown"}),
            options={"network_name": network.physical_network},
            tag=frozenset() if tag is None else frozenset({tag}),
        )

    def _add_metadata_port(self, network: NetworkSpec) -> None:
        self._add_port(
            network.uuid,
            metadata_port_name(network.uuid),
            network,
            type="localport",
            addresses=frozenset({f"{METADATA_MAC} {acls.METADATA} {acls.METADATA_IPV6}"}),
        )

    def _add_port(self, network_uuid: str, key: str, spec: PortSpec | NetworkSpec, **columns: Value) -> RowKey:
        row = self._builder.add("Logical_Switch_Port", key, name=spec.name, revision=spec.revision, **columns)
        self._builder.refer(RowKey("Logical_Switch", switch_name(network_uuid)), "ports", row)
        return row

    def _dhcp_of(self, port: PortSpec, ip_version: int) -> frozenset[RowKey]:
        """Return the options of the port's first subnet of this version that has DHCP."""
        subnet = next((found for found in self._subnets_of(port, ip_version) if found.uuid in self._dhcp), None)
        if subnet is None:
            return frozenset()
        if not dhcp.has_own(port.dhcp_options, ip_version):
            return frozenset({RowKey("DHCP_Options", subnet.uuid)})
        options = dhcp.with_own(self._dhcp[subnet.uuid], port.dhcp_options, ip_version)
        own = self._builder.add(
            "DHCP_Options", f"{subnet.uuid}:{port.uuid}", name=port.name, revision=port.revision, cidr=subnet.cidr,
            options=options,
        )  # fmt: skip
        return frozenset({own})

    def _subnets_of(self, port: PortSpec, ip_version: int) -> list[SubnetSpec]:
        held = (self._subnets[held.subnet] for held in port.addresses)
        return [subnet for subnet in held if (":" in subnet.cidr) == (ip_version == 6)]


def _binding(port: PortSpec) -> Mapping[str, str]:
    """Return which hosts may claim the port.

    Both hosts may while its guest moves. The destination passes no packet of the port before the guest has announced
    itself there: QEMU sends RARP requests when it starts an arrived guest.
    """
    if port.host and port.destination:
        return {"requested-chassis": f"{port.host},{port.destination}", "activation-strategy": "rarp"}
    return {"requested-chassis": port.host or NO_HOST}


def _port_security(port: PortSpec) -> frozenset[str]:
    """Return the addresses that the port may send from, its own and its allowed pairs, by MAC address."""
    allowed = defaultdict(list, {port.mac_address: [held.ip_address for held in port.addresses]})
    for pair in port.pairs:
        of_mac = allowed[pair.mac_address or port.mac_address]
        if pair.ip_address not in of_mac:
            of_mac.append(pair.ip_address)
    return frozenset(" ".join((mac, *addresses)) for mac, addresses in allowed.items())


def _add_security_groups(builder: NorthboundBuilder, topology: CloudTopology) -> None:
    default = builder.add("Port_Group", DEFAULT_GROUP, name="default deny")
    for key, entry in acls.default_acls(DEFAULT_GROUP).items():
        _add_acl(builder, default, f"{DEFAULT_GROUP}:{key}", entry)
    for group in topology.security_groups:
        row = builder.add("Port_Group", acls.group_name(group.uuid), name=group.name, revision=group.revision)
        for rule_uuid, rule in (group.rules or {}).items():
            compiled = acls.rule_acl(group.uuid, rule, is_stateful=group.is_stateful)
            if compiled is not None:
                _add_acl(builder, row, rule_uuid, compiled)


def _add_acl(builder: NorthboundBuilder, group: RowKey, key: str, entry: acls.Acl) -> None:
    row = builder.add(
        "ACL", key, direction=entry.direction, priority=entry.priority, match=entry.match, action=entry.action
    )
    builder.refer(group, "acls", row)
