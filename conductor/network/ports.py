"""Ports of guests: network requests of a launch, plugging and unplugging.

`plug` and `unplug` run inside the caller's write transaction on the API database, and are idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Prefetch, Q, QuerySet

from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.context import RequestContext
from conductor.core.errors import BuildAborted, Conflict, Invalid, NotFound
from conductor.core.plain_json import plain
from conductor.db.rows import Rows
from conductor.db.transactions import write_tx
from conductor.network import (
    addresses,
    auto_topology,
    dns_names,
    ipv6_modes,
    port_rows,
    quotas,
    security_groups,
    statements,
)
from conductor.network.errors import InvalidIpForSubnet
from conductor.network.models import AddressAllocation, FloatingIp, Network, Port, SecurityGroup
from conductor.network.operations import get_network, shared_with
from conductor.network.port_operations import get_port
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch

Held = tuple[Port, Sequence[AddressAllocation]]

IS_PLUGGED = Q(is_plugged=True) | ~Q(binding_host="")
NETWORKS = Rows(Network, "uuid")
NOT_PLUGGED_YET = 32767  # the index of a port that is bound to its guest before a host has plugged it
PLUGGABLE = "normal"  # the port type that drivers can plug
FREE: Mapping[str, Any] = {
    "device_id": "",
    "device_owner": "",
    "device_index": 0,
    "binding_host": "",
    "migrating_to": "",
    "status": "DOWN",
    "is_plugged": False,
    "device_tag": None,
    "guest_hostname": "",
}


@dataclass(frozen=True, slots=True)
class Binding:
    """Host and guest of ports to plug; `groups` are ids or names of security groups of new ports."""

    host: str
    device_owner: str
    groups: Sequence[str] = (security_groups.DEFAULT_NAME,)
    hostname: str = ""  # the guest's

    def of(self, instance_uuid: str, index: int) -> dict[str, Any]:
        return {
            "device_id": instance_uuid,
            "device_index": index,
            "device_owner": self.device_owner,
            "binding_host": self.host,
            "status": "ACTIVE",
            "is_plugged": True,
            "guest_hostname": dns_names.usable(self.hostname),
        }


class PortRequest(Protocol):
    """A network or an existing port, by id; "" for none."""

    @property
    def network_id(self) -> str: ...
    @property
    def port_id(self) -> str: ...
    @property
    def fixed_ip(self) -> str: ...
    @property
    def tag(self) -> str | None: ...


def resolve_requests(context: RequestContext, requests: Sequence[PortRequest] | None) -> list[dict[str, str]]:
    """Return the input of `plug` for these requests: `[{"network_id", "port_id", "fixed_ip"}]` in order, some with a
    `tag`.

    None stands for the only network that the project can use; Conflict when there are several. If it has none, an
    automatic topology is created if administrators have provided for that; otherwise there is no port.

    Raises:
        Invalid: a request names something that is unknown or unusable.
        Conflict: a port is in use.
    """
    if requests is None:
        return _automatic(context)
    chosen_ports = [requested.port_id for requested in requests if requested.port_id]
    if len(set(chosen_ports)) != len(chosen_ports):
        raise Invalid("A port can be plugged only once.")
    return [
        (_chosen_port(context, requested) if requested.port_id else _chosen_network(context, requested))
        | ({"tag": requested.tag} if requested.tag else {})
        for requested in requests
    ]


def plug(
    *, instance_uuid: str, project_id: str, networks: Sequence[Mapping[str, str]], binding: Binding
) -> list[dict[str, Any]]:
    """Give an instance its ports on a host. Return NetworkPort values as JSON, in order of `networks`.

    Plugged ports stay as they are, bound to the host. Raises BuildAborted when addresses are exhausted or a requested
    network or port is gone.
    """
    if not has_plugged(instance_uuid):  # the typical case
        made = _plug_all(instance_uuid, project_id, networks, binding)
        return [_described(port, held) for port, held in made]
    plugged = list(_plugged(instance_uuid).select_for_update(of=("self",)).order_by("device_index"))
    if any(port.binding_host != binding.host for port in plugged):
        bound = {"binding_host": binding.host, "migrating_to": "", "device_owner": binding.device_owner}
        touch(_plugged(instance_uuid), **bound)
    return [_as_json(port) for port in plugged]


def unplug(instance_uuid: str) -> None:
    """Delete the instance's ports that a build created, and release the others."""
    port_rows.delete(statements.ports_made_for(connections[DEFAULT_DB_ALIAS], instance_uuid))
    if has_plugged(instance_uuid):
        touch(_plugged(instance_uuid), **FREE)


