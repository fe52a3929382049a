"""Observers of workflows: code that is notified of events, and cannot influence them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conductor.core.extensions.base import Extension


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """A committed event: its kind, as in the event log, its subject, and its number."""

    kind: str
    topic: str
    cell: str
    number: int
    project_id: str = ""
    run_uuid: str = ""
    instance_uuid: str = ""


class FlowObserver(Extension):
    """Receives each event after its commit, one after another, in a process of its own beside that of the workflow.

    Delivery is at most once: events are lost while it exceeds its time, or while the process ends. Use a notification
    sink where no event may be lost. It has no database and cannot hold up a workflow.
    """

    kind: ClassVar[str] = "flow_observer"
    method: ClassVar[str] = "observe"
    keeps_process: ClassVar[bool] = True

    def observe(self, event: FlowEvent) -> None:
        """Handle one event."""
        raise NotImplementedError
