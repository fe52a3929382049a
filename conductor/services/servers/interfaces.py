"""Ports of servers: attach, detach and list; and changes of ports by the Network API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import ActionFailed, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.server_actions import ACTIONS
from conductor.core.states import RunState
from conductor.db.transactions import write_tx
from conductor.journal import locks
from conductor.journal.models import WorkflowRun
from conductor.network import port_operations, ports
from conductor.network.errors import DeviceNotFound
from conductor.network.models import Port
from conductor.network.operations import get_network
from conductor.network.port_operations import PortCreate, get_port
from conductor.services.servers import actions
from conductor.services.servers.actions import ActionRequest
from conductor.services.servers.queries import missing
from conductor.services.servers.types import NetworkRequest
from conductor.services.workflows import workflows


@dataclass(frozen=True)
class InterfaceCreate:
    """An existing port, or a new one on a network. If all fields are empty, a new one on the only network."""

    network_id: str = ""
    port_id: str = ""
    fixed_ip: str = ""
    tag: str | None = None


@dataclass(frozen=True)
class Interface:
    """A port of a server. `addresses` are pairs of subnet and address."""

    port_id: str
    network_id: str
    mac_address: str
    status: str
    addresses: tuple[tuple[str, str], ...]
    tag: str | None = None
    run_uuid: str = ""
    network_name: str = ""


def list_interfaces(context: RequestContext, instance_uuid: str) -> list[Interface]:
    """Return a server's ports in the order of the guest. Raises NotFound."""
    row = _row(context, instance_uuid)
    return [_view(port) for port in ports.plugged(str(row.uuid))]


def get(context: RequestContext, instance_uuid: str, port_id: str) -> Interface:
    """Return one port of a server. Raises NotFound."""
    for interface in list_interfaces(context, instance_uuid):
        if interface.port_id == port_id.lower():
            return interface
    raise NotFound(f"Instance {instance_uuid} does not have a port with id {port_id[:60]}.")


def attach(context: RequestContext, instance_uuid: str, requested: InterfaceCreate) -> Interface:
    """Attach a port. It names its server when this returns. The workflow then plugs it into the guest.

    Raises NotFound, Invalid, Conflict for a locked server or port or a port in use, NotSupported.
    """
    row = _row(context, instance_uuid)
    actions.guard(context, str(row._state.db), ACTIONS["attach_interface"], row)  # before anything is created
    wanted = _wanted(context, requested)
    binding = ports.Binding("", f"compute:{row.availability_zone}", row.security_groups, row.hostname)
    port_id = wanted["port_id"] or str(uuid4())
    query = ActionRequest(
        inputs={"port_id": port_id, "tag": requested.tag},
        resources=[f"port:{port_id}"],
        reserve=lambda: ports.bind_to_guest(str(row.uuid), row.project_id, wanted, port_id=port_id, binding=binding),
        release=lambda: ports.unplug_one(str(row.uuid), port_id),
    )
    run_uuid = actions.begin(context, instance_uuid, "attach_interface", query)
    port = Port.objects.select_related("network").prefetch_related("addresses__subnet").filter(uuid=port_id).first()
    if port is None:  # the workflow has failed already
        raise _failed(str(row._state.db), instance_uuid, run_uuid)
    return _view(port, tag=requested.tag, run_uuid=run_uuid)


def attach_and_wait(context: RequestContext, instance_uuid: str, requested: InterfaceCreate) -> Interface:
    """Attach a port as `attach` does, and wait up to `NOVELLA_INTERFACE_SECONDS` until the guest has it.

    Raises what `attach` raises, and ActionFailed if the workflow has failed. The port is then free again, or deleted if
    it was created for the server.
    """
    interface = attach(context, instance_uuid, requested)
    alias = actions.cell_of(context, instance_uuid)
    seconds = min(settings.NOVELLA_INTERFACE_SECONDS, settings.NOVELLA_REQUEST_SECONDS / 2)
    state = workflows.end_of(alias, interface.run_uuid, seconds)
    if state is None:
        return interface
    if state != RunState.DONE:
        raise _failed(alias, instance_uuid, interface.run_uuid)
    port = next((port for port in ports.plugged(instance_uuid) if str(port.uuid) == interface.port_id), None)
    return interface if port is None else _view(port, run_uuid=interface.run_uuid)


def _failed(alias: str, instance_uuid: str, run_uuid: str) -> ActionFailed:
    """Return Nova's error message, with the cause."""
    errors = WorkflowRun.objects.using(alias).filter(uuid=run_uuid).values_list("error", flat=True)
    cause = (errors.first() or {}).get("message") or "It was cancelled."
    return ActionFailed(
        f"Failed to attach network adapter device to {instance_uuid}: {cause} Workflow {run_uuid} has the details."
    )