def unbind(instance_uuid: str) -> None:
    """Unbind the ports from the host: the instance is on no host, and keeps its ports and addresses."""
    touch(_plugged(instance_uuid), binding_host="", migrating_to="", status="DOWN", is_plugged=True)


def bind(instance_uuid: str, host: str, device_owner: str) -> list[dict[str, Any]]:
    """Bind the instance's ports to `host` alone. Return NetworkPort values as JSON, in order."""
    bound = {"binding_host": host, "migrating_to": "", "device_owner": device_owner, "status": "ACTIVE"}
    touch(_plugged(instance_uuid), **bound, is_plugged=True)
    return [_as_json(port) for port in _plugged(instance_uuid).order_by("device_index", "pk")]


def set_destination(instance_uuid: str, host: str) -> None:
    """Bind the instance's ports to `host` too, which the instance moves to while it runs; "" for its own host alone."""
    touch(_plugged(instance_uuid), migrating_to=host)


def bind_to_guest(
    instance_uuid: str, project_id: str, wanted: Mapping[str, str], *, port_id: str, binding: Binding
) -> None:
    """Bind a port to the instance before a host plugs it, in the transaction that locks it for a workflow.

    `wanted` is a value of `resolve_requests`. If it names no port, one is created with the id `port_id`. It is deleted
    when the guest releases it, and counts against the project's quota of ports. Raises Conflict for a port in use,
    OverQuota, Invalid, NotFound.
    """
    bound = {
        "device_id": instance_uuid,
        "device_owner": binding.device_owner,
        "device_index": NOT_PLUGGED_YET,
        "guest_hostname": dns_names.usable(binding.hostname),
    }
    with write_tx():
        if wanted["port_id"]:
            _bind(project_id, wanted["port_id"], bound)
            return
        quotas.require(project_id, "port")
        chosen = security_groups.resolve(project_id, binding.groups or (security_groups.DEFAULT_NAME,))
        _make(project_id, wanted, chosen, bound | {"uuid": port_id})


def plug_one(
    *, instance_uuid: str, port_id: str, project_id: str, binding: Binding, tag: str | None = None
) -> dict[str, Any]:
    """Plug an existing port as the instance's last one. Return NetworkPort as JSON. Raises Conflict if it is taken."""
    there = _plugged(instance_uuid)
    port = there.filter(uuid=port_id).first()
    if port is None:
        last = max(there.values_list("device_index", flat=True), default=-1)
        port = _bind(project_id, port_id, binding.of(instance_uuid, last + 1) | {"device_tag": tag})
    return _as_json(Port.objects.select_related("network").prefetch_related("addresses__subnet").get(pk=port.pk))


def unplug_one(instance_uuid: str, port_id: str, *, is_deleted: bool = False) -> None:
    """Unplug one port. It is deleted if it was created for the instance or `is_deleted`, else released."""
    rows = Port.objects.filter(uuid=port_id, device_id__in=["", instance_uuid])
    gone = rows if is_deleted else rows.filter(is_made_by_compute=True)
    port_rows.delete(list(gone.values_list("pk", flat=True)))
    touch(rows.filter(device_id=instance_uuid), **FREE)


def rename_guest(instance_uuid: str, hostname: str) -> None:
    """Write the guest's new hostname to its ports."""
    with write_tx():
        touch(_rows_of(instance_uuid), guest_hostname=dns_names.usable(hostname))


