"""The guest has let the port go: it is free again, or gone where it was made for the guest or is to be deleted."""

from __future__ import annotations

from conductor.network import ports
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.plug_port import without


class UnplugPort(Step):
    """No revert, and no cancel from here on: somebody else may have its address the next moment."""

    title = "Release port"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            ports.unplug_one(work.instance_uuid, work.inputs["port_id"], is_deleted=work.inputs["is_deleted"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, addresses=without(work))
