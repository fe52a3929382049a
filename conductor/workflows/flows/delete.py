"""Flows that delete servers, at once or softly, and restore soft-deleted ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import InterfaceError, OperationalError, connections
from django.db.models import Q, QuerySet

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import BlockDevice, ConsoleLog, Migration, Service
from conductor.cells import quarantine
from conductor.cells.hosts import is_unresponsive
from conductor.core.errors import CellUnavailable, Conflict
from conductor.core.messages import message, text_of
from conductor.core.states import MigrationStatus, MigrationType, PowerState, StepState, VmState
from conductor.db.rows import Rows
from conductor.db.transactions import database_now
from conductor.journal.models import StepRecord
from conductor.network import ports
from conductor.rpc import deletes, outbox
from conductor.rpc.messages import ConfirmMigration
from conductor.scheduler import claims
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows, instance_state
from conductor.workflows.steps.images import discard
from conductor.workflows.steps.instance_state import EndAction, SetState
from conductor.workflows.steps.on_guest import GuestCommandStep
from conductor.workflows.steps.on_host import DestroyOnHost, addressed

# With these statuses the other host has nothing left, unless it has commands to execute.
COLD = (MigrationType.RESIZE, MigrationType.MIGRATION)  # those that keep disks at their source
CLEAN = (
    MigrationStatus.CONFIRMED,
    MigrationStatus.REVERTED,
    MigrationStatus.DONE,
    MigrationStatus.COMPLETED,
    MigrationStatus.CANCELLED,
    MigrationStatus.FAILED,
)


def open_moves(work: StepContext) -> QuerySet[Migration]:
    """Return moves of the instance that may have left something, newest first."""
    moves = Migration.objects.using(work.alias).filter(instance_uuid=work.instance_uuid)
    cancelled = Q(status=MigrationStatus.CANCELLED, migration_type__in=COLD)
    hosts = set(moves.filter(cancelled).values_list("source_host", flat=True))
    is_cut_off = cancelled & Q(source_host__in=_with_something_left(work, hosts))
    return moves.filter(~Q(status__in=CLEAN) | is_cut_off).order_by("-pk")


def _with_something_left(work: StepContext, hosts: Collection[str]) -> set[str]:
    """Return those hosts that have a deferred command for the instance, or report that they keep its disks."""
    if not hosts:
        return set()
    deferred = outbox.deferred_about(work.alias, work.instance_uuid).filter(host__in=hosts)
    rows = Service.objects.using(work.alias).filter(host__in=hosts, kept__isnull=False).values_list("host", "kept")
    keeping = {host for host, kept in rows if work.instance_uuid in (kept or ())}
    return keeping.union(deferred.values_list("host", flat=True))


class ForgetAtSource(RemoteStep):
    """Has the source of an unconfirmed move remove what it kept; without such a move nothing is sent."""

    title = "Remove from migration source"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        move = open_moves(work).first()
        return ConfirmMigration(**addressed(work, move.source_host)) if move else None


MAPPINGS = Rows(InstanceMapping, "instance_uuid")


class FreeAllocation(Step):
    """Releases the allocation, the claims of unconfirmed moves, the group membership and the quota."""

    title = "Release allocation"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        moves = [str(uuid) for uuid in open_moves(work).values_list("uuid", flat=True)]
        with work.fenced("default"):
            for migration_uuid in moves:
                claims.settle(work.instance_uuid, migration_uuid)
            claims.release(work.instance_uuid)
            MAPPINGS.update(connections["default"], work.instance_uuid, is_deleted=True)
        return {"moves": moves}

    def commit(self, work: StepContext, result: Result) -> None:
        if result["moves"]:
            rows = Migration.objects.using(work.alias).filter(uuid__in=result["moves"])
            rows.update(status=MigrationStatus.CONFIRMED, updated_at=database_now())


class MarkDeleted(Step):
    """Marks the server as deleted, and removes its console log."""

    title = "Mark as deleted"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        ConsoleLog.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
        instance_rows.mark_deleted(work)


class OpenDelete(Step):
    """Starts `delete_instance` in the cell, as soon as the cell answers.

    A server that is gone already needs nothing more. For a locked one the request fails.
    """

    title = "Hand over to cell"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        cell = work.inputs["cell"]
        quarantine.refuse(cell)
        try:
            with work.fenced(cell):
                is_there = deletes.open_delete(cell, work.context, work.instance_uuid, parent_uuid=work.run.uuid)
        except (OperationalError, InterfaceError):
            raise CellUnavailable(f"The cell {cell} does not answer.") from None
        return {"is_there": is_there}

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        return bool(error["class"] == Conflict.__name__)  # it is locked; other conflicts are temporary


class ReleaseVolumes(Step):
    """Releases the volumes, or deletes those that are to be deleted with the server.

    While an unresponsive host may still have the guest, its volumes stay `detaching`. The storage cleanup releases them
    once the host has destroyed the guest.
    """

    title = "Release volumes"
    lane = "Cell conductor"
    retry = UNTIL_DONE  # no revert: the flow only goes forward

    def execute(self, work: StepContext) -> Result:
        devices = list(BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid))
        awaited = outbox.deferred_about(work.alias, work.instance_uuid).first() if devices else None
        for device in devices:
            with work.fenced("default"):
                if awaited is not None:
                    operations.keep_detaching(str(device.uuid))
                else:
                    operations.let_go(str(device.uuid), is_deleted=device.delete_on_termination)
            operations.settle(device.volume_uuid)  # nothing to do for one that stays
        return {"kept_for": awaited.host} if awaited is not None else {"released": len(devices)}

    def commit(self, work: StepContext, result: Result) -> None:
        if result.get("released"):
            BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()


class UnplugNetworks(Step):
    """Releases the ports and addresses."""

    title = "Unplug networks"
    lane = "Cell conductor"
    event = "compute_deallocate_networks"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        with work.fenced("default"):
            ports.unplug(work.instance_uuid)
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, addresses=[])


class SetSoftDeleted(SetState):
    """Sets the server to soft-deleted, with the time."""

    def __init__(self) -> None:
        super().__init__(VmState.SOFT_DELETED, PowerState.SHUTDOWN)

    def more(self, work: StepContext) -> dict[str, Any]:
        if instance_rows.read(work).soft_deleted_at is not None:  # deleted once, if requested twice
            return {}
        return {"soft_deleted_at": database_now()}


class SetRestored(SetState):
    """Sets the server to active, and clears the time of its deletion."""

    def __init__(self) -> None:
        super().__init__(VmState.ACTIVE, PowerState.RUNNING)

    def more(self, work: StepContext) -> dict[str, Any]:
        return {"soft_deleted_at": None}


class ShowStuck(Step):
    """Sets a server whose delete keeps failing to error, with the first cause as its fault."""

    title = "Mark as stuck"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        failed = StepRecord.objects.using(work.alias).filter(run_id=work.run.pk, state=StepState.FAILED)
        newest = failed.order_by("pk").last()
        first = failed.filter(name=newest.name).order_by("pk").first() if newest else None
        if first is None:
            return
        error = first.error or {}
        text = message("fault.repeats", error=text_of(error))
        instance_state.add(work, text, f"{error.get('class')} at step {first.name}")
        instance_rows.update(work, vm_state=VmState.ERROR)


class RemoveShelvedImage(Step):
    """Removes the image of a shelved server, unless its owner has protected it."""

    title = "Remove the shelved image"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        image_id = instance_rows.read(work).shelved_image_id
        return {"is_gone": discard(work, image_id)} if image_id else {}


class PowerOffWhereHeard(GuestCommandStep):
    """Powers off on a host that is up. On an unresponsive host the guest is powered off when the host is up again."""

    def __init__(self) -> None:
        super().__init__("PowerOffGuest")

    def command(self, work: StepContext) -> Any:
        if is_unresponsive(work.alias, instance_rows.read(work).host or ""):
            return None
        return super().command(work)


DELETE_INSTANCE = Flow(
    "delete_instance",
    version=1,
    steps=(
        ForgetAtSource(),  # what an unconfirmed move keeps at its source
        DestroyOnHost(),  # deferred for an unresponsive host
        UnplugNetworks(),
        FreeAllocation(),
        RemoveShelvedImage(),
        ReleaseVolumes(),  # volumes are deleted with the server or released, as configured
        MarkDeleted(),
    ),
    on_stuck=ShowStuck(),
    cancellable_until=None,  # a delete goes forward until it is done
)


DELETE_WHEN_CELL_IS_BACK = Flow(
    "delete_when_cell_is_back",
    version=1,
    steps=(OpenDelete(),),  # retries until the cell responds; then delete_instance is responsible
    cancellable_until=None,
)


_END = EndAction()

SOFT_DELETE_INSTANCE = Flow(
    "soft_delete_instance",
    version=1,
    steps=(
        PowerOffWhereHeard(),  # no revert: the server was to be deleted
        SetSoftDeleted(),
    ),
    on_failure=_END,
    on_cancel=_END,
)


RESTORE_INSTANCE = Flow(
    "restore_instance",
    version=1,
    steps=(
        GuestCommandStep("PowerOnGuest"),  # revert powers it off again
        SetRestored(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