def not_plugged_yet() -> list[tuple[str, str]]:
    """Return ports that are created for or bound to a guest and not plugged yet, each with the guest's uuid."""
    unplugged = Port.objects.filter(is_plugged=False, binding_host="")
    rows = unplugged.filter(Q(is_made_by_compute=True) | Q(device_index=NOT_PLUGGED_YET))
    return [(str(uuid), guest) for uuid, guest in rows.values_list("uuid", "device_id")]


def has_plugged(instance_uuid: str) -> bool:
    """Whether the instance has a plugged port."""
    return statements.has_plugged_ports(connections[DEFAULT_DB_ALIAS], instance_uuid)


def plugged(instance_uuid: str) -> list[Port]:
    """Return the instance's ports in order, with networks, addresses and subnets."""
    return list(_plugged(instance_uuid).order_by("device_index", "pk"))


def network_info(instance_uuid: str) -> list[dict[str, Any]]:
    """Return the instance's ports as `plug` does, with their current addresses, including floating ones."""
    found = plugged(instance_uuid)
    leading: dict[int, list[dict[str, str]]] = defaultdict(list)
    for row in FloatingIp.objects.filter(port__in=[port.pk for port in found]).order_by("pk"):
        leading[row.port_id or 0].append({"ip_address": row.address})
    return [_as_json(port) | ({"floating": leading[port.pk]} if port.pk in leading else {}) for port in found]


def _plugged(instance_uuid: str) -> QuerySet[Port]:
    return _rows_of(instance_uuid).select_related("network").prefetch_related(_held())


def _rows_of(instance_uuid: str) -> QuerySet[Port]:
    """Return ports that were plugged (or bound to a host by an administrator); a user's device id does not count."""
    return Port.objects.filter(IS_PLUGGED, device_id=instance_uuid)


def _held() -> Prefetch[Any]:
    """Prefetch the addresses of ports with their subnets, in one query."""
    return Prefetch("addresses", queryset=AddressAllocation.objects.select_related("subnet"))


def _plug_all(
    instance_uuid: str, project_id: str, networks: Sequence[Mapping[str, str]], binding: Binding
) -> list[Held]:
    made: list[Held] = []
    try:
        groups = security_groups.resolve(project_id, binding.groups) if networks else []
        for index, wanted in enumerate(networks):
            bound = binding.of(instance_uuid, index) | {"device_tag": wanted.get("tag")}
            if wanted.get("port_id"):
                port = _bind(project_id, wanted["port_id"], bound)
                made.append((port, list(port.addresses.select_related("subnet"))))
            else:
                made.append(_make(project_id, wanted, groups, bound))
    except (Conflict, Invalid, NotFound) as error:
        raise BuildAborted(error.message) from error
    return made


def _bind(project_id: str, port_id: str, bound: Mapping[str, Any]) -> Port:
    rows = Port.objects.filter(
        uuid=port_id,
        project_id=project_id,
        binding_host="",
        is_plugged=False,
        device_id__in=["", bound["device_id"]],
    )
    port = rows.select_for_update().first()
    if port is None:
        raise Conflict(f"Port {port_id} is in use or gone.")
    touch(Port.objects.filter(pk=port.pk), **bound)
    return port


def _make(
    project_id: str, wanted: Mapping[str, str], groups: Iterable[SecurityGroup], bound: Mapping[str, Any]
) -> Held:
    network = NETWORKS.find(connections[DEFAULT_DB_ALIAS], wanted["network_id"])
    if network is None:
        raise NotFound(f"Network {wanted['network_id']} is gone.")
    requests = [AddressRequest(ip_address=wanted["fixed_ip"])] if wanted.get("fixed_ip") else None
    is_secure = network.is_port_security_enabled
    values = {"project_id": project_id, "is_made_by_compute": True, "is_port_security_enabled": is_secure, **bound}
    return port_rows.create_with_addresses(network, groups=groups if is_secure else (), requests=requests, **values)


def _as_json(port: Port) -> dict[str, Any]:
    return _described(port, port.addresses.all())


