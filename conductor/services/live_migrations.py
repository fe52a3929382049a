"""Moving instances while they run, and what may be ordered of such a move: to stop, to switch, to be steered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from conductor.cell_db.models import Instance, Migration
from conductor.core import live_steering
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Invalid, NotFound, NotSupported
from conductor.core.states import MigrationStatus, MigrationType, TaskState
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services import audit, live_orders, migrations, moves, server_actions
from conductor.services.audit import Entry
from conductor.services.server_actions import Asked
from conductor.transactions import write_tx

FLOW = "live_migrate_instance"
# Before the guest moves a run is simply cancelled; while it moves its source must stop it.
NOT_MOVING_YET = frozenset({MigrationStatus.ACCEPTED, MigrationStatus.QUEUED, MigrationStatus.PREPARING})


@dataclass(frozen=True)
class Order:
    """The run that carries an order out."""

    flow: str
    action: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


ABORT = Order(live_orders.ABORT_FLOW, "live_migration_cancel")
FINISH = Order(live_orders.FINISH_FLOW, "live_migration_force_complete")


def begin(
    context: RequestContext, instance_uuid: str, host: str = "", *, block_migration: bool | None = None,
    details: Mapping[str, Any] | None = None, parent_uuid: UUID | None = None,
) -> str:  # fmt: skip
    """Move an instance while it runs, to `host` or where there is room; the workflow's uuid."""
    migration_uuid = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        moves.check_destination(alias, instance, host)
        moves.record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.LIVE_MIGRATION, details=details or {},
        )  # fmt: skip

    inputs = {"migration_uuid": str(migration_uuid), "host": host, "block_migration": block_migration}
    asked = Asked(inputs=inputs, prepare=prepare, parent_uuid=parent_uuid)
    return server_actions.begin(context, instance_uuid, "live-migration", asked)


def abort(context: RequestContext, instance_uuid: str, migration: str, *, queued_too: bool = True) -> str:
    """Stop a live migration before the guest has switched; the uuid of the workflow that does it.

    `queued_too` also stops one that has not begun to move. Raises NotFound, Conflict for a server that is locked,
    Invalid for a migration that is too far or over.
    """
    alias = server_actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        instance, row = _under_way(context, alias, instance_uuid, migration, "abort")
        may_stop = {MigrationStatus.RUNNING, *(NOT_MOVING_YET if queued_too else ())}
        if row.status not in may_stop:
            raise Invalid(_wrong_status("abort", row))
        if row.status in NOT_MOVING_YET:
            for run in outbox.hold(alias, uuid=row.run_uuid):
                outbox.request_cancel(alias, run, "the live migration was aborted")
            _put_on_record(context, alias, instance, row, "abort")
            return str(row.run_uuid)
        if live_orders.is_post_copy(alias, instance.uuid, str(row.run_uuid)):
            raise Conflict(live_orders.NO_WAY_BACK)
        ordered = _order(context, alias, instance, row, ABORT)
        _put_on_record(context, alias, instance, row, "abort")
        return ordered


def force_complete(context: RequestContext, instance_uuid: str, migration: str) -> str:
    """Have a live migration switch now; the workflow's uuid. Raises as `abort` does."""
    alias = server_actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        instance, row = _under_way(context, alias, instance_uuid, migration, "force_complete")
        if row.status != MigrationStatus.RUNNING:
            raise Invalid(_wrong_status("force_complete", row))
        if live_orders.is_post_copy(alias, instance.uuid, str(row.run_uuid)):
            raise Conflict(live_orders.SWITCHED)
        ordered = _order(context, alias, instance, row, FINISH)
        _put_on_record(context, alias, instance, row, "force_complete")
        return ordered


