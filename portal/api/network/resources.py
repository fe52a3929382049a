"""The collections of the network API: for each, which functions answer which request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conductor.core.context import RequestContext
from conductor.network import operations, port_operations, security_groups, subnets
from conductor.network.filters import ListQuery
from conductor.services import server_interfaces
from portal.api.network.schemas import bodies
from portal.api.network.serializers import networks as network_json
from portal.api.network.serializers import ports as port_json
from portal.api.network.serializers import security_groups as group_json
from portal.api.schema_parts import Schema

Parse = Callable[[Mapping[str, Any], RequestContext], Any]


@dataclass(frozen=True)
class Creation:
    """How one is made: the schema of its body, what the body asks for, and who makes it."""

    schema: Schema
    parse: Parse
    create: Callable[[RequestContext, Any], Any]


@dataclass(frozen=True)
class Updating:
    """How one is changed."""

    schema: Schema
    parse: Parse
    update: Callable[[RequestContext, str, Any], Any]


@dataclass(frozen=True)
class Resource:
    """A collection. Rules are named after `rule`; what is None is answered with 405."""

    rule: str
    plural: str
    list: Callable[[RequestContext, ListQuery], list[Any]]
    get: Callable[[RequestContext, str], Any]
    show: Callable[[Any, RequestContext], dict[str, Any]]
    creation: Creation | None = None
    updating: Updating | None = None
    delete: Callable[[RequestContext, str], None] | None = None


NETWORKS = Resource(
    rule="network",
    plural="networks",
    list=operations.list_networks,
    get=operations.get_network,
    show=network_json.network,
    creation=Creation(bodies.CREATE_NETWORK, network_json.wanted_network, operations.create_network),
    updating=Updating(bodies.UPDATE_NETWORK, network_json.wanted_network, operations.update_network),
    delete=operations.delete_network,
)
SUBNETS = Resource(
    rule="subnet",
    plural="subnets",
    list=subnets.list_subnets,
    get=subnets.get_subnet,
    show=network_json.subnet,
    creation=Creation(bodies.CREATE_SUBNET, network_json.wanted_subnet, subnets.create_subnet),
    updating=Updating(bodies.UPDATE_SUBNET, network_json.subnet_changes, subnets.update_subnet),
    delete=subnets.delete_subnet,
)
SUBNET_POOLS = Resource(
    rule="subnetpool",
    plural="subnetpools",
    list=operations.list_pools,
    get=operations.get_pool,
    show=network_json.subnet_pool,
)
PORTS = Resource(
    rule="port",
    plural="ports",
    list=port_operations.list_ports,
    get=port_operations.get_port,
    show=port_json.port,
    creation=Creation(bodies.CREATE_PORT, port_json.wanted_port, port_operations.create_port),
    updating=Updating(bodies.UPDATE_PORT, port_json.port_changes, server_interfaces.update_port),
    delete=server_interfaces.delete_port,
)
SECURITY_GROUPS = Resource(
    rule="security_group",
    plural="security_groups",
    list=security_groups.list_groups,
    get=security_groups.get_group,
    show=group_json.group,
    creation=Creation(bodies.CREATE_GROUP, group_json.wanted_group, security_groups.create_group),
    updating=Updating(bodies.UPDATE_GROUP, group_json.wanted_group, security_groups.update_group),
    delete=security_groups.delete_group,
)
SECURITY_GROUP_RULES = Resource(
    rule="security_group_rule",
    plural="security_group_rules",
    list=security_groups.list_rules,
    get=security_groups.get_rule,
    show=group_json.rule,
    creation=Creation(bodies.CREATE_RULE, group_json.wanted_rule, security_groups.create_rule),
    delete=security_groups.delete_rule,
)
# Path segment → collection
RESOURCES = {
    "networks": NETWORKS,
    "subnets": SUBNETS,
    "subnetpools": SUBNET_POOLS,
    "ports": PORTS,
    "security-groups": SECURITY_GROUPS,
    "security-group-rules": SECURITY_GROUP_RULES,
}
