"""JSON of load balancers and their parts, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.network import balancer_states, load_balancers, operations, tags
from conductor.network.balancer_members import HealthMonitorCreate, MemberCreate
from conductor.network.balancer_pools import ListenerChange, ListenerCreate, PoolCreate
from conductor.network.load_balancers import ALGORITHM, PROVIDER, LoadBalancerCreate
from conductor.network.models import (
    BalancerListener,
    BalancerPart,
    BalancerPool,
    HealthMonitor,
    LoadBalancer,
    PoolMember,
)
from portal.api.network.representations.networks import fields_of

FIELDS = {
    **{name: name for name in ("name", "description", "protocol", "protocol_port", "type")},
    **{name: name for name in ("delay", "timeout", "max_retries", "max_retries_down")},
    "admin_state_up": "is_admin_up",
    "tags": "tag_text",
}
_OWNED = {**FIELDS, "project_id": "project_id", "tenant_id": "project_id"}


def balancer(row: LoadBalancer, context: RequestContext) -> dict[str, Any]:
    subnet = load_balancers.vip_subnet(row)
    return {
        **_described(row, row, balancer_states.of_balancer(row)),
        "provider": PROVIDER,
        "vip_address": row.vip_address,
        "vip_port_id": str(row.vip_port.uuid),
        "vip_subnet_id": str(subnet.uuid) if subnet else None,
        "vip_network_id": str(row.vip_port.network.uuid),
        "vip_qos_policy_id": None,
        "vip_vnic_type": "normal",
        "vip_sg_ids": [],
        "additional_vips": [],
        "availability_zone": None,
        "flavor_id": None,
        "listeners": _ids(row.listeners.all()),
        "pools": _ids(row.pools.all()),
    }


def listener(row: BalancerListener, context: RequestContext) -> dict[str, Any]:
    return {
        **_described(row, row.balancer, balancer_states.of_listener(row)),
        "loadbalancers": _ids([row.balancer]),
        "protocol": row.protocol,
        "protocol_port": row.protocol_port,
        "default_pool_id": str(row.default_pool.uuid) if row.default_pool else None,
        "connection_limit": -1,
        "l7policies": [],
        "insert_headers": {},
        "sni_container_refs": [],
        "default_tls_container_ref": None,
        "allowed_cidrs": None,
    }


def pool(row: BalancerPool, context: RequestContext) -> dict[str, Any]:
    monitor = getattr(row, "health_monitor", None)
    return {
        **_described(row, row.balancer, balancer_states.of_pool(row)),
        "loadbalancers": _ids([row.balancer]),
        "listeners": _ids(row.listeners.all()),
        "members": _ids(row.members.all()),
        "healthmonitor_id": str(monitor.uuid) if monitor else None,
        "protocol": row.protocol,
        "lb_algorithm": ALGORITHM,
        "session_persistence": None,
        "tls_enabled": False,
    }


def member(row: PoolMember, context: RequestContext) -> dict[str, Any]:
    return {
        **_described(row, row.pool.balancer, balancer_states.of_member(row)),
        "address": row.address,
        "protocol_port": row.protocol_port,
        "subnet_id": str(row.subnet_uuid),
        "weight": 1,
        "backup": False,
        "monitor_address": None,
        "monitor_port": None,
    }


def monitor(row: HealthMonitor, context: RequestContext) -> dict[str, Any]:
    return {
        **_described(row, row.pool.balancer, balancer_states.of_monitor(row)),
        "type": row.type,
        "pools": _ids([row.pool]),
        "delay": row.delay,
        "timeout": row.timeout,
        "max_retries": row.max_retries,
        "max_retries_down": row.max_retries_down,
    }


def status_tree(row: LoadBalancer) -> dict[str, Any]:
    """Return the statuses of a load balancer with those of its listeners, pools, members and health monitors."""
    provisioning = balancer_states.provisioning_status(row)

    def entry(part: LoadBalancer | BalancerPart, operating: str, **more: Any) -> dict[str, Any]:
        named = {"id": str(part.uuid), "name": part.name}
        return {**named, "provisioning_status": provisioning, "operating_status": operating, **more}

    def of_member(one: PoolMember) -> dict[str, Any]:
        return entry(one, balancer_states.of_member(one), address=one.address, protocol_port=one.protocol_port)

    def of_pool(one: BalancerPool) -> dict[str, Any]:
        checks = getattr(one, "health_monitor", None)
        shown = {} if checks is None else entry(checks, balancer_states.of_monitor(checks), type=checks.type)
        return entry(
            one,
            balancer_states.of_pool(one),
            members=[of_member(each) for each in one.members.all()],
            health_monitor=shown,
        )

    pools = {one.pk: of_pool(one) for one in row.pools.all()}
    listeners = [
        entry(one, balancer_states.of_listener(one), pools=[pools[pk] for pk in pools if pk == one.default_pool_id])
        for one in row.listeners.all()
    ]
    shown = entry(row, balancer_states.of_balancer(row), listeners=listeners, pools=list(pools.values()))
    return {"statuses": {"loadbalancer": shown}}


def wanted_balancer(given: Mapping[str, Any], context: RequestContext) -> LoadBalancerCreate:
    vip = {name: given.get(name) or "" for name in ("vip_network_id", "vip_subnet_id", "vip_port_id", "vip_address")}
    return LoadBalancerCreate(**vip, values=fields_of(given, _OWNED))


def changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return fields_of(given, FIELDS)


def wanted_listener(given: Mapping[str, Any], context: RequestContext) -> ListenerCreate:
    _refuse_other_project(given, context)
    return ListenerCreate(given["loadbalancer_id"], given.get("default_pool_id") or "", fields_of(given, FIELDS))


def listener_changes(given: Mapping[str, Any], context: RequestContext) -> ListenerChange:
    pool_id = (given["default_pool_id"] or "") if "default_pool_id" in given else None
    return ListenerChange(pool_id, fields_of(given, FIELDS))


def wanted_pool(given: Mapping[str, Any], context: RequestContext) -> PoolCreate:
    _refuse_other_project(given, context)
    return PoolCreate(given.get("loadbalancer_id") or "", given.get("listener_id") or "", fields_of(given, FIELDS))


def wanted_member(given: Mapping[str, Any], context: RequestContext) -> MemberCreate:
    _refuse_other_project(given, context)
    return MemberCreate(given["pool_id"], given["address"], given.get("subnet_id") or "", fields_of(given, FIELDS))


def wanted_monitor(given: Mapping[str, Any], context: RequestContext) -> HealthMonitorCreate:
    _refuse_other_project(given, context)
    return HealthMonitorCreate(given["pool_id"], fields_of(given, FIELDS))


def _refuse_other_project(given: Mapping[str, Any], context: RequestContext) -> None:
    """Refuse to name another project: a part belongs to the project of its load balancer."""
    named = given.get("project_id") or given.get("tenant_id") or context.project_id
    operations.refuse_other_project(context, {"project_id": named})


def _described(row: LoadBalancer | BalancerPart, owner: LoadBalancer, operating: str) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": owner.project_id,
        "tenant_id": owner.project_id,
        "admin_state_up": row.is_admin_up,
        "provisioning_status": balancer_states.provisioning_status(owner),
        "operating_status": operating,
        "tags": tags.unpacked(row.tag_text),
        "created_at": row.created_at.strftime("%Y-%m-%dT%H:%M:%S"),
        "updated_at": row.updated_at.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def _ids(rows: Iterable[LoadBalancer | BalancerPart]) -> list[dict[str, str]]:
    return [{"id": str(row.uuid)} for row in rows]