def steer(context: RequestContext, instance_uuid: str, migration: str, kind: str, amount: object = 0) -> str:
    """Give an order of core.live_steering to a live migration whose guest moves; the workflow's uuid.

    Raises as `abort` does, Invalid with the field for a wrong amount, NotSupported where the source's driver cannot.
    """
    asked, word = live_steering.checked(kind, amount), kind.replace("-", "_")
    alias = server_actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        instance, row = _under_way(context, alias, instance_uuid, migration, word)
        if row.status != MigrationStatus.RUNNING:
            raise Invalid(_wrong_status(word, row))
        abilities = server_actions.capabilities(alias, row.source_host)
        is_post_copy = live_orders.is_post_copy(alias, instance.uuid, str(row.run_uuid))
        has_begun = live_orders.has_begun(alias, str(row.run_uuid))
        why_not = live_orders.why_not_steered(kind, abilities, is_post_copy=is_post_copy, has_begun=has_begun)
        if why_not:
            raise NotSupported(why_not) if why_not == live_orders.CANNOT else Conflict(why_not)
        order = Order(live_orders.STEER_FLOW, f"live_migration_{word}", {"kind": kind, "amount": asked})
        ordered = _order(context, alias, instance, row, order)
        _put_on_record(context, alias, instance, row, word, **({"amount": asked} if asked else {}))
        return ordered


def stop_unwanted(alias: str) -> int:
    """Abort moves under way that something else waits for, such as a delete; returns how many were told to stop.

    A run whose guest moves cannot be cancelled, and a guest that is busy may move for ever.
    """
    stopped = 0
    runs = WorkflowRun.objects.using(alias).live()
    for run in runs.filter(flow=FLOW, is_cancel_requested=True):
        with write_tx(alias):
            outbox.hold(alias, uuid=run.uuid)
            moving = Migration.objects.using(alias).filter(run_uuid=run.uuid, status=MigrationStatus.RUNNING).first()
            is_told = runs.filter(instance_uuid=run.instance_uuid, flow=ABORT.flow).exists()
            is_told = is_told or live_orders.is_post_copy(alias, str(run.instance_uuid), run.uuid)  # too late for it
            instance = Instance.objects.using(alias).filter(uuid=str(run.instance_uuid)).first()
            if moving is not None and instance is not None and not is_told:
                _order(system_context(), alias, instance, moving, ABORT)
                stopped += 1
    return stopped


def _under_way(
    context: RequestContext, alias: str, instance_uuid: str, migration: str, action: str
) -> tuple[Instance, Migration]:
    """The instance and its live migration, which stay as they are until this transaction ends: its run is held."""
    missing = NotFound(f"Migration {migration[:60]} for server {instance_uuid} could not be found.")
    row = migrations.of_instance(alias, instance_uuid, migration)
    if row is None:
        raise missing
    outbox.hold(alias, uuid=row.run_uuid)
    row.refresh_from_db(using=alias)
    instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if instance is None:
        raise missing
    if instance.is_locked and not context.is_admin:
        raise Conflict(f"Instance {instance_uuid} is locked")
    if row.migration_type != MigrationType.LIVE_MIGRATION:
        raise Invalid(f"Migration {row.uuid} of server {instance_uuid} is no live migration.")
    if instance.task_state != TaskState.MIGRATING:
        raise Conflict(f"Cannot '{action}' instance {instance_uuid} while it is in task_state {instance.task_state}")
    return instance, row


def _order(context: RequestContext, alias: str, instance: Instance, row: Migration, order: Order) -> str:
    """A run of its own beside the one that moves the guest, which holds the instance."""
    live = WorkflowRun.objects.using(alias).live().filter(uuid=str(row.run_uuid))
    if not live.exists():
        raise Invalid(_wrong_status(order.action, row))
    run = outbox.open_run(
        alias,
        outbox.NewRun(
            flow=order.flow,
            action=order.action,
            context=replace(context, project_id=instance.project_id),
            resources=(),
            instance_uuid=instance.uuid,
            instance_name=instance.name,
            inputs={"live_run_uuid": str(row.run_uuid), **order.inputs},
        ),
    )
    return str(run.uuid)


def _put_on_record(
    context: RequestContext, alias: str, instance: Instance, row: Migration, what: str, **details: Any
) -> None:
    """With the move that it was about, so that the page of that one shows it too."""
    entry = Entry(
        action=f"live_migration.{what}",
        project_id=instance.project_id,
        run_uuid=row.run_uuid,
        instance_uuid=instance.uuid,
        details={"migration": str(row.uuid), **details},
    )
    audit.record(alias, context, entry)


def _wrong_status(action: str, row: Migration) -> str:
    return f"Cannot {action} migration {row.uuid} of server {row.instance_uuid} while it is {row.status}."
