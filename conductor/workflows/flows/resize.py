"""Flows for resize and cold migration: move a stopped guest, then confirm or revert the move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from conductor.cell_db.models import Migration
from conductor.cells.hosts import is_fenced
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
    """Has the source stop the guest and prepare its disks for the destination; the source keeps everything."""

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
        """Restore the guest at the source."""
        migration = moves.read(work)
        return RevertMigration(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=moves.old_flavor(migration)),
            is_running=migration.was_running,
        )


class MovePortsOut(MovePorts):
    """Binds the ports and volumes to the destination, while the disks of the stopped guest are transferred."""

    name = "MovePortsOut"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_MIGRATED)


class MigrateInAtDestination(RemoteStep):
    """Has the destination fetch the disks and build the guest in its new size."""

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
        """Destroy it there; on the same host, the restored guest replaces it."""
        migration = moves.read(work)
        if _stays_on_host(migration):  # the restored guest there replaces what was built
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))


class MarkResized(Step):
    """Sets the server to resized, with its new host and size, until the resize is confirmed or reverted.

    No revert: nothing can fail after it.
    """

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
    """Has the source remove what it kept, as soon as the source answers."""

    title = "Remove from source"
    event = "compute_confirm_resize"
    retry = UNTIL_DONE

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.CONFIRMING)

    def command(self, work: StepContext) -> Any:
        return ConfirmMigration(**addressed(work, moves.read(work).source_host))


class MarkConfirmed(Step):
    """Sets the server to active, or to stopped if the guest is off."""

    title = "Confirm"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        is_off = instance_rows.read(work).power_state == PowerState.SHUTDOWN
        vm_state = VmState.STOPPED if is_off else VmState.ACTIVE
        instance_rows.update(work, vm_state=vm_state, previous_vm_state="", task_state=None)
        moves.update(work, status=MigrationStatus.CONFIRMED)


class DestroyAtDestination(RemoteStep):
    """Destroys the guest at the destination, as soon as it answers; on the same host nothing is left to destroy."""

    title = "Destroy at destination"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        if _stays_on_host(migration):  # the source has replaced it already
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))


class RevertAtSource(RemoteStep):
    """Has the source restore the guest; repeated until it is done, or until the source is known to be off."""

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
        """Have the source keep its guest off, before anything else."""
        return MigrateOut(**self._source(work), destination=moves.read(work).destination_host or "")

    def _source(self, work: StepContext) -> dict[str, Any]:
        """Return the source's address and the guest in its old size."""
        migration = moves.read(work)
        guest = guest_of(work, instance_rows.read(work), flavor=moves.old_flavor(migration))
        return {**addressed(work, migration.source_host), "guest": guest}


class StepBack(Step):
    """Returns the migration's allocation to the server; the quota counts the old size."""

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
    """Stops the guest at the destination without destroying it, so that it never runs twice and nothing is lost."""

    title = "Stop at destination"
    event = "compute_revert_resize"

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.REVERTING)

    def command(self, work: StepContext) -> Any:
        return PowerOff(**addressed(work, moves.read(work).destination_host or ""))

    def revert_command(self, work: StepContext) -> Any:
        """Start it, if it was running."""
        migration = moves.read(work)
        if not migration.was_running:
            return None
        guest = guest_of(work, instance_rows.read(work))
        return PowerOn(**addressed(work, migration.destination_host or ""), guest=guest)


class MovePortsBack(MovePorts):
    """Binds the ports and volumes to the source."""

    name = "MovePortsBack"
    title = "Move ports back"

    def execute(self, work: StepContext) -> Result:
        moves.bind(work, moves.read(work).source_host)
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Bind them to the destination."""
        moves.bind(work, moves.read(work).destination_host or "")


class MarkReverted(Step):
    """Restores the server's previous state, host and size."""

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
    """Counts the larger of both sizes in the quota.

    The check at acceptance does not see concurrent requests.
    """

    title = "Reserve quota"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        migration = moves.read(work)
        old, new = moves.old_flavor(migration), moves.new_flavor(migration)
        with work.fenced("default"):
            claims.grow(work.instance_uuid, old=old, new=new, limits=work.inputs.get("limits", {}))
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Count the old size."""
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
