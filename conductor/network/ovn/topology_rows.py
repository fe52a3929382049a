"""Reads the topology of the cloud from the tables of the network API, in a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet

from conductor.core.port_filters import AddressPair, FilterRule
from conductor.network import dns_names, ipv6_modes, provider_networks
from conductor.network.models import (
    AddressAllocation,
    FloatingIp,
    LoadBalancer,
    Network,
    Port,
    QosPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from conductor.network.ovn import balancer_rows
from conductor.network.ovn.port_states import PluggedPort
from conductor.network.ovn.topology import (
    BandwidthLimit,
    CloudTopology,
    DhcpOption,
    FixedAddress,
    FloatingIpSpec,
    GatewayHost,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SubnetSpec,
)
from conductor.network.ranges import normalized, normalized_range
from conductor.network.statements import table_states

# More rows than these are read all together.
_AT_ONCE = 500
# Key of a policy → its limits
Limits = Mapping[int | None, Sequence[BandwidthLimit]]
TableState = tuple[object, ...]
TableStates = Mapping[str, TableState]
# Of ports only these columns are read: there are many.
_PORT_COLUMNS = (
    "pk", "uuid", "network_id", "name", "revision_number", "project_id", "mac_address", "dns_name", "guest_hostname",
    "status", "is_admin_up", "is_plugged", "is_port_security_enabled", "device_owner", "device_id", "binding_host",
    "migrating_to", "address_pairs", "dhcp_options", "qos_policy_id",
)  # fmt: skip


def read(gateway_hosts: Sequence[GatewayHost] = ()) -> CloudTopology:
    """Return all networks, as a new reader does."""
    return TopologyReader().read(gateway_hosts)


class _ReadPort(NamedTuple):
    """A port with what it was made from, of which the first one is its row."""

    inputs: tuple[Any, ...]
    spec: PortSpec

    @property
    def row(self) -> Any:
        return self.inputs[0]


class TopologyReader:
    """Reads the topology again and again. Networks and ports that are as before are the same objects as before."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[TableState, list[Any]]] = {}
        self._networks: dict[str, NetworkSpec] = {}
        self._ports: dict[int, _ReadPort] = {}

    def read(self, gateway_hosts: Sequence[GatewayHost] = (), states: TableStates | None = None) -> CloudTopology:
        """Return all networks. A row is left out if a row that it needs was written after the query for that one.

        Args:
            states: The fingerprint before. Tables that are as at the last call are not read again, and of ports only
                those with another revision. Without it everything is read.
        """
        states = states or {}
        limits = _limits(self._all(QosPolicy.objects.prefetch_related("limits"), states))
        networks = {row.pk: self._network(row, limits) for row in self._all(Network.objects.all(), states)}
        self._networks = {network.uuid: network for network in networks.values()}
        subnets = {
            row.pk: _subnet(row, networks[row.network_id])
            for row in self._all(Subnet.objects.all(), states)
            if row.network_id in networks
        }
        groups = {row.pk: row for row in self._all(SecurityGroup.objects.all(), states)}
        self._read_ports(networks, subnets, {pk: str(group.uuid) for pk, group in groups.items()}, limits, states)
        ports = {pk: port.spec for pk, port in self._ports.items()}
        routers = {row.pk: _router(row, ports) for row in self._all(Router.objects.all(), states)}
        rules = self._all(SecurityGroupRule.objects.select_related("remote_group"), states)
        return CloudTopology(
            networks=tuple(networks.values()),
            subnets=tuple(subnets.values()),
            ports=tuple(ports.values()),
            security_groups=_security_groups(groups, rules),
            routers=tuple(routers.values()),
            floating_ips=tuple(
                FloatingIpSpec(
                    uuid=str(row.uuid),
                    router=routers[row.router_id].uuid,
                    address=row.address,
                    fixed_ip_address=row.fixed_ip_address or "",
                    revision=row.revision_number,
                )
                for row in self._all(FloatingIp.objects.filter(port__isnull=False), states)
                if row.router_id in routers
            ),
            gateway_hosts=tuple(gateway_hosts),
            load_balancers=balancer_rows.read(ports) if self._all(LoadBalancer.objects.all(), states) else (),
        )

    def plugged_ports(self) -> Iterator[PluggedPort]:
        """Return the ports that a guest had on a host when they were read, without those whose guests move."""
        for pk, port in self._ports.items():
            if port.row.is_plugged and port.spec.host and not port.spec.destination:
                yield PluggedPort(pk, port.spec.uuid, port.spec.host, port.row.status)

    def _network(self, row: Network, limits: Limits) -> NetworkSpec:
        read = _network(row, limits)
        before = self._networks.get(read.uuid)
        return before if before == read else read

    def _all(self, query: QuerySet[Any, Any], states: TableStates) -> list[Any]:
        """Return the rows of a query, in order. It is made again only where the state of its table differs."""
        table = query.model._meta.db_table
        known = self._tables.get(table)
        if known is None or table not in states or states[table] != known[0]:
            self._tables[table] = known = states.get(table, ()), list(_rows(query))
        return known[1]

    def _read_ports(
        self,
        networks: Mapping[int, NetworkSpec],
        subnets: Mapping[int, SubnetSpec],
        group_ids: Mapping[int, str],
        limits: Limits,
        states: TableStates,
    ) -> None:
        addresses: defaultdict[int, list[FixedAddress]] = defaultdict(list)
        held = AddressAllocation.objects.values_list("port_id", "subnet_id", "ip_address")
        for port_id, subnet_id, address in self._all(held, states):
            if subnet_id in subnets:
                addresses[port_id].append(FixedAddress(subnets[subnet_id].uuid, address))
        groups: defaultdict[int, list[str]] = defaultdict(list)
        memberships = Port.security_groups.through.objects.values_list("port_id", "securitygroup_id")
        for port_id, group_id in self._all(memberships, states):
            if group_id in group_ids:
                groups[port_id].append(group_ids[group_id])
        before, self._ports = self._ports, {}
        for row in self._port_rows(before, states):
            if row.network_id in networks:
                network, policy = networks[row.network_id], limits.get(row.qos_policy_id)
                inputs = (row, network, addresses[row.pk], groups[row.pk], policy)
                known = before.get(row.pk)
                self._ports[row.pk] = known if known and known.inputs == inputs else _ReadPort(inputs, _port(*inputs))

    def _port_rows(self, known: Mapping[int, _ReadPort], states: TableStates) -> Iterable[Any]:
        """Return the rows of all ports, in order. Of known ones only those with another revision are read again."""
        columns = Port.objects.values_list(*_PORT_COLUMNS, named=True)
        if not states:
            return _rows(columns)
        revisions = dict(self._all(Port.objects.values_list("pk", "revision_number"), states))
        rows = {pk: port.row for pk, port in known.items() if revisions.get(pk) == port.row.revision_number}
        missing = revisions.keys() - rows.keys()
        if len(missing) > _AT_ONCE:
            return _rows(columns)
        rows |= {row.pk: row for row in _rows(columns.filter(pk__in=missing))} if missing else {}
        return [rows[pk] for pk in sorted(rows)]


