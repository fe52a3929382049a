"""Floating IPs: addresses of external networks that are routed to ports of projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import savepoint, write_tx
from conductor.network import addresses, filters, port_rows, quotas
from conductor.network.device_owners import FLOATING_IP, ROUTER_INTERFACE
from conductor.network.errors import (
    ExternalGatewayForFloatingIPNotFound,
    FloatingIPNotFound,
    FloatingIPPortAlreadyAssociated,
    InvalidInput,
    IpAddressGenerationFailure,
    SubnetNotFound,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import FloatingIp, Network, Port, Router
from conductor.network.operations import get_network, is_external_for, refuse_other_project
from conductor.network.port_operations import get_port
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch


@dataclass(frozen=True, slots=True)
class FloatingIpCreate:
    """A floating IP to create on `network_id`: any address, one of `subnet_id`, or `address`; and the port, if any."""

    network_id: str
    port_id: str = ""
    fixed_ip_address: str = ""
    address: str = ""
    subnet_id: str = ""
    project_id: str = ""
    description: str = ""
    tag_text: str = ""


@dataclass(frozen=True, slots=True)
class FloatingIpChange:
    """Changes of a floating IP; None keeps a value. `port_id` "" disassociates the port."""

    port_id: str | None = None
    fixed_ip_address: str = ""
    description: str | None = None


def visible_floating_ips(context: RequestContext) -> QuerySet[FloatingIp]:
    rows = FloatingIp.objects.select_related("network", "port__network", "router")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_floating_ips(context: RequestContext, query: NetworkListQuery) -> list[FloatingIp]:
    return filters.select(visible_floating_ips(context), query, filters.FLOATING_IPS)


def get_floating_ip(context: RequestContext, floating_ip_id: str) -> FloatingIp:
    """Return a floating IP. Raises FloatingIPNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_floating_ips(context),
        floating_ip_id,
        FloatingIPNotFound(f"Floating IP {floating_ip_id} could not be found"),
    )


def create_floating_ip(context: RequestContext, requested: FloatingIpCreate) -> FloatingIp:
    """Create a floating IP. Raises InvalidInput for an internal network, IpAddressGenerationFailure, and as `_lead`."""
    project_id = requested.project_id or context.project_id
    refuse_other_project(context, {"project_id": project_id})
    if requested.address and not context.is_admin:
        raise Forbidden("Only an administrator may choose a floating IP address.", type="PolicyNotAuthorized")
    network = get_network(context, requested.network_id)
    if not is_external_for(network, project_id):
        raise InvalidInput(
            f"Bad floatingip request: Network {requested.network_id} is not a valid external network.",
            type="BadRequest",
        )
    with write_tx():
        quotas.require(project_id, "floatingip")
        Network.objects.select_for_update().get(pk=network.pk)
        found = _take(network, requested, project_id)
        if requested.port_id:
            _lead(context, found, requested.port_id, requested.fixed_ip_address)
        elif requested.fixed_ip_address:
            raise InvalidInput("Bad floatingip request: fixed_ip_address cannot be specified without a port_id.")
    return get_floating_ip(context, str(found.uuid))


def update_floating_ip(context: RequestContext, floating_ip_id: str, change: FloatingIpChange) -> FloatingIp:
    """Associate another port, or none. Raises what `_lead` raises."""
    with write_tx():
        found = get_floating_ip(context, floating_ip_id)
        FloatingIp.objects.select_for_update().get(pk=found.pk)
        if change.port_id:
            _lead(context, found, change.port_id, change.fixed_ip_address)
        elif change.fixed_ip_address:
            raise InvalidInput("Bad floatingip request: fixed_ip_address cannot be specified without a port_id.")
        values: dict[str, Any] = {} if change.description is None else {"description": change.description}
        if change.port_id == "":
            values |= {"port": None, "fixed_ip_address": None, "router": None}
        touch(FloatingIp.objects.filter(pk=found.pk), **values)
    return get_floating_ip(context, floating_ip_id)


def delete_floating_ip(context: RequestContext, floating_ip_id: str) -> None:
    """Delete a floating IP and free its address."""
    with write_tx():
        found = get_floating_ip(context, floating_ip_id)
        FloatingIp.objects.select_for_update().get(pk=found.pk)
        outer = Port.objects.filter(pk=found.outer_port_id)
        found.delete()
        outer.delete()


