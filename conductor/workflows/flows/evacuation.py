"""Flow that evacuates a server: rebuilds it on another host because its own is down."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from conductor.core.states import MigrationStatus, PowerState, TaskState, VmState
from conductor.rpc.messages import DestroyInstance, HandBackInstance, SpawnInstance, TakeOverInstance
from conductor.scheduler import request_specs
from conductor.workflows.flow import Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows, moves
from conductor.workflows.steps.moves import LookAtSource, MarkMoveFailed, MovePorts, PickDestination
from conductor.workflows.steps.on_host import addressed, guest_of

TAKES_DISKS = "takes_disks"


class SpawnAtDestination(RemoteStep):
    """Builds the guest at the destination, from its disks on shared storage or else from its image."""

    title = "Build at destination"
    event = "compute_rebuild_instance"

    def on_start(self, work: StepContext) -> None:
        """Record whether the disks are shared, as the rollback needs it: a destroy would delete shared disks."""
        migration = moves.read(work)
        found = {TAKES_DISKS: request_specs.leaves_disks(work.alias, migration)}
        instance_rows.update(work, task_state=TaskState.REBUILD_SPAWNING)
        moves.update(work, status=MigrationStatus.PRE_MIGRATING, details={**migration.details, **found})

    def command(self, work: StepContext) -> Any:
        migration = moves.read(work)
        to = addressed(work, migration.destination_host or "")
        guest = guest_of(work, instance_rows.read(work), admin_password=str(work.secrets.get("admin_password", "")))
        is_running = bool(work.inputs.get("is_running", True))
        if migration.details.get(TAKES_DISKS):
            return TakeOverInstance(**to, guest=guest, source_host=migration.source_host, is_running=is_running)
        return SpawnInstance(**to, guest=guest, is_running=is_running)

    def revert_command(self, work: StepContext) -> Any:
        """Destroy it there; disks on shared storage stay, and belong to the dead host again."""
        migration = moves.read(work)
        to = addressed(work, migration.destination_host or "")
        if migration.details.get(TAKES_DISKS):
            return HandBackInstance(**to, source_host=migration.source_host)
        return DestroyInstance(**to)


class MarkEvacuated(Step):
    """Sets the server to active on its new host, or to stopped as requested; the migration is done."""

    title = "Mark as evacuated"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        chosen = moves.chosen(work)
        is_running = bool(work.inputs.get("is_running", True))
        instance_rows.update(
            work,
            host=chosen.host,
            node=chosen.node,
            availability_zone=chosen.availability_zone,
            vm_state=VmState.ACTIVE if is_running else VmState.STOPPED,
            power_state=PowerState.RUNNING if is_running else PowerState.SHUTDOWN,
            task_state=None,
        )
        moves.update(work, status=MigrationStatus.DONE)


class EvacuateInstance(Flow):
    def next_attempt(self, work: StepContext) -> bool:
        return not work.inputs.get("host")  # no alternates to a named host


EVACUATE_INSTANCE = EvacuateInstance(
    "evacuate_instance",
    version=1,
    steps=(
        LookAtSource(),  # checks the server and records its allocations at the source; no undo, as it only reads
        # claims there; the migration keeps the allocations at the failed host until that host is clean
        PickDestination(),
        MovePorts(),  # ports are bound to the destination; revert binds them back
        SpawnAtDestination(),  # one command to the destination; revert destroys what it built, or hands the disks back
        MarkEvacuated(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.ERROR, vm_state=VmState.ERROR),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED, vm_state=VmState.ERROR),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
