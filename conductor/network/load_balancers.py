"""Load balancers: an address (VIP) on a network whose connections OVN spreads over members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import NotSupported
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.network import balancer_filters, filters, port_operations, port_rows, quotas
from conductor.network.device_owners import BALANCER_VIP
from conductor.network.errors import (
    InvalidInput,
    InvalidIpForSubnet,
    IpAddressAlreadyAllocated,
    LoadBalancerHasChildren,
    LoadBalancerNotFound,
    PortInUse,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import BalancerListener, BalancerPool, LoadBalancer, Network, Port, Subnet
from conductor.network.operations import get_network, refuse_other_project
from conductor.network.port_operations import PortCreate
from conductor.network.port_rows import AddressRequest
from conductor.network.provider_networks import is_physical
from conductor.network.ranges import normalized
from conductor.network.revisions import touch
from conductor.network.subnets import get_subnet

PROVIDER = "ovn"
TCP, UDP = "TCP", "UDP"
PROTOCOLS = (TCP, UDP)
ALGORITHM = "SOURCE_IP_PORT"


@dataclass(frozen=True, slots=True)
class LoadBalancerCreate:
    """A load balancer to create, with its address on a network or subnet, or at an existing port; "" for not given.

    `values` maps field names of LoadBalancer to values.
    """

    vip_network_id: str = ""
    vip_subnet_id: str = ""
    vip_port_id: str = ""
    vip_address: str = ""
    values: Mapping[str, Any] | None = None


def visible_balancers(context: RequestContext) -> QuerySet[LoadBalancer]:
    rows = LoadBalancer.objects.select_related("vip_port__network").prefetch_related(
        "vip_port__addresses__subnet", "listeners__default_pool__members", "pools__members", "pools__health_monitor"
    )
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_balancers(context: RequestContext, query: NetworkListQuery) -> list[LoadBalancer]:
    """Return load balancers with their parts, in a constant number of queries."""
    return filters.select(visible_balancers(context), query, balancer_filters.LOAD_BALANCERS)


def get_balancer(context: RequestContext, balancer_id: str) -> LoadBalancer:
    """Return a load balancer. Raises LoadBalancerNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_balancers(context), balancer_id, LoadBalancerNotFound(f"Load Balancer {balancer_id} not found.")
    )


def create_balancer(context: RequestContext, requested: LoadBalancerCreate) -> LoadBalancer:
    """Create a load balancer and, unless it gets an existing port, the port of its address.

    Raises NotSupported without OVN, InvalidInput for an address that does not fit, PortInUse, OverQuota, and as
    port_operations.create_port.
    """
    require_ovn()
    values = {"project_id": context.project_id, **(requested.values or {})}
    refuse_other_project(context, values)
    with write_tx():
        quotas.require(values["project_id"], "loadbalancer")
        balancer_uuid = uuid4()
        port, address = _vip(context, requested, str(balancer_uuid), values["project_id"])
        now = timezone.now()
        LoadBalancer.objects.create(
            **values,
            uuid=balancer_uuid,
            vip_port=port,
            vip_address=address,
            is_vip_port_made=not requested.vip_port_id,
            created_at=now,
            updated_at=now,
        )
    return get_balancer(context, str(balancer_uuid))


def update_balancer(context: RequestContext, balancer_id: str, changes: Mapping[str, Any]) -> LoadBalancer:
    with write_tx():
        balancer = get_balancer(context, balancer_id)
        _lock(balancer)
        touch(LoadBalancer.objects.filter(pk=balancer.pk), **changes)
    return get_balancer(context, balancer_id)


def delete_balancer(context: RequestContext, balancer_id: str, *, is_cascade: bool = False) -> None:
    """Delete a load balancer and free its address. Raises LoadBalancerHasChildren, unless `is_cascade`."""
    with write_tx():
        balancer = get_balancer(context, balancer_id)
        _lock(balancer)
        has_children = any(
            model._default_manager.filter(balancer=balancer).exists() for model in (BalancerListener, BalancerPool)
        )
        if has_children and not is_cascade:
            raise LoadBalancerHasChildren(
                f"Cannot delete Load Balancer {balancer_id} - it has children. Delete them first, or use cascade."
            )
        vip, ports = balancer.vip_port_id, list(balancer.monitor_ports.values_list("port_id", flat=True))
        LoadBalancer.objects.filter(pk=balancer.pk).delete()
        if balancer.is_vip_port_made:
            ports.append(vip)
        else:
            touch(Port.objects.filter(pk=vip), device_id="", device_owner="")
        port_rows.delete(ports)


def is_available() -> bool:
    """Whether load balancers are available: only OVN spreads their connections."""
    return bool(settings.NOVELLA_OVN_NORTHBOUND)