def fingerprint() -> TableStates:
    """Return a value that differs after every committed change of the topology, by table. One statement reads it."""
    revised = (Network, Subnet, SecurityGroup, SecurityGroupRule, Port, Router, FloatingIp, QosPolicy, LoadBalancer)
    others = (AddressAllocation, Port.security_groups.through)
    tables = ([model._meta.db_table for model in models] for models in (revised, others))
    return table_states(connections[DEFAULT_DB_ALIAS], *tables)


def _rows(query: QuerySet[Any]) -> Iterable[Any]:
    return query.order_by("pk").iterator(chunk_size=2000)


def _network(row: Network, limits: Limits) -> NetworkSpec:
    is_physical = provider_networks.is_physical(row)
    return NetworkSpec(
        uuid=str(row.uuid),
        name=row.name,
        revision=row.revision_number,
        project=row.project_id,
        mtu=row.mtu,
        is_admin_up=row.is_admin_up,
        is_external=row.is_external,
        physical_network=row.physical_network if is_physical else "",
        segmentation_id=row.segmentation_id if is_physical else None,
        dns_domain=dns_names.domain_of(row),
        limits=tuple(limits.get(row.qos_policy_id, ())),
    )


def _subnet(row: Subnet, network: NetworkSpec) -> SubnetSpec:
    return SubnetSpec(
        uuid=str(row.uuid),
        network=network.uuid,
        cidr=row.cidr,
        name=row.name,
        revision=row.revision_number,
        gateway_ip=row.gateway_ip or "",
        is_dhcp_enabled=row.is_dhcp_enabled,
        dns_nameservers=tuple(row.dns_nameservers),
        host_routes=tuple((route["destination"], route["nexthop"]) for route in row.host_routes),
        ipv6_mode=ipv6_modes.of(row),
    )


