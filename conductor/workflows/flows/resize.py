"""Flows for resize and cold migration: move a stopped guest, then confirm or revert the move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from conductor.cell_db.models import Migration
from conductor.cells.host_liveness import is_fenced
from conductor.core.errors import HostUnresponsive
from conductor.core.states import MigrationStatus, PowerState, TaskState, VmState
from conductor.rpc.messages import (
    ConfirmMigration,
    DestroyInstance,
    MigrateIn,
    MigrateOut,
    PowerOff,
    PowerOn,
    RevertMigration,
)
from conductor.scheduler import claims
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows, moves
from conductor.workflows.steps.moves import (
    LookAtSource,
    MarkMoveFailed,
    MovePorts,
    PickDestination,
    SettleMove,
)
from conductor.workflows.steps.on_host import addressed, guest_of


def _power_after(migration: Migration) -> PowerState:
    """Return the guest's power state at the end, which is the one before the move."""
    return PowerState.RUNNING if migration.was_running else PowerState.SHUTDOWN


def _stays_on_host(migration: Migration) -> bool:
    """Whether the guest only changes its size: source and destination are the same host."""
    return migration.source_host == migration.destination_host


class MigrateOutOfSource(RemoteStep):
    title = "Stop and transfer"
    event = "compute_resize_instance"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_MIGRATING)
        moves.update(work, status=MigrationStatus.MIGRATING)

    def command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        return MigrateOut(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=moves.old_flavor(migration)),
            destination=migration.destination_host or "",
        )

    def revert_command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        return RevertMigration(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=moves.old_flavor(migration)),
            is_running=migration.was_running,
        )


class MovePortsOut(MovePorts):
    """Moves the ports of a stopped guest, while its disks are transferred."""

    name = "MovePortsOut"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_MIGRATED)


class MigrateInAtDestination(RemoteStep):
    title = "Build at destination"
    event = "compute_finish_resize"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_FINISH)

    def command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        return MigrateIn(
            **addressed(work, migration.destination_host or ""),
            guest=guest_of(work, instance_rows.read(work), flavor=moves.new_flavor(migration)),
            disks=dict(work.result_of(MigrateOutOfSource)),
            is_running=migration.was_running,
        )

    def revert_command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        if _stays_on_host(migration):  # the restored guest there replaces what was built
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))


class MarkResized(Step):
    title = "Await confirmation"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        instance, migration = instance_rows.read(work), moves.read(work)
        chosen = moves.chosen(work)
        instance_rows.update(
            work,
            host=chosen.host,
            node=chosen.node,
            availability_zone=chosen.availability_zone,
            flavor=migration.new_flavor,
            previous_vm_state=instance.vm_state,
            vm_state=VmState.RESIZED,
            power_state=_power_after(migration),
            task_state=None,
        )
        moves.update(work, status=MigrationStatus.FINISHED)


class ConfirmAtSource(RemoteStep):
    title = "Remove from source"
    event = "compute_confirm_resize"
    retry = UNTIL_DONE

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.CONFIRMING)

    def command(self, work: StepContext) -> Any:
        return ConfirmMigration(**addressed(work, moves.read(work).source_host))


class MarkConfirmed(Step):
    title = "Confirm"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        is_off = instance_rows.read(work).power_state == PowerState.SHUTDOWN
        vm_state = VmState.STOPPED if is_off else VmState.ACTIVE
        instance_rows.update(work, vm_state=vm_state, previous_vm_state="", task_state=None)
        moves.update(work, status=MigrationStatus.CONFIRMED)


class DestroyAtDestination(RemoteStep):
    title = "Destroy at destination"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        if _stays_on_host(migration):  # the source has replaced it already
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))


class RevertAtSource(RemoteStep):
    title = "Restore at source"
    event = "compute_finish_revert_resize"
    retry = UNTIL_DONE

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        migration = moves.read(work)
        if error.get("class") != HostUnresponsive.__name__ or _stays_on_host(migration):
            return False
        return is_fenced(work.alias, migration.source_host)

    def command(self, work: StepContext) -> Any:
        return RevertMigration(**self._source(work), is_running=moves.read(work).was_running)

    def revert_command(self, work: StepContext) -> Any:
        return MigrateOut(**self._source(work), destination=moves.read(work).destination_host or "")

    def _source(self, work: StepContext) -> dict[str, Any]:
        """Return the source's address and the guest in its old size."""
        migration = moves.read(work)
        guest = guest_of(work, instance_rows.read(work), flavor=moves.old_flavor(migration))
        return {**addressed(work, migration.source_host), "guest": guest}