def _take(network: Network, requested: FloatingIpCreate, project_id: str) -> FloatingIp:
    """Allocate the address, to a port of its own on the external network."""
    floating_uuid = uuid4()
    bound = {"project_id": "", "device_owner": FLOATING_IP, "device_id": str(floating_uuid), "status": "N/A"}
    port = port_rows.create(network, groups=(), requests=[], **bound)
    now = timezone.now()
    return FloatingIp.objects.create(
        uuid=floating_uuid,
        network=network,
        project_id=project_id,
        description=requested.description,
        tag_text=requested.tag_text,
        outer_port=port,
        address=_address(network, requested, port),
        created_at=now,
        updated_at=now,
    )


def _address(network: Network, requested: FloatingIpCreate, port: Port) -> str:
    subnets = [subnet for subnet in network.subnets.order_by("pk") if subnet.ip_version == 4]
    if not subnets:
        raise InvalidInput(
            f"Bad floatingip request: Network {network.uuid} does not contain any IPv4 subnet.", type="BadRequest"
        )
    if requested.subnet_id and not any(str(subnet.uuid) == requested.subnet_id for subnet in subnets):
        raise SubnetNotFound(f"Subnet {requested.subnet_id} could not be found.")
    if requested.address or requested.subnet_id:
        chosen = AddressRequest(subnet_id=requested.subnet_id or None, ip_address=requested.address or None)
        return port_rows.give_addresses(port, [chosen])[0].ip_address
    given = addresses.allocate_any(subnets, port)
    if not given:
        raise IpAddressGenerationFailure(f"No more IP addresses available on network {network.uuid}.")
    return given[0].ip_address


def _lead(context: RequestContext, found: FloatingIp, port_id: str, fixed_ip_address: str) -> None:
    """Associate a port. Raises PortNotFound, InvalidInput where the address is unclear, or no router connects both."""
    port = get_port(context, port_id)
    if port.project_id != found.project_id and not context.is_admin:
        raise InvalidInput(f"Bad floatingip request: Port {port_id} belongs to another project.", type="BadRequest")
    Port.objects.select_for_update().get(pk=port.pk)
    address = _inner_address(port, fixed_ip_address)
    held = port.addresses.select_related("subnet").get(ip_address=address)
    router = _router_between(found.network, held.subnet_id)
    if router is None:
        raise ExternalGatewayForFloatingIPNotFound(
            f"External network {found.network.uuid} is not reachable from subnet {held.subnet.uuid}. Therefore, "
            f"cannot associate Port {port_id} with a Floating IP."
        )
    try:
        with savepoint("default"):
            FloatingIp.objects.filter(pk=found.pk).update(port=port, fixed_ip_address=address, router=router)
    except IntegrityError:
        raise FloatingIPPortAlreadyAssociated(
            f"Cannot associate floating IP {found.address} ({found.uuid}) with port {port_id} using fixed IP "
            f"{address}, as that fixed IP already has a floating IP on external network {found.network.uuid}."
        ) from None


def _inner_address(port: Port, wanted: str) -> str:
    held = [row.ip_address for row in port.addresses.filter(subnet__ip_version=4).order_by("pk")]
    if wanted:
        if wanted not in held:
            raise InvalidInput(f"Bad floatingip request: Port {port.uuid} does not have fixed ip {wanted}.")
        return wanted
    if not held:
        raise InvalidInput(f"Bad floatingip request: Port {port.uuid} has no fixed IPv4 address to lead to.")
    if len(held) > 1:
        raise InvalidInput(
            f"Bad floatingip request: Port {port.uuid} has multiple fixed IPv4 addresses. Must provide a specific "
            "fixed_ip_address."
        )
    return held[0]


def _router_between(network: Network, subnet_pk: int) -> Router | None:
    """Return a router with its gateway on `network` and an interface on the subnet; the oldest of them."""
    ports = Port.objects.filter(device_owner=ROUTER_INTERFACE, addresses__subnet=subnet_pk).order_by("pk")
    uuids = [uuid_or_none(device_id) for device_id in ports.values_list("device_id", flat=True)]
    routers = Router.objects.filter(uuid__in=[one for one in uuids if one], gateway_port__network=network)
    return routers.select_for_update(of=("self",)).order_by("pk").first()