def _described(port: Port, allocations: Iterable[AddressAllocation]) -> dict[str, Any]:
    """Return NetworkPort as JSON. Of its addresses IPv4 comes before IPv6; `more` are all but the first."""
    held = sorted(allocations, key=lambda row: (row.subnet.ip_version, row.pk))
    subnet = held[0].subnet if held else None
    network_info: dict[str, Any] = plain(
        NetworkPort(
            port_uuid=str(port.uuid),
            network_name=port.network.name,
            mac_address=port.mac_address,
            ip_address=held[0].ip_address if held else "",
            prefix_length=int(subnet.cidr.rpartition("/")[2]) if subnet else 0,
            cidr=subnet.cidr if subnet else "",
            gateway_ip=(subnet.gateway_ip or "") if subnet else "",
            dns_nameservers=tuple(subnet.dns_nameservers) if subnet else (),
            network_uuid=str(port.network.uuid),
            ipv6_mode=ipv6_modes.of(subnet) if subnet else "",
        )
    )
    return network_info | {"more": [plain(_address(row)) for row in held[1:]]}


def _address(row: AddressAllocation) -> PortAddress:
    subnet = row.subnet
    names, mode = tuple(subnet.dns_nameservers), ipv6_modes.of(subnet)
    return PortAddress(row.ip_address, subnet.cidr, subnet.gateway_ip or "", names, mode)


def _automatic(context: RequestContext) -> list[dict[str, str]]:
    usable = Network.objects.filter(
        Q(project_id=context.project_id) | shared_with(context.project_id), is_external=False
    )
    candidates = list(usable.filter(is_admin_up=True, subnets__isnull=False).distinct()[:2])
    if len(candidates) > 1:
        raise Conflict("Multiple possible networks found, use a Network ID to be more specific.")
    if not candidates and auto_topology.is_possible():
        candidates = [auto_topology.get_or_make(context, context.project_id)]
    return [_resolved(network_id=str(network.uuid)) for network in candidates]


def _chosen_network(context: RequestContext, requested: PortRequest) -> dict[str, str]:
    try:
        network = get_network(context, requested.network_id)
    except NotFound as error:
        raise Invalid(error.message, field="networks") from None
    if network.is_external and not context.is_admin:
        raise Invalid(
            f"Network {requested.network_id} is external: servers cannot be plugged into it.", field="networks"
        )
    subnets = list(network.subnets.all())
    if not subnets:
        raise Invalid(
            f"Network {requested.network_id} requires a subnet in order to boot instances on.", field="networks"
        )
    if not requested.fixed_ip:
        return _resolved(network_id=str(network.uuid))
    try:
        subnet = port_rows.subnet_of(subnets, requested.fixed_ip, network)
    except InvalidIpForSubnet as error:
        raise Invalid(error.message, field="networks") from None
    address = addresses.usable(subnet, requested.fixed_ip)
    if address == subnet.gateway_ip:
        raise Invalid(f"Fixed IP address {address} is the gateway's of network {network.uuid}.", field="networks")
    if addresses.is_held(subnet, address):
        raise Invalid(f"Fixed IP address {address} is already in use on network {network.uuid}.", field="networks")
    return _resolved(network_id=str(network.uuid), fixed_ip=address)


def _chosen_port(context: RequestContext, requested: PortRequest) -> dict[str, str]:
    try:
        port = get_port(context, requested.port_id)
    except NotFound as error:
        raise Invalid(error.message, field="networks") from None
    if port.project_id != context.project_id:
        raise Invalid(f"Port {requested.port_id} belongs to another project.", field="networks")
    if port.device_id:
        raise Conflict(f"Port {requested.port_id} is still in use.")
    if port.vnic_type != PLUGGABLE:
        raise Invalid(
            f"Port {requested.port_id} is of type {port.vnic_type}: no host can plug it in.", field="networks"
        )
    held = list(port.addresses.all())
    if not held:
        raise Invalid(f"Port {requested.port_id} requires a FixedIP in order to be used.", field="networks")
    return _resolved(network_id=str(port.network.uuid), port_id=str(port.uuid), fixed_ip=held[0].ip_address)


def _resolved(*, network_id: str, port_id: str = "", fixed_ip: str = "") -> dict[str, str]:
    return {"network_id": network_id, "port_id": port_id, "fixed_ip": fixed_ip}
