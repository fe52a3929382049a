"""The collections of the network API, each with the functions that handle its requests; interfaces of routers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from conductor.core.context import RequestContext
from conductor.network import (
    floating_ips,
    operations,
    port_operations,
    qos,
    qos_choice,
    rbac,
    router_interfaces,
    routers,
    security_groups,
    subnet_pools,
    subnets,
)
from conductor.network.filters import NetworkListQuery
from conductor.services.servers import addresses, interfaces
from portal.api.network.representations import networks as network_json
from portal.api.network.representations import pools as pool_json
from portal.api.network.representations import ports as port_json
from portal.api.network.representations import qos as qos_json
from portal.api.network.representations import routers as router_json
from portal.api.network.representations import security_groups as group_json
from portal.api.network.schemas import bodies, routing
from portal.api.network.schemas import qos as qos_bodies
from portal.api.schema_parts import Schema, closed

MAX_AT_ONCE = 100
Parse = Callable[[Mapping[str, Any], RequestContext], Any]


@dataclass(frozen=True)
class Creation:
    """Creation of a resource: the schema of its fields, their parser, and the service function."""

    schema: Schema
    parse: Parse
    create: Callable[[RequestContext, Any], Any]


@dataclass(frozen=True)
class Updating:
    """Update of a resource."""

    schema: Schema
    parse: Parse
    update: Callable[[RequestContext, str, Any], Any]


@dataclass(frozen=True)
class NetworkResource:
    """A collection. Policy rules are named after `rule`; None means 405. `is_tagged`: its rows have tags."""

    rule: str
    plural: str
    list: Callable[[RequestContext, NetworkListQuery], list[Any]]
    get: Callable[[RequestContext, str], Any]
    show: Callable[[Any, RequestContext], dict[str, Any]]
    creation: Creation | None = None
    updating: Updating | None = None
    delete: Callable[[RequestContext, str], None] | None = None
    is_tagged: bool = True

    # The schemas of whole bodies are built once: a validator is kept for each schema.
    @cached_property
    def creation_body(self) -> Schema:
        return _member(self.rule, self.creation.schema if self.creation else {})

    @cached_property
    def bulk_body(self) -> Schema:
        return _member(self.plural, {"type": "array", "minItems": 1, "maxItems": MAX_AT_ONCE})

    @cached_property
    def update_body(self) -> Schema:
        return _member(self.rule, self.updating.schema if self.updating else {})


def _member(name: str, schema: Schema) -> Schema:
    """Return the schema of a body with this member only."""
    return closed({name: schema}, required=(name,))


NETWORKS = NetworkResource(
    rule="network",
    plural="networks",
    list=operations.list_networks,
    get=operations.get_network,
    show=network_json.network,
    creation=Creation(bodies.CREATE_NETWORK, network_json.wanted_network, operations.create_network),
    updating=Updating(bodies.UPDATE_NETWORK, network_json.wanted_network, operations.update_network),
    delete=operations.delete_network,
)
SUBNETS = NetworkResource(
    rule="subnet",
    plural="subnets",
    list=subnets.list_subnets,
    get=subnets.get_subnet,
    show=network_json.subnet,
    creation=Creation(bodies.CREATE_SUBNET, network_json.wanted_subnet, subnets.create_subnet),
    updating=Updating(bodies.UPDATE_SUBNET, network_json.subnet_changes, subnets.update_subnet),
    delete=subnets.delete_subnet,
)
SUBNET_POOLS = NetworkResource(
    rule="subnetpool",
    plural="subnetpools",
    list=subnet_pools.list_pools,
    get=subnet_pools.get_pool,
    show=pool_json.subnet_pool,
    creation=Creation(routing.CREATE_POOL, pool_json.wanted_pool, subnet_pools.create_pool),
    updating=Updating(routing.UPDATE_POOL, pool_json.wanted_pool, subnet_pools.update_pool),
    delete=subnet_pools.delete_pool,
)
ADDRESS_SCOPES = NetworkResource(
    rule="address_scope",
    plural="address_scopes",
    list=subnet_pools.list_scopes,
    get=subnet_pools.get_scope,
    show=pool_json.address_scope,
    creation=Creation(routing.CREATE_SCOPE, pool_json.wanted_scope, subnet_pools.create_scope),
    updating=Updating(routing.UPDATE_SCOPE, pool_json.wanted_scope, subnet_pools.update_scope),
    delete=subnet_pools.delete_scope,
    is_tagged=False,
)
RBAC_POLICIES = NetworkResource(
    rule="rbac_policy",
    plural="rbac_policies",
    list=rbac.list_policies,
    get=rbac.get_policy,
    show=pool_json.rbac_policy,
    creation=Creation(routing.CREATE_RBAC, pool_json.wanted_policy, rbac.create_policy),
    updating=Updating(routing.UPDATE_RBAC, pool_json.policy_changes, rbac.update_policy),
    delete=rbac.delete_policy,
    is_tagged=False,
)
ROUTERS = NetworkResource(
    rule="router",
    plural="routers",
    list=routers.list_routers,
    get=routers.get_router,
    show=router_json.router,
    creation=Creation(routing.CREATE_ROUTER, router_json.wanted_router, routers.create_router),
    updating=Updating(routing.UPDATE_ROUTER, router_json.wanted_router, routers.update_router),
    delete=routers.delete_router,
)
FLOATING_IPS = NetworkResource(
    rule="floatingip",
    plural="floatingips",
    list=floating_ips.list_floating_ips,
    get=floating_ips.get_floating_ip,
    show=router_json.floating_ip,
    creation=Creation(routing.CREATE_FLOATING_IP, router_json.wanted_floating_ip, addresses.create),
    updating=Updating(routing.UPDATE_FLOATING_IP, router_json.floating_ip_changes, addresses.update),
    delete=addresses.delete,
)
PORTS = NetworkResource(
    rule="port",
    plural="ports",
    list=port_operations.list_ports,
    get=port_operations.get_port,
    show=port_json.port,
    creation=Creation(bodies.CREATE_PORT, port_json.wanted_port, interfaces.create_port),
    updating=Updating(bodies.UPDATE_PORT, port_json.port_changes, interfaces.update_port),
    delete=interfaces.delete_port,
)
SECURITY_GROUPS = NetworkResource(
    rule="security_group",
    plural="security_groups",
    list=security_groups.list_groups,
    get=security_groups.get_group,
    show=group_json.group,
    creation=Creation(bodies.CREATE_GROUP, group_json.wanted_group, security_groups.create_group),
    updating=Updating(bodies.UPDATE_GROUP, group_json.wanted_group, security_groups.update_group),
    delete=security_groups.delete_group,
)
SECURITY_GROUP_RULES = NetworkResource(
    rule="security_group_rule",
    plural="security_group_rules",
    list=security_groups.list_rules,
    get=security_groups.get_rule,
    show=group_json.rule,
    creation=Creation(bodies.CREATE_RULE, group_json.wanted_rule, security_groups.create_rule),
    delete=security_groups.delete_rule,
    is_tagged=False,
)
QOS_POLICIES = NetworkResource(
    rule="policy",
    plural="policies",
    list=qos.list_policies,
    get=qos_choice.get_policy,
    show=qos_json.policy,
    creation=Creation(qos_bodies.CREATE_POLICY, qos_json.wanted_policy, qos.create_policy),
    updating=Updating(qos_bodies.UPDATE_POLICY, qos_json.wanted_policy, qos.update_policy),
    delete=qos.delete_policy,
    is_tagged=False,
)
# Path segment → collection
RESOURCES = {
    "networks": NETWORKS,
    "subnets": SUBNETS,
    "subnetpools": SUBNET_POOLS,
    "address-scopes": ADDRESS_SCOPES,
    "rbac-policies": RBAC_POLICIES,
    "routers": ROUTERS,
    "floatingips": FLOATING_IPS,
    "ports": PORTS,
    "security-groups": SECURITY_GROUPS,
    "security-group-rules": SECURITY_GROUP_RULES,
    "qos/policies": QOS_POLICIES,
}


def change_interface(
    context: RequestContext, router_id: str, given: Mapping[str, Any], *, is_added: bool
) -> dict[str, Any]:
    """Add or remove the interface of a router that a checked body names."""
    change = router_interfaces.add if is_added else router_interfaces.remove
    found = change(context, router_id, subnet_id=given.get("subnet_id") or "", port_id=given.get("port_id") or "")
    return router_json.interface(found)
