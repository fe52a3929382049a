"""Take the instance's ports away and give their addresses back."""

from __future__ import annotations

from conductor.network import ports
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows


class UnplugNetworks(Step):
    title = "Unplug networks"
    lane = "Cell conductor"
    event = "compute_deallocate_networks"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            ports.unplug(work.instance_uuid)
        return {}

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, addresses=[])
