"""Have the server's ports and volumes on its new host."""

from __future__ import annotations

from conductor.network import ports
from conductor.volume import operations as volumes
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.choose_host_again import is_offloaded


class BindPorts(Step):
    """A shelved server that its host still keeps has them there."""

    title = "Bind ports"
    lane = "Cell conductor"
    event = "compute_allocate_networks"

    def execute(self, work: Work) -> Result:
        if not is_offloaded(work):
            return {}
        instance = instance_rows.read(work)
        with work.fenced("default"):
            bound = ports.bind(work.instance_uuid, instance.host or "", f"compute:{instance.availability_zone}")
            volumes.move(work.instance_uuid, instance.host or "")
        return {"ports": bound}

    def apply(self, work: Work, result: Result) -> None:
        if "ports" in result:
            instance_rows.update(work, addresses=result["ports"])

    def revert(self, work: Work, result: Result) -> None:
        if is_offloaded(work):
            with work.fenced("default"):
                ports.unbind(work.instance_uuid)
                volumes.move(work.instance_uuid, "")