def detach(context: RequestContext, instance_uuid: str, port_id: str, *, is_deleted: bool = False) -> str:
    """Detach a port, and with `is_deleted` delete it; returns the uuid of the workflow. Raises what `attach` raises."""
    found = get(context, instance_uuid, port_id)

    def still_there(alias: str, instance: Instance, run_uuid: UUID) -> None:
        if found.port_id not in {port["port_uuid"] for port in instance.addresses}:
            raise NotFound(f"Instance {instance_uuid} does not have a port with id {port_id[:60]}.")

    inputs = {"port_id": found.port_id, "is_deleted": is_deleted}
    requested = ActionRequest(inputs=inputs, resources=[f"port:{found.port_id}"], prepare=still_there)
    return actions.begin(context, instance_uuid, "detach_interface", requested)


def create_port(context: RequestContext, requested: PortCreate) -> Port:
    """Create a port. Raises DeviceNotFound for another project's server as its device, and as port_operations does."""
    _refuse_foreign_server(context, requested.values or {})
    return port_operations.create_port(context, requested)


def update_port(context: RequestContext, port_id: str, changes: Mapping[str, Any]) -> Port:
    """Change a port that no workflow has locked.

    Raises ResourceLocked naming the workflow, DeviceNotFound for another project's server as its device.
    """
    _refuse_foreign_server(context, changes)
    with write_tx():
        locks.require_free(f"port:{get_port(context, port_id).uuid}")
        return port_operations.update_port(context, port_id, changes)


def _refuse_foreign_server(context: RequestContext, values: Mapping[str, Any]) -> None:
    """Raise where a port names a server as its device that the caller does not see, as it would be among its
    addresses.
    """
    wanted = uuid_or_none(values.get("device_id") or "")
    mapping = InstanceMapping.objects.filter(instance_uuid=wanted).first() if wanted else None
    if mapping is not None and not context.may_see_project(mapping.project_id):
        raise DeviceNotFound(f"Device {values['device_id']} could not be found.")


def delete_port(context: RequestContext, port_id: str) -> None:
    """Delete a port. One that a server uses is detached first, by a workflow that ends with the port.

    Raises NotFound, ResourceLocked naming the workflow, Conflict where its server cannot release it.
    """
    port = get_port(context, port_id)
    if port.is_plugged and _has(context, port):
        detach(context, port.device_id, port_id, is_deleted=True)
        return
    with write_tx():
        locks.require_free(f"port:{port.uuid}")
        port_operations.delete_port(context, port_id)


def _has(context: RequestContext, port: Port) -> bool:
    """Whether the server that the port names exists; an administrator may bind a port to any name."""
    try:
        return any(one.port_id == str(port.uuid) for one in list_interfaces(context, port.device_id))
    except NotFound:
        return False


def _wanted(context: RequestContext, requested: InterfaceCreate) -> dict[str, str]:
    """Return the request resolved by ports.resolve_requests. Raises NotFound for unknown ports and networks."""
    if requested.port_id and (requested.network_id or requested.fixed_ip):
        raise Invalid("A port has its network and addresses: name it alone.", field="interfaceAttachment.port_id")
    if requested.fixed_ip and not requested.network_id:
        raise Invalid("Name the network of the address too.", field="interfaceAttachment.net_id")
    if requested.port_id:
        locks.require_free(f"port:{get_port(context, requested.port_id).uuid}")
    if requested.network_id:
        get_network(context, requested.network_id)
    named = bool(requested.port_id or requested.network_id)
    given = [NetworkRequest(requested.network_id, requested.port_id, requested.fixed_ip)] if named else None
    found = ports.resolve_requests(context, given)
    if not found:
        raise Invalid("There is no network that the server could be plugged into.", field="interfaceAttachment.net_id")
    return found[0]


def _row(context: RequestContext, instance_uuid: str) -> Instance:
    alias = actions.cell_of(context, instance_uuid)
    row = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if row is None:
        raise missing(instance_uuid)
    return row


def _view(port: Port, *, tag: str | None = None, run_uuid: str = "") -> Interface:
    held = sorted(port.addresses.all(), key=lambda address: address.pk)
    return Interface(
        port_id=str(port.uuid),
        network_id=str(port.network.uuid),
        mac_address=port.mac_address,
        status=port.status,
        addresses=tuple((str(address.subnet.uuid), address.ip_address) for address in held),
        tag=tag or port.device_tag,
        run_uuid=run_uuid,
        network_name=port.network.name,
    )
