"""Give the instance its ports and addresses."""

from __future__ import annotations

from conductor.core.states import TaskState
from conductor.network import ports
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class PlugNetworks(Step):
    title = "Plug networks"
    lane = "Cell conductor"
    event = "compute_allocate_networks"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.NETWORKING)

    def execute(self, work: Work) -> Result:
        instance = instance_rows.read(work)
        with work.fenced("default"):
            plugged = ports.plug(
                instance_uuid=str(instance.uuid),
                project_id=instance.project_id,
                networks=instance.networks,
                host=instance.host or "",
                device_owner=f"compute:{instance.availability_zone}",
                groups=instance.security_groups,
            )
        return {"ports": plugged}

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, addresses=result["ports"])

    def revert(self, work: Work, result: Result) -> None:
        with work.fenced("default"):
            ports.unplug(work.instance_uuid)

    def apply_revert(self, work: Work) -> None:
        instance_rows.update(work, addresses=[])
