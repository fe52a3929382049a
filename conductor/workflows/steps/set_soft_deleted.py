"""The guest is off and kept: its owner may have it back until it is reclaimed."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.transactions import database_now
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.set_state import SetState


class SetSoftDeleted(SetState):
    def __init__(self) -> None:
        super().__init__(VmState.SOFT_DELETED, PowerState.SHUTDOWN)

    def more(self, work: Work) -> dict[str, Any]:
        if instance_rows.read(work).soft_deleted_at is not None:  # asked twice, deleted once
            return {}
        return {"soft_deleted_at": database_now()}


class SetRestored(SetState):
    def __init__(self) -> None:
        super().__init__(VmState.ACTIVE, PowerState.RUNNING)

    def more(self, work: Work) -> dict[str, Any]:
        return {"soft_deleted_at": None}
