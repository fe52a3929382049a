"""Reads the topology of the cloud from the tables of the network API, in a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Count, Max, Model, QuerySet, Sum, Value

from conductor.core.port_filters import AddressPair, FilterRule
from conductor.network import dns_names, ipv6_modes, provider_networks
from conductor.network.models import (
    AddressAllocation,
    FloatingIp,
    LoadBalancer,
    Network,
    Port,
    QosBandwidthLimit,
    QosPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from conductor.network.ovn import balancer_rows
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

# Key of a policy → its limits
Limits = Mapping[int | None, Sequence[BandwidthLimit]]


def read(gateway_hosts: Sequence[GatewayHost] = ()) -> CloudTopology:
    """Return all networks. A row is left out if a row that it needs was written after the query for that one."""
    limits = _limits()
    networks = {row.pk: _network(row, limits) for row in _rows(Network.objects.all())}
    subnets = {
        row.pk: _subnet(row, networks[row.network_id])
        for row in _rows(Subnet.objects.all())
        if row.network_id in networks
    }
    groups = {row.pk: row for row in _rows(SecurityGroup.objects.all())}
    ports = _ports(networks, subnets, {pk: str(group.uuid) for pk, group in groups.items()}, limits)
    routers = {row.pk: _router(row, ports) for row in _rows(Router.objects.all())}
    return CloudTopology(
        networks=tuple(networks.values()),
        subnets=tuple(subnets.values()),
        ports=tuple(ports.values()),
        security_groups=_security_groups(groups),
        routers=tuple(routers.values()),
        floating_ips=tuple(
            FloatingIpSpec(
                uuid=str(row.uuid),
                router=routers[row.router_id].uuid,
                address=row.address,
                fixed_ip_address=row.fixed_ip_address or "",
                revision=row.revision_number,
            )
            for row in _rows(FloatingIp.objects.filter(port__isnull=False))
            if row.router_id in routers
        ),
        gateway_hosts=tuple(gateway_hosts),
        load_balancers=balancer_rows.read(ports),
    )


def fingerprint() -> tuple[object, ...]:
    """Return a value that differs after every committed change of the topology. One statement reads it."""
    revised = (Network, Subnet, SecurityGroup, SecurityGroupRule, Port, Router, FloatingIp, QosPolicy, LoadBalancer)
    states = [
        *(_state(model, Sum("revision_number")) for model in revised),
        *(_state(model, Value(0)) for model in (AddressAllocation, Port.security_groups.through)),
    ]
    return tuple(sorted(states[0].union(*states[1:], all=True)))


def _state(model: type[Model], revisions: Sum | Value) -> QuerySet[Any, Any]:
    """Return a query of a table's name, and of what changes with its rows."""
    table = model._default_manager.order_by().annotate(table=Value(model._meta.db_table)).values("table")
    found: QuerySet[Any, Any] = table.annotate(rows=Count("pk"), last=Max("pk"), revisions=revisions)
    return found.values_list("table", "rows", "last", "revisions")


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


def _ports(
    networks: dict[int, NetworkSpec],
    subnets: dict[int, SubnetSpec],
    group_ids: dict[int, str],
    limits: Limits,
) -> dict[int, PortSpec]:
    addresses: defaultdict[int, list[FixedAddress]] = defaultdict(list)
    held = AddressAllocation.objects.order_by("pk").values_list("port_id", "subnet_id", "ip_address")
    for port_id, subnet_id, address in held.iterator(chunk_size=2000):
        if subnet_id in subnets:
            addresses[port_id].append(FixedAddress(subnets[subnet_id].uuid, address))
    groups: defaultdict[int, list[str]] = defaultdict(list)
    memberships = Port.security_groups.through.objects.order_by("pk").values_list("port_id", "securitygroup_id")
    for port_id, group_id in memberships.iterator(chunk_size=2000):
        if group_id in group_ids:
            groups[port_id].append(group_ids[group_id])
    return {
        row.pk: _port(row, networks[row.network_id], addresses[row.pk], groups[row.pk], limits)
        for row in _rows(Port.objects.all())
        if row.network_id in networks
    }


def _limits() -> Limits:
    limits: defaultdict[int | None, list[BandwidthLimit]] = defaultdict(list)
    for row in _rows(QosBandwidthLimit.objects.all()):
        limits[row.policy_id].append(BandwidthLimit(row.direction, row.max_kbps, row.max_burst_kbps))
    return limits


def _port(
    row: Port, network: NetworkSpec, addresses: list[FixedAddress], groups: list[str], limits: Limits
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
        limits=tuple(limits.get(row.qos_policy_id, ())) if row.qos_policy_id else network.limits,
    )


def _security_groups(groups: dict[int, SecurityGroup]) -> tuple[SecurityGroupSpec, ...]:
    rules: defaultdict[int, list[SecurityGroupRule]] = defaultdict(list)
    for rule in _rows(SecurityGroupRule.objects.select_related("remote_group")):
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


def _router(row: Router, ports: dict[int, PortSpec]) -> RouterSpec:
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