def require_ovn() -> None:
    """Raise NotSupported if load balancers are not available."""
    if not is_available():
        raise NotSupported("Load balancers need OVN; this cloud has none. An operator sets NOVELLA_OVN_NORTHBOUND.")


@contextmanager
def changing(balancer: LoadBalancer) -> Iterator[None]:
    """Lock a load balancer while its parts are changed, and have the change written to OVN.

    The lock is held until the write transaction ends. Raises LoadBalancerNotFound if it was deleted meanwhile.
    """
    _lock(balancer)
    yield
    touch(LoadBalancer.objects.filter(pk=balancer.pk))


def _lock(balancer: LoadBalancer) -> None:
    if not LoadBalancer.objects.select_for_update().filter(pk=balancer.pk).exists():
        raise LoadBalancerNotFound(f"Load Balancer {balancer.uuid} not found.")


def vip_subnet(balancer: LoadBalancer) -> Subnet | None:
    """Return the subnet of the address; None if the port no longer has the address."""
    held = {row.ip_address: row.subnet for row in balancer.vip_port.addresses.all()}
    return held.get(balancer.vip_address)


def _vip(context: RequestContext, requested: LoadBalancerCreate, balancer_id: str, project_id: str) -> tuple[Port, str]:
    """Return the port of the address, and the address."""
    device = {"device_id": f"lb-{balancer_id}", "device_owner": BALANCER_VIP}
    if requested.vip_port_id:
        return _existing_port(context, requested, device, project_id)
    network, subnet = _place(context, requested)
    _refuse_physical(network)
    chosen = AddressRequest(str(subnet.uuid) if subnet else None, requested.vip_address or None)
    values = {"name": f"ovn-lb-vip-{balancer_id}", "project_id": project_id, **device}
    wanted = PortCreate(str(network.uuid), fixed_ips=[chosen], security_groups=[], values=values)
    try:
        port = port_operations.create_port(context, wanted)
    except (InvalidIpForSubnet, IpAddressAlreadyAllocated) as error:
        raise type(error)(error.message, field="vip_address") from None
    return port, port.addresses.get().ip_address


def _place(context: RequestContext, requested: LoadBalancerCreate) -> tuple[Network, Subnet | None]:
    """Return the network and the subnet; the subnet is None if the requested address determines it."""
    subnet = get_subnet(context, requested.vip_subnet_id) if requested.vip_subnet_id else None
    if subnet is None and not requested.vip_network_id:
        raise InvalidInput(
            "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
            field="vip_subnet_id",
        )
    network = subnet.network if subnet else get_network(context, requested.vip_network_id)
    if requested.vip_network_id and uuid_or_none(requested.vip_network_id) != network.uuid:
        raise InvalidInput("Invalid input for vip_subnet_id. It is not on vip_network_id.", field="vip_subnet_id")
    if subnet is None and not requested.vip_address:
        subnet = network.subnets.order_by("ip_version", "pk").first()
        if subnet is None:
            raise InvalidInput("Invalid input for vip_network_id. The network has no subnet.", field="vip_network_id")
    return network, subnet


def _existing_port(
    context: RequestContext, requested: LoadBalancerCreate, device: Mapping[str, str], project_id: str
) -> tuple[Port, str]:
    port = port_operations.get_port(context, requested.vip_port_id)
    if port.project_id != project_id:
        raise InvalidInput("Invalid input for vip_port_id. The port belongs to another project.", field="vip_port_id")
    if requested.vip_network_id and uuid_or_none(requested.vip_network_id) != port.network.uuid:
        raise InvalidInput("Invalid input for vip_network_id. vip_port_id is on another one.", field="vip_network_id")
    _refuse_physical(port.network)
    free = Port.objects.filter(pk=port.pk, device_id="", is_plugged=False, binding_host="").select_for_update()
    if not free.exists():
        raise PortInUse(f"Port {port.uuid} is already used by {port.device_id or 'a host'}.")
    wanted = normalized(requested.vip_address) if requested.vip_address else ""
    address = next(
        (
            row.ip_address
            for row in port.addresses.order_by("subnet__ip_version", "pk").select_related("subnet")
            if wanted in ("", row.ip_address) and uuid_or_none(requested.vip_subnet_id) in (None, row.subnet.uuid)
        ),
        None,
    )
    if address is None:
        raise InvalidInput("Invalid input for vip_port_id. The port has no such address.", field="vip_port_id")
    touch(Port.objects.filter(pk=port.pk), **device)
    return port, address


def _refuse_physical(network: Network) -> None:
    if network.is_external or is_physical(network):
        raise InvalidInput(
            f"Network {network.uuid} is a physical one. The address of a load balancer is on a network of projects; a "
            "floating IP makes it reachable from outside.",
            field="vip_network_id",
        )
