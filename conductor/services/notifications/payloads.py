"""Composition of notifications from events.

Fields are listed one by one, so that no secret can be included by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.core.notification_sink import Notification
from conductor.journal.models import Event, WorkflowRun
from conductor.services.notifications.event_types import INTERVENTION, SENT_ALONE, event_type_of

SCHEMA = "workflow.action"
VERSION = "1.0"  # an added field: 1.1; a removed or changed field: 2.0
# The UUID namespace of message ids: the same event always has the same id, so that receivers detect duplicates.
MESSAGES = UUID("6b8a9b0e-6f0c-4a39-9d0a-1f6f5f3c8a11")


def compose(alias: str, event: Event) -> Notification | None:
    """Return the notification of an event. None for an event without one."""
    if event.kind in SENT_ALONE:
        return _message_alone(alias, event)
    run = WorkflowRun.objects.using(alias).filter(uuid=event.run_uuid).first() if event.run_uuid else None
    if run is None:
        return None
    event_type = event_type_of(run.flow, run.action, event.kind, str(event.data.get("state", "")))
    if event_type is None:
        return None
    resource = f"instance:{run.instance_uuid}" if run.instance_uuid else f"workflow:{run.uuid}"
    return _notification(alias, event, event_type, resource, SCHEMA, _data(alias, run, event, event_type))


def _message_alone(alias: str, event: Event) -> Notification:
    """Compose the notification of a project's event without a workflow; its data has a schema of its own."""
    data = {"instance": None, "project_id": event.project_id, **event.data}
    return _notification(alias, event, event.kind, event.topic, event.kind, data)


def _notification(
    alias: str, event: Event, event_type: str, resource: str, schema: str, data: Mapping[str, Any]
) -> Notification:
    message_id = uuid5(MESSAGES, f"{alias}:{event.pk}")
    body = {
        "event_type": event_type,
        "priority": "ERROR" if event_type.endswith(".error") else "INFO",
        "publisher_id": f"novella:{alias}",
        "timestamp": event.created_at.isoformat(),
        "message_id": str(message_id),
        "payload": {"schema": schema, "version": VERSION, "data": data},
    }
    return Notification(message_id, event.pk, event_type, resource, body)


def for_tenants(message: Notification) -> Notification:
    """Return the message without data for operators only: the instance's host and node."""
    data = dict(message.body["payload"]["data"])
    if data["instance"] is not None:
        data["instance"] = {**data["instance"], "host": "", "node": ""}
    payload = {**message.body["payload"], "data": data}
    return replace(message, body={**message.body, "publisher_id": "novella", "payload": payload})


def _data(alias: str, run: WorkflowRun, event: Event, event_type: str) -> dict[str, Any]:
    error = event.data.get("error")
    intervention = {name: event.data.get(name, "") for name in ("intervention", "by", "reason", "step")}
    return {
        "workflow": {
            "uuid": str(run.uuid),
            "flow": run.flow,
            "action": run.action,
            "state": event.data.get("state", ""),
            "parent_uuid": str(run.parent_uuid or ""),
        },
        "request_id": run.request_id,
        "action_initiator_user": run.user_id,
        "action_initiator_project": run.project_id,
        "instance": _instance(alias, run),
        "fault": {"class": error.get("class", ""), "message": error.get("message", "")} if error else None,
        "intervention": intervention if event_type == INTERVENTION else None,
    }


def _instance(alias: str, run: WorkflowRun) -> dict[str, Any] | None:
    """Return the instance as of now; None at the API level, where there is none yet."""
    if alias == API_ALIAS or run.instance_uuid is None:
        return None
    row = Instance.objects.using(alias).filter(uuid=run.instance_uuid).first()
    if row is None:
        return None
    return {
        "uuid": str(row.uuid),
        "display_name": row.name,
        "state": row.vm_state,
        "task_state": row.task_state,
        "power_state": row.power_state,
        "host": row.host,
        "node": row.node,
        "availability_zone": row.availability_zone,
        "tenant_id": row.project_id,
        "user_id": row.user_id,
        "flavor": {name: row.flavor.get(name) for name in ("name", "flavor_id", "vcpus", "memory_mb", "root_gb")},
        "image_uuid": row.image.get("uuid") or row.image.get("image_id") or "",
        "ip_addresses": [held["ip_address"] for held in _held(row) if held.get("ip_address")],
        "tags": list(row.tags),
        "locked": row.is_locked,
    }


def _held(row: Instance) -> Iterator[Mapping[str, Any]]:
    """Yield each port's first address, and its further ones."""
    for port in row.addresses:
        yield port
        yield from port.get("more", ())