def _limits(policies: Iterable[QosPolicy]) -> Limits:
    return {
        policy.pk: [
            BandwidthLimit(row.direction, row.max_kbps, row.max_burst_kbps)
            for row in sorted(policy.limits.all(), key=lambda row: row.pk)
        ]
        for policy in policies
    }


def _port(
    row: Any,
    network: NetworkSpec,
    addresses: Sequence[FixedAddress],
    groups: Sequence[str],
    limits: Sequence[BandwidthLimit] | None,
) -> PortSpec:
    return PortSpec(
        uuid=str(row.uuid),
        network=network.uuid,
        mac_address=row.mac_address,
        name=row.name,
        revision=row.revision_number,
        project=row.project_id,
        dns_name=dns_names.name_of(row),
        is_admin_up=row.is_admin_up,
        is_port_security_enabled=row.is_port_security_enabled,
        device_owner=row.device_owner,
        device_id=row.device_id,
        host=row.binding_host,
        destination=row.migrating_to,
        addresses=tuple(addresses),
        pairs=tuple(
            AddressPair(normalized(pair["ip_address"]), pair.get("mac_address", "")) for pair in row.address_pairs or ()
        ),
        dhcp_options=tuple(
            DhcpOption(option["opt_name"], option["opt_value"], int(option.get("ip_version", 4)))
            for option in row.dhcp_options or ()
        ),
        groups=tuple(groups),
        limits=tuple(limits or ()) if row.qos_policy_id else network.limits,
    )


def _security_groups(
    groups: Mapping[int, SecurityGroup], rules_of_all: Iterable[SecurityGroupRule]
) -> tuple[SecurityGroupSpec, ...]:
    rules: defaultdict[int, list[SecurityGroupRule]] = defaultdict(list)
    for rule in rules_of_all:
        rules[rule.group_id].append(rule)
    return tuple(
        SecurityGroupSpec(
            uuid=str(group.uuid),
            name=group.name,
            revision=group.revision_number,
            is_stateful=group.is_stateful,
            rules={str(rule.uuid): _rule(rule) for rule in rules[pk]},
        )
        for pk, group in groups.items()
    )


def _rule(row: SecurityGroupRule) -> FilterRule:
    return FilterRule(
        direction=row.direction,
        ethertype=row.ethertype,
        protocol=row.protocol or "",
        low=row.port_range_min,
        high=row.port_range_max,
        remote_prefix=normalized_range(row.remote_ip_prefix) if row.remote_ip_prefix else "",
        remote_group=str(row.remote_group.uuid) if row.remote_group else "",
    )


def _router(row: Router, ports: Mapping[int, PortSpec]) -> RouterSpec:
    gateway = ports.get(row.gateway_port_id or 0)
    return RouterSpec(
        uuid=str(row.uuid),
        name=row.name,
        revision=row.revision_number,
        is_admin_up=row.is_admin_up,
        is_snat_enabled=row.is_snat_enabled,
        gateway_port=gateway.uuid if gateway else "",
        routes=tuple((route["destination"], route["nexthop"]) for route in row.routes),
    )
