"""Interfaces of routers: ports that connect a router to subnets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.db.transactions import write_tx
from conductor.network import port_rows
from conductor.network.device_owners import ROUTER_INTERFACE
from conductor.network.errors import (
    InvalidInput,
    PortInUse,
    RouterInterfaceInUseByFloatingIP,
    RouterInterfaceNotFound,
    RouterInterfaceNotFoundForSubnet,
    SubnetMismatchForPort,
)
from conductor.network.models import AddressAllocation, FloatingIp, Network, Port, Router, Subnet
from conductor.network.port_operations import get_port, is_used
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch
from conductor.network.router_routes import interfaces, refuse_cut, refuse_overlap
from conductor.network.routers import locked_router
from conductor.network.subnets import get_subnet


@dataclass(frozen=True, slots=True)
class RouterInterface:
    """A router's connection to some subnets by one port."""

    router: Router
    port: Port
    subnet_ids: Sequence[str]

    @property
    def network_id(self) -> str:
        return str(self.port.network.uuid)


def add(context: RequestContext, router_id: str, *, subnet_id: str = "", port_id: str = "") -> RouterInterface:
    """Add an interface: by a subnet, whose gateway the router becomes, or by an existing port.

    Raises InvalidInput for a subnet without a gateway or one that overlaps, PortInUse, IpAddressAlreadyAllocated.
    """
    if bool(subnet_id) == bool(port_id):
        both = "Cannot specify both subnet-id and port-id" if subnet_id else "Either subnet_id or port_id must be given"
        raise InvalidInput(f"Bad router request: {both}.", type="BadRequest")
    with write_tx():
        router = locked_router(context, router_id)
        port = _by_port(context, router, port_id) if port_id else _by_subnet(context, router, subnet_id)
        touch(Router.objects.filter(pk=router.pk))
        return _described(router, port)


def remove(context: RequestContext, router_id: str, *, subnet_id: str = "", port_id: str = "") -> RouterInterface:
    """Remove an interface with its port.

    Raises NotFound where the router has no such interface, Conflict while floating IPs or routes use it.
    """
    if not subnet_id and not port_id:
        raise InvalidInput("Bad router request: Either subnet_id or port_id must be specified.", type="BadRequest")
    with write_tx():
        router = locked_router(context, router_id)
        port = _found(context, router, subnet_id, port_id)
        removed = _described(router, port)
        _refuse_in_use(router, port)
        port.delete()
        touch(Router.objects.filter(pk=router.pk))
    return removed


def _by_subnet(context: RequestContext, router: Router, subnet_id: str) -> Port:
    subnet = get_subnet(context, subnet_id)
    if not subnet.gateway_ip:
        raise InvalidInput("Bad router request: Subnet for router interface must have a gateway IP.", type="BadRequest")
    refuse_overlap(router, [subnet])
    network = Network.objects.select_for_update().get(pk=subnet.network_id)
    requests = [AddressRequest(subnet_id=str(subnet.uuid), ip_address=subnet.gateway_ip)]
    return port_rows.create(
        network,
        groups=(),
        requests=requests,
        project_id=router.project_id,
        device_owner=ROUTER_INTERFACE,
        device_id=str(router.uuid),
        status="ACTIVE",
    )


def _by_port(context: RequestContext, router: Router, port_id: str) -> Port:
    port = get_port(context, port_id)
    Port.objects.select_for_update().get(pk=port.pk)
    if port.device_id or is_used(port):
        raise PortInUse(
            f"Unable to complete operation on port {port_id} for network {port.network.uuid}. Port already has an "
            f"attached device {port.device_id}."
        )
    subnets = [held.subnet for held in port.addresses.select_related("subnet")]
    if not subnets:
        raise InvalidInput("Bad router request: Router port must have at least one fixed IP.", type="BadRequest")
    if sum(subnet.ip_version == 4 for subnet in subnets) > 1:
        raise InvalidInput("Bad router request: Cannot have multiple IPv4 subnets on router port.", type="BadRequest")
    refuse_overlap(router, subnets)
    port.security_groups.clear()
    bound = {"device_id": str(router.uuid), "device_owner": ROUTER_INTERFACE, "status": "ACTIVE"}
    touch(Port.objects.filter(pk=port.pk), **bound)
    return port


def _found(context: RequestContext, router: Router, subnet_id: str, port_id: str) -> Port:
    subnet = get_subnet(context, subnet_id) if subnet_id else None
    there = interfaces(router).select_related("network")
    if port_id:
        port = there.filter(uuid=get_port(context, port_id).uuid).first()
        if port is None:
            raise RouterInterfaceNotFound(f"Router {router.uuid} does not have an interface with id {port_id}")
        if subnet is not None and not _is_on(port, subnet):
            raise SubnetMismatchForPort(f"Subnet on port {port_id} does not match the requested subnet {subnet_id}")
        return port
    port = there.filter(addresses__subnet=subnet).first()
    if port is None:
        raise RouterInterfaceNotFoundForSubnet(f"Router {router.uuid} has no interface on subnet {subnet_id}")
    return port


def _is_on(port: Port, subnet: Subnet) -> bool:
    return port.addresses.filter(subnet=subnet).exists()


def _refuse_in_use(router: Router, port: Port) -> None:
    """Refuse to remove an interface while floating IPs of this router use ports on its subnets."""
    subnets = port.addresses.values("subnet_id")
    inside = AddressAllocation.objects.filter(subnet__in=subnets)
    leading = FloatingIp.objects.filter(router=router, port__in=inside.values("port_id"))
    if leading.exists():
        raise RouterInterfaceInUseByFloatingIP(
            f"Router interface for subnet on router {router.uuid} cannot be deleted, as it is required by one or more "
            "floating IPs."
        )
    refuse_cut(router, port)


def _described(router: Router, port: Port) -> RouterInterface:
    held = port.addresses.select_related("subnet").order_by("pk")
    return RouterInterface(router, port, [str(address.subnet.uuid) for address in held])
