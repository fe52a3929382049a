"""The server's ports and volumes are on no host any more; it keeps them, with their addresses and data."""

from __future__ import annotations

from conductor.network import ports
from conductor.volume import operations as volumes
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class UnbindPorts(Step):
    title = "Unbind ports"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            ports.unbind(work.instance_uuid)
            volumes.move(work.instance_uuid, "")
        return {}
