"""Steps that all moves of servers share: resize, live migration and evacuation."""

from __future__ import annotations

from typing import Any

from conductor.cell_db.models import Migration
from conductor.core.errors import InstanceMoved
from conductor.core.request_spec import FlavorSpec
from conductor.core.selection import Selection
from conductor.core.states import MigrationStatus, VmState
from conductor.db.transactions import database_now
from conductor.journal.models import WorkflowRun
from conductor.network import ports
from conductor.placement import allocations
from conductor.scheduler import claims, manager, request_specs
from conductor.scheduler.decision_log import FAILED
from conductor.volume import operations as volumes
from conductor.workflows.flow import UNTIL_DONE, Result, Step, StepContext
from conductor.workflows.steps import instance_rows, instance_state
from conductor.workflows.steps.on_host import hold_host, let_go_of_hosts


def read(work: StepContext) -> Migration:
    """Return the migration in a run's inputs."""
    return Migration.objects.using(work.alias).get(uuid=work.inputs["migration_uuid"])


def update(work: StepContext, **values: Any) -> None:
    """Change the migration and notify the instance's subscribers; inside a fenced transaction."""
    rows = Migration.objects.using(work.alias).filter(uuid=work.inputs["migration_uuid"])
    rows.update(updated_at=database_now(), **values)
    instance_rows.emit(work, "instance.updated")


def old_flavor(migration: Migration) -> FlavorSpec:
    return FlavorSpec(**(migration.old_flavor or {}))


def new_flavor(migration: Migration) -> FlavorSpec:
    return FlavorSpec(**(migration.new_flavor or {}))


def chosen(work: StepContext, name: str = "PickDestination") -> Selection:
    """Return the destination that this attempt selected."""
    return Selection.from_json(work.run.variables[name]["selection"])


class LookAtSource(Step):
    """Checks that the server is still on the source, and notes its allocation.

    Workflows that were under way when the move was requested may have changed it.

    No revert: it only reads.
    """

    title = "Check source"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        return {"held": allocations.held_by(work.instance_uuid)}

    def commit(self, work: StepContext, result: Result) -> None:
        instance, migration = instance_rows.read(work), read(work)
        if instance.host != migration.source_host:
            raise InstanceMoved(f"The instance is on {instance.host} by now, not on {migration.source_host}.")
        kept = {"held": result["held"], "availability_zone": instance.availability_zone}
        update(work, details={**migration.details, **kept}, old_flavor=instance.flavor)


class PickDestination(Step):
    """Asks the scheduler for a host that was not tried before, and claims it; the migration gets the old allocation.

    Each attempt asks again: the hosts' capacity changes meanwhile. The destination is locked until the run ends.
    """

    title = "Select host"
    lane = "Scheduler"
    event = "cold_migrate"

    def execute(self, work: StepContext) -> Result:
        instance, migration = instance_rows.read(work), read(work)
        spec = request_specs.of(
            instance, migration, requested_host=work.inputs.get("host", ""), tried_hosts=tried_hosts(work)
        )
        ((chosen, *_),) = manager.call_one(manager.DestinationRequest.of(work, spec, [work.instance_uuid]))
        return {"selection": chosen.to_json()}

    def commit(self, work: StepContext, result: Result) -> None:
        chosen = Selection.from_json(result["selection"])
        hold_host(work, chosen.host)
        work.run.variables["tried_hosts"] = [*tried_hosts(work), chosen.host]
        update(work, destination_host=chosen.host, destination_node=chosen.node)

    def revert(self, work: StepContext, result: Result) -> None:
        """Release the claim, and return the old allocation to the server."""
        instance, migration = instance_rows.read(work), read(work)
        with work.fenced("default"):
            claims.step_back(
                instance.uuid,
                migration.uuid,
                held=migration.details.get("held", {}),
                owner=(instance.project_id, instance.user_id),
            )
            if result:
                manager.mark_alternate(str(work.run.uuid), work.instance_uuid, result["selection"]["host"], FAILED)

    def commit_revert(self, work: StepContext) -> None:
        let_go_of_hosts(work)
        update(work, destination_host=None, destination_node=None)


def tried_hosts(work: StepContext) -> list[str]:
    """Return the destinations of earlier attempts."""
    return list(work.run.variables.get("tried_hosts", []))


class MovePorts(Step):
    """Binds the ports and volumes to the destination."""

    title = "Move ports"
    lane = "Cell conductor"
    event = "compute_migrate_instance_finish"

    def execute(self, work: StepContext) -> Result:
        bind(work, read(work).destination_host or "")
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Bind them to the source."""
        bind(work, read(work).source_host)


def bind(work: StepContext, host: str) -> None:
    """Bind every port and volume of the instance to `host`."""
    zone = instance_rows.read(work).availability_zone
    with work.fenced("default"):
        ports.bind(work.instance_uuid, host, f"compute:{zone}")
        volumes.move(work.instance_uuid, host)


class MarkMoveFailed(Step):
    """Ends a failed move; the instance keeps its state, or is set to error if uncompensated effects need an operator.

    `status` is the migration's final status; `vm_state` is set where a failure itself is an error of the instance.
    """

    title = "Mark as failed"
    lane = "Cell conductor"

    def __init__(self, status: MigrationStatus, vm_state: VmState | None = None) -> None:
        self.status = status
        self.vm_state = vm_state

    def commit(self, work: StepContext, result: Result) -> None:
        error = work.run.error or {}
        instance_state.keep_first_cause(work)
        state = VmState.ERROR if work.run.uncompensated else self.vm_state
        if error.get("class") == InstanceMoved.__name__:  # nothing was begun
            state = None
        instance_rows.update(work, task_state=None, **({"vm_state": state} if state else {}))
        is_aborted = error.get("class") == "MigrationAborted"
        update(work, status=ended_as(work.run, MigrationStatus.CANCELLED if is_aborted else self.status))


def ended_as(run: WorkflowRun, status: MigrationStatus) -> MigrationStatus:
    """Return the final status of a move: `status`, or error if the run has uncompensated effects."""
    return MigrationStatus.ERROR if run.uncompensated else status


class SettleMove(Step):
    """Releases the migration's allocation at the source; the quota counts the new size."""

    title = "Release source"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        migration = read(work)
        flavor = new_flavor(migration)
        with work.fenced("default"):
            claims.settle(work.instance_uuid, migration.uuid)
            claims.take(work.instance_uuid, flavor.vcpus, flavor.memory_mb)
        return {}
