"""External events of other services about servers: a table of kinds and their handlers.

Each event is accepted or refused by itself. Accepted ones are in the event log of the server's cell. Handlers never
wait: they act at once or start a workflow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db import DatabaseError

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import BlockDevice, Instance
from conductor.cells.lookup import CELL0
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, NotFound, NotSupported
from conductor.db.transactions import database_now, write_tx
from conductor.network import ports
from conductor.rpc import outbox
from conductor.services.servers import actions, interfaces
from conductor.services.servers.actions import ActionRequest
from conductor.services.volumes import volumes
from conductor.volume.models import Volume
from conductor.volume.states import IN_USE

log = logging.getLogger(__name__)

TAKEN, MALFORMED, UNKNOWN, WITHOUT_HOST = 200, 400, 404, 422
POWER = {"POWER_ON": "start", "POWER_OFF": "stop"}


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """One event as received; `tag` names the port, volume or state that it is about."""

    name: str
    instance_uuid: str
    status: str = "completed"
    tag: str | None = None


Act = Callable[[RequestContext, str, Instance, ExternalEvent], None]


@dataclass(frozen=True, slots=True)
class EventRule:
    """Handler of an event, and its permitted tags; `tags` None means any, or none."""

    act: Act
    needs_tag: bool = False
    tags: frozenset[str] | None = None


def take(context: RequestContext, lines: Sequence[ExternalEvent]) -> list[int]:
    """Handle events in their order; returns the status code of each."""
    wanted = {event.instance_uuid for event in lines}
    mappings = InstanceMapping.objects.select_related("cell").filter(instance_uuid__in=wanted, is_deleted=False)
    cells = {str(mapping.instance_uuid): mapping.cell.name if mapping.cell else "" for mapping in mappings}
    return [_take(context, event, cells.get(event.instance_uuid)) for event in lines]


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
        values = {"name": event.name, "status": event.status, "tag": event.tag}
        events.append(cell, about, "instance.external_event", values)
    kind.act(_as_ours(context, instance), cell, instance, event)
    return TAKEN


def _as_ours(context: RequestContext, instance: Instance) -> RequestContext:
    """Return the system's context in the server's project, with the request id of the event."""
    return replace(system_context(context.request_id), project_id=instance.project_id)


def _note(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Do nothing: the event is in the event log, and nothing waits for it."""


def _look_at_ports(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Store the ports' current addresses. Skipped while a workflow is under way, which stores them itself."""
    addresses = ports.network_info(str(instance.uuid))
    with write_tx(cell):
        rows = Instance.objects.using(cell).alive().filter(pk=instance.pk, task_state=None).select_for_update()
        found = rows.first()
        if found is None or found.addresses == addresses:
            return
        rows.update(addresses=addresses, updated_at=database_now())
        about = events.about_instance(instance.uuid, instance.project_id)
        events.append(cell, about, "instance.updated", {"changed": ["addresses"]})


def _lose_port(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Detach a port that is being deleted. If it is gone already, update the addresses."""
    try:
        interfaces.detach(context, str(instance.uuid), event.tag or "", is_deleted=True)
    except NotFound:
        _look_at_ports(context, cell, instance, event)
    except (Conflict, NotSupported) as error:
        log.info("port left plugged: instance=%s port=%s: %s", instance.uuid, event.tag, error)


def _extend_volume(context: RequestContext, cell: str, instance: Instance, event: ExternalEvent) -> None:
    """Start a workflow that grows an attached volume in the guest, after any workflow under way."""
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
    """Start or stop the server as its machine was started or stopped. Does nothing where it is in that state
    already.
    """
    name = POWER[event.tag or ""]
    try:
        reason = {"reason": f"its machine was set to {event.tag}", "timeout_seconds": 0.0}
        actions.begin(context, str(instance.uuid), name, ActionRequest(inputs=reason))
    except (Conflict, NotSupported) as error:
        log.info("power-update not followed: instance=%s: %s", instance.uuid, error)


KINDS: Mapping[str, EventRule] = {
    "network-changed": EventRule(_look_at_ports),
    "network-vif-plugged": EventRule(_look_at_ports),
    "network-vif-unplugged": EventRule(_look_at_ports),
    "network-vif-deleted": EventRule(_lose_port),
    "volume-extended": EventRule(_extend_volume, needs_tag=True),
    "power-update": EventRule(_follow_power, needs_tag=True, tags=frozenset(POWER)),
    "accelerator-request-bound": EventRule(_note, needs_tag=True),
    "volume-reimaged": EventRule(_note),
}


def extend(context: RequestContext, volume_id: str, size_gb: int, *, may_be_in_use: bool = False) -> Volume:
    """Extend a volume as volumes.extend does, and notify its servers. A cell that is down does not prevent it."""
    volume = volumes.extend(context, volume_id, size_gb, may_be_in_use=may_be_in_use)
    lent = volume.attachments.filter(status=IN_USE, instance_uuid__isnull=False)
    for instance_uuid in lent.values_list("instance_uuid", flat=True):
        reported = ExternalEvent("volume-extended", str(instance_uuid), tag=str(volume.uuid))
        try:
            take(context, [reported])
        except DatabaseError:
            log.warning("growth not sent: instance=%s volume=%s", instance_uuid, volume.uuid)
    return volume