class StepBack(Step):
    title = "Claim source again"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        instance, migration = instance_rows.read(work), moves.read(work)
        flavor = moves.old_flavor(migration)
        with work.fenced("default"):
            claims.step_back(
                instance.uuid,
                migration.uuid,
                held=migration.details.get("held", {}),
                owner=(instance.project_id, instance.user_id),
            )
            claims.take(work.instance_uuid, flavor.vcpus, flavor.memory_mb)
        return {}


class StopAtDestination(RemoteStep):
    title = "Stop at destination"
    event = "compute_revert_resize"

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.REVERTING)

    def command(self, work: StepContext) -> Any:
        return PowerOff(**addressed(work, moves.read(work).destination_host or ""))

    def revert_command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        if not migration.was_running:
            return None
        guest = guest_of(work, instance_rows.read(work))
        return PowerOn(**addressed(work, migration.destination_host or ""), guest=guest)


class MovePortsBack(MovePorts):
    """Moves the ports back to the source."""

    name = "MovePortsBack"
    title = "Move ports back"

    def execute(self, work: StepContext) -> Result:
        moves.bind(work, moves.read(work).source_host)
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        moves.bind(work, moves.read(work).destination_host or "")


class MarkReverted(Step):
    title = "Mark as reverted"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        instance, migration = instance_rows.read(work), moves.read(work)
        instance_rows.update(
            work,
            host=migration.source_host,
            node=migration.source_node,
            availability_zone=migration.details.get("availability_zone", instance.availability_zone),
            flavor=migration.old_flavor,
            vm_state=instance.previous_vm_state,
            previous_vm_state="",
            power_state=_power_after(migration),
            task_state=None,
        )
        moves.update(work, status=MigrationStatus.REVERTED)


class ReserveQuota(Step):
    """Reserves quota again: the check at acceptance does not see concurrent requests."""

    title = "Reserve quota"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        migration = moves.read(work)
        old, new = moves.old_flavor(migration), moves.new_flavor(migration)
        with work.fenced("default"):
            claims.grow(work.instance_uuid, old=old, new=new, limits=work.inputs.get("limits", {}))
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        old = moves.old_flavor(moves.read(work))
        with work.fenced("default"):
            claims.take(work.instance_uuid, old.vcpus, old.memory_mb)


class ResizeInstance(Flow):
    def next_attempt(self, work: StepContext) -> bool:
        return not work.inputs.get("host")  # no alternates to a named host


RESIZE_INSTANCE = ResizeInstance(
    "resize_instance",
    version=1,
    steps=(
        LookAtSource(),  # checks the server and records its holdings at the source; no undo, as it only reads
        ReserveQuota(),  # the larger of both sizes until the resize is settled; revert releases the growth
        PickDestination(),  # claimed there; the holdings at the source become the migration's; revert moves them back
        MigrateOutOfSource(),  # the guest stops, its disks can be fetched; revert restores it as it was
        MovePortsOut(),  # ports are bound to the destination; revert binds them back
        MigrateInAtDestination(),  # the guest is built there in its new size; revert destroys it
        MarkResized(),  # VERIFY_RESIZE: host and size are the new ones; no undo, as nothing can fail after it
    ),
    on_failure=MarkMoveFailed(MigrationStatus.ERROR),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)


CONFIRM_RESIZE = Flow(
    "confirm_resize",
    version=1,
    steps=(
        ConfirmAtSource(),  # deletes the old disks; deferred for an unresponsive source
        SettleMove(),  # releases the migration's holdings at the source
        MarkConfirmed(),
    ),
    cancellable_until=None,  # after a confirmation there is nothing to return to
)


REVERT_RESIZE = Flow(
    "revert_resize",
    version=1,
    steps=(
        StopAtDestination(),  # stopped, not destroyed: if the source fails, it runs here again; revert starts it
        MovePortsBack(),  # ports are bound to the source; revert binds them to the destination
        RevertAtSource(),  # the guest is restored; it only returns to the destination if the source is known to be off
        DestroyAtDestination(),  # deferred for an unresponsive destination, until it is done
        StepBack(),  # the migration's allocation is the instance's again, and so is the old share of the quota
        MarkReverted(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.FINISHED),  # still to be confirmed or reverted
    on_cancel=MarkMoveFailed(MigrationStatus.FINISHED),
    cancellable_until="RevertAtSource",
)
