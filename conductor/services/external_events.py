"""What other services tell of servers: each kind of event is a row of a table, with what follows from it.

An event is taken or refused by itself; taken ones are in the event log of the server's cell. Nothing here waits, so
that what follows is either done at once or a workflow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import BlockDevice, Instance
from conductor.cells.lookup import CELL0
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, NotFound, NotSupported
from conductor.network import ports
from conductor.rpc import outbox
from conductor.services import server_actions, server_interfaces
from conductor.services.server_actions import Asked
from conductor.transactions import database_now, write_tx

log = logging.getLogger(__name__)

TAKEN, MALFORMED, UNKNOWN, WITHOUT_HOST = 200, 400, 404, 422
POWER = {"POWER_ON": "start", "POWER_OFF": "stop"}


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """One event as it was told; `tag` names the port, volume or state that it is about."""

    name: str
    instance_uuid: str
    status: str = "completed"
    tag: str | None = None


Act = Callable[[RequestContext, str, Instance, ExternalEvent], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """What follows from an event, and which tags it may have; `tags` None means any, also none."""

    act: Act
    needs_tag: bool = False
    tags: frozenset[str] | None = None


def take(context: RequestContext, told: Sequence[ExternalEvent]) -> list[int]:
    """Act on events, in their order; for each the code that it is answered with."""
    wanted = {event.instance_uuid for event in told}
    mappings = InstanceMapping.objects.select_related("cell").filter(instance_uuid__in=wanted, is_deleted=False)
    cells = {str(mapping.instance_uuid): mapping.cell.name if mapping.cell else "" for mapping in mappings}
    return [_take(context, event, cells.get(event.instance_uuid)) for event in told]


def _take(context: RequestContext, event: ExternalEvent, cell: str | None) -> int:
    kind = KINDS[event.name]
    if cell is None:
        return UNKNOWN
    if (kind.needs_tag and not event.tag) or (kind.tags is not None and event.tag not in kind.tags):
        return MALFORMED
    rows = Instance.objects.using(cell).alive() if cell not in ("", CELL0) else Instance.objects.using(CELL0).none()
    instance = rows.filter(uuid=event.instance_uuid).first()
    if instance is None or not instance.host:
        return WITHOUT_HOST
    with write_tx(cell):
        about = events.about_instance(instance.uuid, instance.project_id)
        said = {"name": event.name, "status": event.status, "tag": event.tag}
        events.append(cell, about, "instance.external_event", said)
    kind.act(_as_ours(context, instance), cell, instance, event)
    return TAKEN


def _as_ours(context: RequestContext, instance: Instance) -> RequestContext:
    """What follows is the product's own work in the server's project, under the request that told of it."""
    return replace(system_context(context.request_id), project_id=instance.project_id)


def _note(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Nothing waits for it: it is in the event log."""


def _look_at_ports(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Keep the addresses that the ports have now. A workflow that is at work does so itself."""
    addresses = ports.told(str(instance.uuid))
    with write_tx(cell):
        rows = Instance.objects.using(cell).alive().filter(pk=instance.pk, task_state=None).select_for_update()
        found = rows.first()
        if found is None or found.addresses == addresses:
            return
        rows.update(addresses=addresses, updated_at=database_now())
        about = events.about_instance(instance.uuid, instance.project_id)
        events.append(cell, about, "instance.updated", {"changed": ["addresses"]})


def _lose_port(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Unplug a port that is being deleted; one that is gone already is forgotten."""
    try:
        server_interfaces.detach(context, str(instance.uuid), event.tag or "", is_deleted=True)
    except NotFound:
        _look_at_ports(context, cell, instance, event)
    except (Conflict, NotSupported) as error:
        log.info("port left plugged: instance=%s port=%s: %s", instance.uuid, event.tag, error)


def _extend_volume(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Have the guest see that a volume of its server grew, after whatever is under work there."""
    devices = BlockDevice.objects.using(cell).filter(instance_uuid=instance.uuid)
    device = next((one for one in devices if str(one.volume_uuid) == event.tag), None)
    if device is None:
        log.info("volume grew that is not attached: instance=%s volume=%s", instance.uuid, event.tag)
        return
    wanted = outbox.NewRun(
        flow="extend_volume",
        action="extend_volume",
        context=context,
        resources=[f"instance:{instance.uuid}"],
        instance_uuid=instance.uuid,
        instance_name=instance.name,
        inputs={"attachment_id": str(device.uuid), "volume_id": event.tag},
    )
    with write_tx(cell):
        outbox.open_run(cell, wanted, may_wait=True)


def _follow_power(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Start or stop the server, as its machine was. Where it is so already, nothing follows."""
    name = POWER[event.tag or ""]
    try:
        reason = {"reason": f"its machine was told to be {event.tag}", "timeout_seconds": 0.0}
        server_actions.begin(context, str(instance.uuid), name, Asked(inputs=reason))
    except (Conflict, NotSupported) as error:
        log.info("power-update not followed: instance=%s: %s", instance.uuid, error)


KINDS: Mapping[str, Kind] = {
    "network-changed": Kind(_look_at_ports),
    "network-vif-plugged": Kind(_look_at_ports),
    "network-vif-unplugged": Kind(_look_at_ports),
    "network-vif-deleted": Kind(_lose_port),
    "volume-extended": Kind(_extend_volume, needs_tag=True),
    "power-update": Kind(_follow_power, needs_tag=True, tags=frozenset(POWER)),
    "accelerator-request-bound": Kind(_note, needs_tag=True),
    "volume-reimaged": Kind(_note),
}
