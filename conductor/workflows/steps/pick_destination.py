"""Choose where an instance goes and claim it there; what it holds at its source goes to its migration meanwhile."""

from __future__ import annotations

from conductor.core.selection import Selection
from conductor.scheduler import manager, move_specs, moving
from conductor.scheduler.decision_log import FAILED
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import host_use, instance_rows, move_rows


class PickDestination(Step):
    """Asks the scheduler, in each attempt anew: what had room at first may be full by now, and other hosts free.

    Hosts that were tried before are left out. The destination is held until the run ends.
    """

    title = "Choose host"
    lane = "Scheduler"
    event = "cold_migrate"

    def execute(self, work: Work) -> Result:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        spec = move_specs.of(
            instance, migration, requested_host=work.inputs.get("host", ""), tried_hosts=tried_hosts(work)
        )
        ((chosen, *_),) = manager.select_destinations(
            work.context,
            spec,
            [work.instance_uuid],
            step_key=work.step_key,
            run_uuid=str(work.run.uuid),
            transaction=work.fenced,
        )
        return {"selection": chosen.to_json()}

    def apply(self, work: Work, result: Result) -> None:
        chosen = Selection.from_json(result["selection"])
        host_use.hold(work, chosen.host)
        work.run.variables["tried_hosts"] = [*tried_hosts(work), chosen.host]
        move_rows.update(work, destination_host=chosen.host, destination_node=chosen.node)

    def revert(self, work: Work, result: Result) -> None:
        instance, migration = instance_rows.read(work), move_rows.read(work)
        with work.fenced("default"):
            moving.step_back(
                instance.uuid,
                migration.uuid,
                held=migration.details.get("held", {}),
                owner=(instance.project_id, instance.user_id),
            )
            if result:
                manager.mark_alternate(str(work.run.uuid), work.instance_uuid, result["selection"]["host"], FAILED)

    def apply_revert(self, work: Work) -> None:
        host_use.let_go(work)
        move_rows.update(work, destination_host=None, destination_node=None)


def tried_hosts(work: Work) -> list[str]:
    """Destinations of the attempts before."""
    return list(work.run.variables.get("tried_hosts", []))
