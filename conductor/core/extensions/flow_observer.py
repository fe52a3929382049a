"""Observers of workflows: code that is told what happened, and has no say in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conductor.core.extensions.base import Extension


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something that is committed: what (`kind`, as in the event log), about what, and under which number."""

    kind: str
    topic: str
    cell: str
    number: int
    project_id: str = ""
    run_uuid: str = ""
    instance_uuid: str = ""


class FlowObserver(Extension):
    """Is told each event after its commit, one after another, in the process where it happened.

    At most once: what happens while it is out of time, or while the process ends, it never hears of. Who must miss
    nothing is a notification sink. It has no database and cannot hold up a workflow.
    """

    kind: ClassVar[str] = "flow_observer"
    method: ClassVar[str] = "observe"

    def observe(self, event: FlowEvent) -> None:
        """Take note of it."""
        raise NotImplementedError
