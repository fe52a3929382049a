"""Live migrations of instances, and interventions in them: abort, complete, steer."""

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
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.server_migrations import live_interventions, migrations, resizes
from conductor.services.servers import actions
from conductor.services.servers.actions import ActionRequest

FLOW = "live_migrate_instance"
# Before the guest moves a run is simply cancelled; while it moves its source must abort it.
NOT_MOVING_YET = frozenset({MigrationStatus.ACCEPTED, MigrationStatus.QUEUED, MigrationStatus.PREPARING})


@dataclass(frozen=True)
class MigrationCommand:
    """Flow and action of an intervention's run."""

    flow: str
    action: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


ABORT = MigrationCommand(live_interventions.ABORT_FLOW, "live_migration_cancel")
FINISH = MigrationCommand(live_interventions.FINISH_FLOW, "live_migration_force_complete")


def begin(
    context: RequestContext, instance_uuid: str, host: str = "", *, block_migration: bool | None = None,
    details: Mapping[str, Any] | None = None, parent_uuid: UUID | None = None,
) -> str:  # fmt: skip
    """Live-migrate an instance to `host`, or where there is room; returns the workflow's uuid."""
    migration_uuid = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        resizes.check_destination(alias, instance, host)
        resizes.record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.LIVE_MIGRATION, details=details or {},
        )  # fmt: skip

    inputs = {"migration_uuid": str(migration_uuid), "host": host, "block_migration": block_migration}
    requested = ActionRequest(inputs=inputs, prepare=prepare, parent_uuid=parent_uuid)
    return actions.begin(context, instance_uuid, "live-migration", requested)


def abort(context: RequestContext, instance_uuid: str, migration: str, *, queued_too: bool = True) -> str:
    """Abort a live migration before the guest has switched; returns the uuid of the workflow that aborts it.

    `queued_too` also aborts one that has not begun to move. Raises NotFound, Conflict for a locked server, Invalid for
    a migration that is too far or has ended.
    """
    alias = actions.cell_of(context, instance_uuid)
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
        if live_interventions.is_post_copy(alias, instance.uuid, str(row.run_uuid)):
            raise Conflict(live_interventions.NO_WAY_BACK)
        ordered = _order(context, alias, instance, row, ABORT)
        _put_on_record(context, alias, instance, row, "abort")
        return ordered


def force_complete(context: RequestContext, instance_uuid: str, migration: str) -> str:
    """Force a live migration to switch now; returns the workflow's uuid. Raises what `abort` raises."""
    alias = actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        instance, row = _under_way(context, alias, instance_uuid, migration, "force_complete")
        if row.status != MigrationStatus.RUNNING:
            raise Invalid(_wrong_status("force_complete", row))
        if live_interventions.is_post_copy(alias, instance.uuid, str(row.run_uuid)):
            raise Conflict(live_interventions.SWITCHED)
        ordered = _order(context, alias, instance, row, FINISH)
        _put_on_record(context, alias, instance, row, "force_complete")
        return ordered


def steer(context: RequestContext, instance_uuid: str, migration: str, kind: str, amount: object = 0) -> str:
    """Start an intervention of core.live_steering in a live migration; returns the workflow's uuid.

    Raises what `abort` raises, Invalid with the field for a wrong amount, NotSupported where the source's driver
    cannot.
    """
    requested, word = live_steering.checked(kind, amount), kind.replace("-", "_")
    alias = actions.cell_of(context, instance_uuid)
    with write_tx(alias):
        instance, row = _under_way(context, alias, instance_uuid, migration, word)
        if row.status != MigrationStatus.RUNNING:
            raise Invalid(_wrong_status(word, row))
        abilities = actions.capabilities(alias, row.source_host)
        is_post_copy = live_interventions.is_post_copy(alias, instance.uuid, str(row.run_uuid))
        has_begun = live_interventions.has_begun(alias, str(row.run_uuid))
        why_not = live_interventions.why_not_steered(kind, abilities, is_post_copy=is_post_copy, has_begun=has_begun)
        if why_not:
            raise NotSupported(why_not) if why_not == live_interventions.CANNOT else Conflict(why_not)
        order = MigrationCommand(
            live_interventions.STEER_FLOW, f"live_migration_{word}", {"kind": kind, "amount": requested}
        )
        ordered = _order(context, alias, instance, row, order)
        _put_on_record(context, alias, instance, row, word, **({"amount": requested} if requested else {}))
        return ordered


def stop_unwanted(alias: str) -> int:
    """Abort live migrations whose cancellation was requested, for example by a delete; returns how many.

    A run whose guest moves cannot be cancelled, and the migration of a busy guest may never end.
    """
    stopped = 0
    runs = WorkflowRun.objects.using(alias).live()
    for run in runs.filter(flow=FLOW, is_cancel_requested=True):
        with write_tx(alias):
            outbox.hold(alias, uuid=run.uuid)
            moving = Migration.objects.using(alias).filter(run_uuid=run.uuid, status=MigrationStatus.RUNNING).first()
            is_abort_requested = runs.filter(instance_uuid=run.instance_uuid, flow=ABORT.flow).exists()
            is_abort_requested = is_abort_requested or live_interventions.is_post_copy(
                alias, str(run.instance_uuid), run.uuid
            )  # too late to abort
            instance = Instance.objects.using(alias).filter(uuid=str(run.instance_uuid)).first()
            if moving is not None and instance is not None and not is_abort_requested:
                _order(system_context(), alias, instance, moving, ABORT)
                stopped += 1
    return stopped


def _under_way(
    context: RequestContext, alias: str, instance_uuid: str, migration: str, action: str
) -> tuple[Instance, Migration]:
    """Return the instance and its live migration, locked with its run until this transaction ends."""
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


def _order(context: RequestContext, alias: str, instance: Instance, row: Migration, order: MigrationCommand) -> str:
    """Start a run of its own beside the migration's run, which holds the instance's lock."""
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
    """Audit an intervention with the migration's run, so that the page of that run shows it too."""
    entry = AuditEntry(
        action=f"live_migration.{what}",
        project_id=instance.project_id,
        run_uuid=row.run_uuid,
        instance_uuid=instance.uuid,
        details={"migration": str(row.uuid), **details},
    )
    audit.record(alias, context, entry)


def _wrong_status(action: str, row: Migration) -> str:
    return f"Cannot {action} migration {row.uuid} of server {row.instance_uuid} while it is {row.status}."
