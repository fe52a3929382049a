"""Flows of live migrations: move a running guest, and abort, force or adjust the move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.cell_db.models import Migration
from conductor.core.compute_driver import HAS_LEFT
from conductor.core.states import LIVE_RUN_STATES, MigrationStatus, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.network import ports
from conductor.rpc.messages import (
    AbortLiveMigration,
    CancelLiveMigration,
    FinishLiveMigration,
    ForceLiveMigration,
    LiveMigrate,
    PrepareLiveMigration,
    SteerLiveMigration,
)
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows, moves
from conductor.workflows.steps.moves import (
    LookAtSource,
    MarkMoveFailed,
    MovePorts,
    PickDestination,
    SettleMove,
    tried_hosts,
)
from conductor.workflows.steps.on_host import addressed, guest_of


class PreparePorts(Step):
    """Binds the ports to the destination too, so that it has their network before the guest arrives."""

    title = "Prepare ports"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        _set_destination(work, moves.read(work).destination_host or "")
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        """Leave them to the source alone."""
        _set_destination(work, "")


def _set_destination(work: StepContext, host: str) -> None:
    with work.fenced("default"):
        ports.set_destination(work.instance_uuid, host)


class PrepareAtDestination(RemoteStep):
    """Has the destination prepare for the guest; its answer has the address that the source needs."""

    title = "Prepare destination"
    event = "compute_pre_live_migration"

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.PREPARING)

    def command(self, work: StepContext) -> Any:
        return PrepareLiveMigration(
            **addressed(work, moves.read(work).destination_host or ""),
            guest=guest_of(work, instance_rows.read(work)),
            is_block_migration=work.inputs.get("block_migration"),
        )

    def revert_command(self, work: StepContext) -> Any:
        """Remove what was prepared, never a guest."""
        return CancelLiveMigration(**addressed(work, moves.read(work).destination_host or ""))


FIGURES = frozenset(
    {"memory_total", "memory_processed", "memory_remaining", "disk_total", "disk_processed", "disk_remaining"}
)
SOURCE_UNRESPONSIVE = "source_is_unresponsive"


def is_unsure(work: StepContext) -> bool:
    """Whether the source could not confirm that the guest is at the destination: then the destination decides."""
    result = work.result_of(MoveLive)
    return bool(result.get(SOURCE_UNRESPONSIVE) or result.get(HAS_LEFT))


class MoveLive(RemoteStep):
    """Has the source move the guest to the destination, and suspends until it is done.

    An unresponsive source gives no answer, and after a failure with the guest gone the source is unsure: then the
    destination decides.

    No revert: after a failure that the source reported, the guest still runs there.
    """

    title = "Migrate running server"
    event = "compute_live_migration"

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.RUNNING)

    def command(self, work: StepContext) -> Any:
        return LiveMigrate(
            **addressed(work, moves.read(work).source_host),
            guest=guest_of(work, instance_rows.read(work)),
            target=dict(work.result_of(PrepareAtDestination)),
            is_block_migration=work.inputs.get("block_migration"),
        )

    def on_silence(self, work: StepContext) -> Result:
        return {SOURCE_UNRESPONSIVE: True}

    def on_progress(self, alias: str, run: WorkflowRun, figures: Mapping[str, int]) -> None:
        known = {name: amount for name, amount in figures.items() if name in FIGURES}
        if known:
            rows = Migration.objects.using(alias).filter(uuid=run.inputs["migration_uuid"])
            rows.update(**known, updated_at=database_now())


class OrderLiveMigration(RemoteStep):
    """Sends a command about a moving guest to its source.

    The command has the fencing token of the migration's run: a newer one would fence the migration itself. If the
    migration has ended meanwhile there is nothing to send. No undo: an intervention cannot be taken back.
    """

    message: type[AbortLiveMigration] | type[ForceLiveMigration] | type[SteerLiveMigration]

    def command(self, work: StepContext) -> Any:
        moving = StepRecord.objects.using(work.alias).filter(
            run__uuid=work.inputs["live_run_uuid"],
            run__state__in=LIVE_RUN_STATES,
            name=MoveLive.name,
            direction="do",
            state=StepState.WAITING,
        )
        record = moving.order_by("-pk").first()
        if record is None:
            return None
        where = {**addressed(work, record.host), "fencing_token": record.fencing_token}
        return self.message(**where, **self.what(work))

    def what(self, work: StepContext) -> Mapping[str, Any]:
        """Return the further fields of the message."""
        return {}


class AbortMove(OrderLiveMigration):
    """Has the source stop the move of the guest."""

    name = "AbortMove"
    title = "Abort live migration"
    event = "compute_live_migration_abort"
    message = AbortLiveMigration


class ForceMove(OrderLiveMigration):
    """Has the source switch the guest to the destination now."""

    name = "ForceMove"
    title = "Force switchover"
    event = "compute_live_migration_force_complete"
    message = ForceLiveMigration


class SteerMove(OrderLiveMigration):
    """Has the source change how it moves the guest."""

    title = "Adjust live migration"
    event = "compute_live_migration_steer"
    message = SteerLiveMigration

    def what(self, work: StepContext) -> Mapping[str, Any]:
        return {"kind": work.inputs["kind"], "amount": work.inputs["amount"]}


class FinishAtDestination(RemoteStep):
    """Has the destination confirm the guest and make the move permanent; host and node change.

    If the source is unsure, the destination decides: without such a guest there it never left.

    No revert: the guest has arrived.
    """

    title = "Finish at destination"
    event = "compute_post_live_migration_at_destination"
    retry = UNTIL_DONE

    def on_start(self, work: StepContext) -> None:
        moves.update(work, status=MigrationStatus.POST_MIGRATING)

    def command(self, work: StepContext) -> Any:
        return FinishLiveMigration(
            **addressed(work, moves.read(work).destination_host or ""),
            guest=guest_of(work, instance_rows.read(work)),
        )

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        return error.get("class") == "GuestMissing" and is_unsure(work)

    def commit(self, work: StepContext, result: Result) -> None:
        chosen = moves.chosen(work)
        instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)


class CloseDestination(RemoteStep):
    """Closes the destination if the source could not report the result; a guest that has arrived stays.

    No revert: the revert of PrepareAtDestination sends the same command.
    """

    title = "Close destination"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        if not is_unsure(work):
            return None
        return CancelLiveMigration(**addressed(work, moves.read(work).destination_host or ""))


class MovePortsWithGuest(MovePorts):
    """Binds the ports and volumes to the destination alone, where the guest has arrived.

    No revert: there is no rollback from here on.
    """

    name = "MovePortsWithGuest"
    retry = UNTIL_DONE

    def revert(self, work: StepContext, result: Result) -> None:
        """Do nothing: this step is only reached when there is no rollback."""

    @property
    def has_revert(self) -> bool:
        return False


class MarkMoved(Step):
    """Clears the task state; the migration is completed."""

    title = "Mark as moved"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, task_state=None)
        moves.update(work, status=MigrationStatus.COMPLETED)


MOST_DESTINATIONS = 10


class LiveMigrateInstance(Flow):
    def next_attempt(self, work: StepContext) -> bool:
        """Other hosts are tried until the guest has begun to move, unless the request names a host."""
        has_begun = work.run.steps.using(work.alias).filter(name=MoveLive.name, attempt=work.attempt).exists()
        return not has_begun and not work.inputs.get("host") and len(tried_hosts(work)) < MOST_DESTINATIONS


LIVE_MIGRATE_INSTANCE = LiveMigrateInstance(
    "live_migrate_instance",
    version=1,
    steps=(
        LookAtSource(),  # checks the server and records its holdings at the source; no undo, as it only reads
        PickDestination(),  # claimed there; the holdings at the source become the migration's; revert moves them back
        PreparePorts(),  # both hosts may have the ports from now on; revert leaves them to the source
        PrepareAtDestination(),  # the destination listens; revert removes what was prepared, never a guest
        MoveLive(),  # the run suspends while the guest moves; no undo: after any failure the guest runs at its source
        CloseDestination(),  # only after an unresponsive source: no guest can arrive any more
        FinishAtDestination(),  # the guest has arrived: only forward from here, nothing is undone
        MovePortsWithGuest(),
        SettleMove(),  # releases the migration's holdings at the source
        MarkMoved(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.FAILED),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED),
    max_attempts=MOST_DESTINATIONS,
    cancellable_until="MoveLive",  # a moving guest is stopped by its source: see abort_live_migration
)


ABORT_LIVE_MIGRATION = Flow(
    "abort_live_migration",
    version=1,
    steps=(AbortMove(),),  # no undo: the migration's run gets the outcome from its source
)


FORCE_LIVE_MIGRATION = Flow(
    "force_live_migration",
    version=1,
    steps=(ForceMove(),),  # no undo: the migration's run gets the outcome from its source
)


STEER_LIVE_MIGRATION = Flow(
    "steer_live_migration",
    version=1,
    steps=(SteerMove(),),  # no undo: the migration goes on either way, and the adjustment ends with it
)
