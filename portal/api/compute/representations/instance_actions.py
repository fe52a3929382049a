"""JSON of server actions and their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conductor.services.servers.types import ActionEventView, ActionView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion

# Our actions that the API shows under another name.
NAMES = {"reboot_hard": "reboot", "soft_delete": "delete"}


@dataclass(frozen=True)
class Reader:
    """Version and rights of the caller that actions are shown to."""

    version: Microversion
    sees_events: bool
    sees_details: bool


def summary(action: ActionView, reader: Reader) -> dict[str, Any]:
    """Return an action in a list."""
    shown = {
        "action": NAMES.get(action.action, action.action),
        "instance_uuid": action.instance_uuid,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": parts.to_the_digit(action.started_at),
        "message": "Error" if action.is_failed else None,
    }
    return shown | {"updated_at": parts.to_the_digit(action.updated_at)} if reader.version.covers("2.58") else shown


def show(action: ActionView, reader: Reader) -> dict[str, Any]:
    """Return one action, with its events for callers that may see them."""
    shown = summary(action, reader)
    if reader.sees_events or reader.version.covers("2.51"):
        shown["events"] = [_event(action, event, reader) for event in action.events]
    return shown


def _event(action: ActionView, event: ActionEventView, reader: Reader) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "event": event.event,
        "start_time": parts.to_the_digit(event.started_at),
        "finish_time": parts.to_the_digit(event.finished_at),
        "result": event.result,
    }
    if reader.sees_details:
        shown["traceback"] = None  # stack traces stay private; the workflow shows what failed and why
    if reader.version.covers("2.62"):
        shown["hostId"] = parts.host_id(action.project_id, event.host)
        if reader.sees_details:
            shown["host"] = event.host
    if reader.version.covers("2.84"):
        shown["details"] = event.details
    return shown
