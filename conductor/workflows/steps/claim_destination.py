"""Take the host that was chosen, or after a failure the next alternate in the cell."""

from __future__ import annotations

from typing import Any

from django.db import connections

from conductor.cell_db import build_failures
from conductor.core.errors import NoValidHost
from conductor.core.selection import Selection
from conductor.journal import checkpoints
from conductor.scheduler import allocation_claims, manager
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import host_use, instance_rows
from conductor.workflows.steps.spawn_on_host import SpawnOnHost


class ClaimDestination(Step):
    """The scheduler has claimed for the first attempt; later ones claim an alternate, which may be full by now."""

    title = "Claim host"
    lane = "Cell conductor"

    def is_local_in(self, work: Work) -> bool:
        return work.attempt == 1

    def execute(self, work: Work) -> Result:
        if work.attempt == 1:
            return {"selection": work.inputs["selections"][0]}
        instance = instance_rows.read(work)
        alternates = [Selection.from_json(item) for item in alternates_left(work)]
        with work.fenced("default"):
            chosen = manager.claim_alternate(
                str(instance.uuid), project_id=instance.project_id, user_id=instance.user_id, alternates=alternates
            )
        if chosen is None:
            raise NoValidHost("No alternate host in the cell has room any more.")
        return {"selection": chosen.to_json()}

    def apply(self, work: Work, result: Result) -> None:
        chosen = Selection.from_json(result["selection"])
        host_use.hold(work, chosen.host)
        tried = [*work.run.variables.get("tried_hosts", []), chosen.host]
        work.run.variables["tried_hosts"] = tried
        instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)

    def revert(self, work: Work, result: Result) -> None:
        with work.fenced("default"):
            allocation_claims.release(work.instance_uuid)

    def apply_revert(self, work: Work) -> None:
        _note_failure(work)
        host_use.let_go(work)
        instance_rows.update(work, host=None, node=None)


def _note_failure(work: Work) -> None:
    """Count the build against its host where that failed at it, and another host might have done better."""
    error = checkpoints.last_failure(connections[work.alias], work.run.pk, work.attempt)
    is_the_hosts = error.get("step") == SpawnOnHost.name and error.get("is_reschedulable")
    if is_the_hosts and not error.get("is_ordered") and not work.run.is_cancel_requested:
        build_failures.note(work.alias, instance_rows.read(work).host or "")


def alternates_left(work: Work) -> list[dict[str, Any]]:
    """Selections of this request on hosts that were not tried yet, best first."""
    tried = work.run.variables.get("tried_hosts", [])
    return [selection for selection in work.inputs["selections"] if selection["host"] not in tried]
