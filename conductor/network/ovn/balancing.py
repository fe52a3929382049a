"""Load balancers of OVN.

OVN translates a connection at the client's own switch, before it is routed. Each address (VIP) belongs to a router of
its own, so that clients on the network of the address reach it too: that router answers ARP for the address, and
routes the translated packets to the member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from conductor.network.device_owners import BALANCER_MONITOR, BALANCER_VIP, ROUTER_INTERFACE
from conductor.network.ovn.balancer_specs import ListenerSpec, LoadBalancerSpec, MemberSpec, PoolSpec
from conductor.network.ovn.northbound import NorthboundBuilder, RowKey
from conductor.network.ovn.routing import EVERYWHERE, router_name, router_port_name
from conductor.network.ovn.topology import CloudTopology, PortSpec, SubnetSpec

# Ports of load balancers that are on no switch as a guest's port: OVN answers for their addresses.
OWNERS = (BALANCER_VIP, BALANCER_MONITOR)
# Only the router of the address answers ARP for it. When no member answers, connections are refused.
_OPTIONS = {"neighbor_responder": "none", "reject": "true"}
_FIELDS = frozenset({"ip_src", "ip_dst", "tp_src", "tp_dst"})


@dataclass(frozen=True, slots=True, order=True)
class CheckedMember:
    """An endpoint that OVN checks for a member, as its southbound database names it."""

    port: str
    address: str
    protocol: str
    protocol_port: int


def add_load_balancers(builder: NorthboundBuilder, topology: CloudTopology, switch_of: Mapping[str, RowKey]) -> None:
    """Add all load balancers.

    Args:
        switch_of: The switches of networks, by the network's id.
    """
    if not topology.load_balancers:
        return
    places = _Places(topology)
    for balancer in topology.load_balancers:
        vip = places.ports.get(balancer.vip_port)
        if vip is not None and any(held.ip_address == balancer.vip_address for held in vip.addresses):
            _BalancerRows(builder, places, balancer, vip).add(switch_of)


def checked_members(topology: CloudTopology) -> dict[str, CheckedMember]:
    """Return the endpoint that OVN checks for each checked member, by the member's id."""
    if not topology.load_balancers:
        return {}
    places = _Places(topology)
    return {
        member.uuid: CheckedMember(port, member.address, listener.protocol, member.port)
        for balancer in topology.load_balancers
        for listener, pool in _served(balancer)
        for member in _used(pool)
        if pool.check is not None and (port := places.monitored_port(balancer, member))
    }


class _Places:
    """Indexes of the ports and subnets of a topology, for load balancers."""

    def __init__(self, topology: CloudTopology) -> None:
        self.subnets: Mapping[str, SubnetSpec] = {subnet.uuid: subnet for subnet in topology.subnets}
        self.ports = {port.uuid: port for port in topology.ports}
        self.floating_ips = topology.floating_ips
        self._owners = {network.uuid: network.project for network in topology.networks}
        routers = {router.uuid for router in topology.routers}
        self._guests: dict[tuple[str, str], str] = {}  # subnet and address → port
        self._routers: defaultdict[str, set[str]] = defaultdict(set)  # by network
        self._networks: defaultdict[str, set[str]] = defaultdict(set)  # by router
        for port in topology.ports:
            if port.device_owner == ROUTER_INTERFACE and port.device_id in routers and port.addresses:
                self._routers[port.network].add(port.device_id)
                self._networks[port.device_id].add(port.network)
            elif port.device_owner not in OWNERS:
                self._guests.update({(held.subnet, held.ip_address): port.uuid for held in port.addresses})

    def routers_at(self, network: str) -> list[str]:
        return sorted(self._routers[network])

    def networks_around(self, network: str, project: str) -> list[str]:
        """Return a network and those of the project that a router connects with it."""
        near = {other for router in self._routers[network] for other in self._networks[router]}
        return sorted({network, *(other for other in near if self._owners.get(other) == project)})

    def monitored_port(self, balancer: LoadBalancerSpec, member: MemberSpec) -> str:
        """Return the port that has a member's address; "" if OVN cannot check it."""
        is_checked = member.subnet in balancer.monitor_addresses
        return self._guests.get((member.subnet, member.address), "") if is_checked else ""


