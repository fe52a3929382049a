"""Filters of the lists of load balancers and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from conductor.network import tags
from conductor.network.balancer_states import has_provisioning_status
from conductor.network.filters import Condition, boolean, number, text, uuid

_PART: Mapping[str, Condition] = tags.CONDITIONS | {
    "id": uuid("uuid"),
    "name": text("name"),
    "description": text("description"),
    "admin_state_up": boolean("is_admin_up"),
}


def _owned(column: str) -> Mapping[str, Condition]:
    """Return the filters of rows whose load balancer is in `column`."""
    project = text(f"{column}__project_id")
    return {**_PART, "project_id": project, "tenant_id": project, "loadbalancer_id": uuid(f"{column}__uuid")}


LOAD_BALANCERS: Mapping[str, Condition] = {
    **_PART,
    "project_id": text("project_id"),
    "tenant_id": text("project_id"),
    "vip_address": text("vip_address"),
    "vip_port_id": uuid("vip_port__uuid"),
    "vip_network_id": uuid("vip_port__network__uuid"),
    "vip_subnet_id": uuid("vip_port__addresses__subnet__uuid"),
    "provisioning_status": lambda values: reduce(or_, map(has_provisioning_status, values)),
}
LISTENERS: Mapping[str, Condition] = {
    **_owned("balancer"),
    "protocol": text("protocol"),
    "protocol_port": number("protocol_port"),
    "default_pool_id": uuid("default_pool__uuid"),
}
POOLS: Mapping[str, Condition] = {
    **_owned("balancer"),
    "protocol": text("protocol"),
    "listener_id": uuid("listeners__uuid"),
}
MEMBERS: Mapping[str, Condition] = {
    **_owned("pool__balancer"),
    "pool_id": uuid("pool__uuid"),
    "address": text("address"),
    "protocol_port": number("protocol_port"),
    "subnet_id": uuid("subnet_uuid"),
}
HEALTH_MONITORS: Mapping[str, Condition] = {
    **_owned("pool__balancer"),
    "pool_id": uuid("pool__uuid"),
    "type": text("type"),
}
