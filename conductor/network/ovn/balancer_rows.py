"""Reads load balancers for the projection from the tables of the network API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from conductor.network.models import (
    BalancerListener,
    BalancerPool,
    HealthMonitor,
    LoadBalancer,
    MonitorPort,
    PoolMember,
)
from conductor.network.ovn.balancer_specs import CheckSpec, ListenerSpec, LoadBalancerSpec, MemberSpec, PoolSpec
from conductor.network.ovn.topology import PortSpec


def read(ports: Mapping[int, PortSpec]) -> tuple[LoadBalancerSpec, ...]:
    """Return all load balancers whose port is in `ports`, in a constant number of queries.

    Args:
        ports: Ports by primary key.
    """
    balancers = list(LoadBalancer.objects.order_by("pk"))
    if not balancers:
        return ()
    pools = _pools()
    listeners = _grouped(
        (
            row.balancer_id,
            ListenerSpec(
                uuid=str(row.uuid),
                protocol=row.protocol.lower(),
                port=row.protocol_port,
                pool=str(row.default_pool.uuid) if row.default_pool else "",
                is_admin_up=row.is_admin_up,
            ),
        )
        for row in BalancerListener.objects.select_related("default_pool").order_by("pk")
    )
    monitoring = _grouped(
        (row.balancer_id, (str(row.subnet_uuid), ports[row.port_id].addresses[0].ip_address))
        for row in MonitorPort.objects.order_by("pk")
        if row.port_id in ports and ports[row.port_id].addresses
    )
    return tuple(
        LoadBalancerSpec(
            uuid=str(row.uuid),
            project=row.project_id,
            vip_port=ports[row.vip_port_id].uuid,
            vip_address=row.vip_address,
            name=row.name,
            revision=row.revision_number,
            is_admin_up=row.is_admin_up,
            listeners=tuple(listeners[row.pk]),
            pools=tuple(pools[row.pk]),
            monitor_addresses=dict(monitoring[row.pk]),
        )
        for row in balancers
        if row.vip_port_id in ports
    )


def _pools() -> defaultdict[int, list[PoolSpec]]:
    """Return the pools of load balancers, by their primary keys."""
    members = _grouped(
        (
            row.pool_id,
            MemberSpec(str(row.uuid), row.address, row.protocol_port, str(row.subnet_uuid), row.is_admin_up),
        )
        for row in PoolMember.objects.order_by("pk")
    )
    checks = {
        row.pool_id: CheckSpec(row.delay, row.timeout, row.max_retries, row.max_retries_down)
        for row in HealthMonitor.objects.filter(is_admin_up=True)
    }
    return _grouped(
        (row.balancer_id, PoolSpec(str(row.uuid), tuple(members[row.pk]), checks.get(row.pk), row.is_admin_up))
        for row in BalancerPool.objects.order_by("pk")
    )


def _grouped(pairs: Any) -> defaultdict[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found
