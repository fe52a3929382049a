"""The server is on no host: say so."""

from __future__ import annotations

from conductor.core.states import VmState
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows


class MarkOffloaded(Step):
    title = "Mark as offloaded"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(
            work, vm_state=VmState.SHELVED_OFFLOADED, task_state=None, host=None, node=None, availability_zone=""
        )