class _BalancerRows:
    """The rows of one load balancer."""

    def __init__(self, builder: NorthboundBuilder, places: _Places, balancer: LoadBalancerSpec, vip: PortSpec) -> None:
        self._builder = builder
        self._places = places
        self._balancer = balancer
        self._vip = vip
        routers = places.routers_at(vip.network)
        leading = [floating.address for floating in places.floating_ips
                   if floating.router in routers and floating.fixed_ip_address == balancer.vip_address]  # fmt: skip
        self._addresses = (balancer.vip_address, *sorted(leading))
        self._attached_routers = routers

    def add(self, switch_of: Mapping[str, RowKey]) -> None:
        self._add_router(switch_of[self._vip.network])
        if not self._balancer.is_admin_up:
            return
        networks = self._places.networks_around(self._vip.network, self._balancer.project)
        users = [switch_of[network] for network in networks]
        users += [RowKey("Logical_Router", router_name(router)) for router in self._attached_routers]
        served: defaultdict[str, list[tuple[ListenerSpec, PoolSpec]]] = defaultdict(list)
        for listener, pool in _served(self._balancer):
            served[listener.protocol].append((listener, pool))
        for protocol, pairs in served.items():
            row = self._add_balancer(protocol, pairs)
            for user in users:
                self._builder.refer(user, "load_balancer", row)

    def _add_balancer(self, protocol: str, served: Iterable[tuple[ListenerSpec, PoolSpec]]) -> RowKey:
        name = f"{router_name(self._balancer.uuid)}-{protocol}"
        vips: dict[str, str] = {}
        mappings: dict[str, str] = {}
        checks: list[RowKey] = []
        for listener, pool in served:
            members = [_endpoint(member.address, member.port) for member in _used(pool)]
            mapped = dict(self._mappings(pool)) if pool.check else {}
            mappings |= mapped
            for address in self._addresses:
                vips[_endpoint(address, listener.port)] = ",".join(sorted(members))
                if mapped:
                    checks.append(self._add_check(listener, pool, address))
        row = self._add(
            "Load_Balancer", name, vips=vips, protocol=frozenset({protocol}), options=_OPTIONS,
            selection_fields=_FIELDS, ip_port_mappings=mappings,
        )  # fmt: skip
        for check in checks:
            self._builder.refer(row, "health_check", check)
        return row

    def _add_check(self, listener: ListenerSpec, pool: PoolSpec, address: str) -> RowKey:
        assert pool.check is not None
        options = {
            "interval": str(pool.check.delay),
            "timeout": str(pool.check.timeout),
            "success_count": str(pool.check.successes),
            "failure_count": str(pool.check.failures),
        }
        key = f"{listener.uuid}:{address}"
        return self._add("Load_Balancer_Health_Check", key, vip=_endpoint(address, listener.port), options=options)

    def _mappings(self, pool: PoolSpec) -> Iterator[tuple[str, str]]:
        for member in _used(pool):
            port = self._places.monitored_port(self._balancer, member)
            if port:
                source = _bracketed(self._balancer.monitor_addresses[member.subnet])
                yield _bracketed(member.address), f"{port}:{source}"

    def _add_router(self, switch: RowKey) -> None:
        """Add the router that has the address, with its port on the switch."""
        router = self._add("Logical_Router", router_name(self._balancer.uuid), enabled=frozenset({True}))
        subnets = [(held.ip_address, self._places.subnets[held.subnet]) for held in self._vip.addresses]
        inner = self._add(
            "Logical_Router_Port",
            router_port_name(self._vip.uuid),
            mac=self._vip.mac_address,
            networks=frozenset(f"{address}/{subnet.cidr.rpartition('/')[2]}" for address, subnet in subnets),
        )
        self._builder.refer(router, "ports", inner)
        outer = self._add(
            "Logical_Switch_Port",
            self._vip.uuid,
            type="router",
            addresses=frozenset({"router"}),
            options={"router-port": router_port_name(self._vip.uuid)},
            enabled=frozenset({self._balancer.is_admin_up and self._vip.is_admin_up}),
        )
        self._builder.refer(switch, "ports", outer)
        for _, subnet in subnets:
            if subnet.gateway_ip:
                everywhere = EVERYWHERE[6 if ":" in subnet.cidr else 4]
                route = self._add(
                    "Logical_Router_Static_Route",
                    f"{self._balancer.uuid}:{everywhere}",
                    ip_prefix=everywhere,
                    nexthop=subnet.gateway_ip,
                )
                self._builder.refer(router, "static_routes", route)

    def _add(self, table: str, key: str, **columns: object) -> RowKey:
        name, revision = self._balancer.name, self._balancer.revision
        return self._builder.add(table, key, name=name, revision=revision, **columns)  # type: ignore[arg-type]


def _served(balancer: LoadBalancerSpec) -> Iterator[tuple[ListenerSpec, PoolSpec]]:
    """Yield each enabled listener with its pool; one without a pool has an empty one."""
    pools = {pool.uuid: pool for pool in balancer.pools}
    for listener in balancer.listeners:
        if listener.is_admin_up:
            yield listener, pools.get(listener.pool, PoolSpec(""))


def _used(pool: PoolSpec) -> list[MemberSpec]:
    return [member for member in pool.members if member.is_admin_up and pool.is_admin_up]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _endpoint(address: str, port: int) -> str:
    return f"{_bracketed(address)}:{port}"
