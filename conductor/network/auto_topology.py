"""Automatic topology of a project: a network, a subnet of the default pool and a router to the outside."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NotFound
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.network import operations, router_interfaces, routers, subnet_pools, subnets
from conductor.network.errors import AutoAllocationFailure
from conductor.network.models import AutoTopology, Network, Port
from conductor.network.router_routes import interfaces
from conductor.network.routers import GatewayRequest, RouterCreate
from conductor.network.subnets import SubnetCreate

NAME = "auto_allocated_network"
ROUTER_NAME = "auto_allocated_router"
_IP_VERSION = 4


def require_possible() -> Network:
    """Return the default external network. Raises AutoAllocationFailure naming what an administrator must provide."""
    outside = Network.objects.filter(is_default=True, is_external=True).first()
    if outside is None:
        raise AutoAllocationFailure("Deployment error: No default router:external network.")
    if subnet_pools.default_pool(_IP_VERSION) is None:
        raise AutoAllocationFailure("Deployment error: No default subnetpools defined.")
    return outside


def is_possible() -> bool:
    try:
        require_possible()
    except AutoAllocationFailure:
        return False
    return True


def find(project_id: str) -> Network | None:
    topology = AutoTopology.objects.filter(project_id=project_id).select_related("network").first()
    return topology.network if topology else None


def get_or_make(context: RequestContext, project_id: str) -> Network:
    """Return the project's topology. It is created once, even by concurrent calls. Raises AutoAllocationFailure,
    OverQuota.
    """
    _require_own(context, project_id)
    there = find(project_id)
    if there is not None:
        return there
    outside = require_possible()
    with write_tx():
        one_at_a_time(DEFAULT_DB_ALIAS, f"network-quota:{project_id}")
        return find(project_id) or _make(context, project_id, outside)


def delete(context: RequestContext, project_id: str) -> None:
    """Delete the topology. Raises NotFound when the project has none, NetworkInUse while servers are on it."""
    _require_own(context, project_id)
    with write_tx():
        topology = AutoTopology.objects.filter(project_id=project_id).select_related("network", "router").first()
        if topology is None:
            raise NotFound(
                f"Project {project_id} has no auto-allocated topology.", type="AutoAllocatedTopologyNotFound"
            )
        router_id, network_id = str(topology.router.uuid), str(topology.network.uuid)
        topology.delete()
        for port in Port.objects.filter(pk__in=interfaces(topology.router).values("pk")):
            router_interfaces.remove(context, router_id, port_id=str(port.uuid))
        routers.delete_router(context, router_id)
        operations.delete_network(context, network_id)


def _make(context: RequestContext, project_id: str, outside: Network) -> Network:
    network = operations.create_network(context, {"name": NAME, "project_id": project_id})
    requested = SubnetCreate(
        network_id=str(network.uuid), name="auto_allocated_subnet_v4", is_from_default_pool=True, ip_version=_IP_VERSION
    )
    subnet = subnets.create_subnet(context, requested)
    way_out = RouterCreate(
        {"name": ROUTER_NAME, "project_id": project_id}, has_gateway=True, gateway=GatewayRequest(str(outside.uuid))
    )
    router = routers.create_router(context, way_out)
    router_interfaces.add(context, str(router.uuid), subnet_id=str(subnet.uuid))
    AutoTopology.objects.create(project_id=project_id, network=network, router=router)
    return network


def _require_own(context: RequestContext, project_id: str) -> None:
    if not context.may_see_project(project_id):
        raise Forbidden("The topology belongs to another project.", type="PolicyNotAuthorized")
