"""Choose a host for each instance of a request, in one pass, and claim it in placement."""

from __future__ import annotations

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.core.request_spec import RequestSpec
from conductor.scheduler import allocation_claims, manager
from conductor.workflows.flow import Result, Step, Work


class SelectDestinations(Step):
    """Asks the scheduler once. The step's key makes a repeated question get the first answer."""

    title = "Choose hosts"
    lane = "Scheduler"
    event = "schedule_instances"

    def execute(self, work: Work) -> Result:
        wanted = still_wanted(work)
        if not wanted:
            return {"selections": {}}
        spec = RequestSpec.from_json({**work.inputs["spec"], "num_instances": len(wanted)})
        chosen = manager.select_destinations(
            work.context,
            spec,
            wanted,
            step_key=work.step_key,
            run_uuid=str(work.run.uuid),
            transaction=work.fenced,  # a stale owner must not claim what nobody would give back
        )
        return {
            "selections": {
                instance_uuid: [selection.to_json() for selection in selections]
                for instance_uuid, selections in zip(wanted, chosen, strict=True)
            }
        }

    def revert(self, work: Work, result: Result) -> None:
        with work.fenced("default"):
            placed = InstanceMapping.objects.filter(
                instance_uuid__in=work.inputs["instance_uuids"], cell__isnull=False
            ).values_list("instance_uuid", flat=True)
            kept = {str(uuid) for uuid in placed}
            for instance_uuid in work.inputs["instance_uuids"]:
                if instance_uuid not in kept:
                    allocation_claims.release(instance_uuid)


def still_wanted(work: Work) -> list[str]:
    """Uuids of the request that nobody has deleted meanwhile, in the order asked."""
    rows = BuildRequest.objects.filter(run_uuid=work.run.uuid, is_deleting=False)
    wanted = {str(uuid) for uuid in rows.values_list("instance_uuid", flat=True)}
    return [uuid for uuid in work.inputs["instance_uuids"] if uuid in wanted]
