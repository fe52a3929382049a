"""Progress of a live migration: copied memory, rates, and interventions done and permitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from conductor.cell_db.models import Migration
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.messages import message, text_of
from conductor.core.phrases import phrase
from conductor.core.states import LIVE_RUN_STATES, MigrationStatus, RunState
from conductor.db.transactions import database_time
from conductor.journal.models import Event, WorkflowRun
from conductor.services.server_migrations import convergence, live_interventions, live_migrations, permitted_actions
from conductor.services.server_migrations.convergence import ConvergenceVerdict, Rates, Sample
from conductor.services.server_migrations.live_interventions import ABORT, FINISH
from conductor.services.server_migrations.permitted_actions import MigrationAction, MigrationProgress
from conductor.services.servers import actions as server_actions
from conductor.services.workflows import workflows
from conductor.services.workflows.types import RunView

MOST_SAMPLES = 240


@dataclass(frozen=True)
class OrderView:
    """An intervention in the migration: `id` is its kind, `state` and `error` its result."""

    id: str
    amount: int
    user_name: str
    run_uuid: str
    state: str
    created_at: datetime
    error: str = ""


@dataclass(frozen=True)
class MigrationPanel:
    """Progress of a migration.

    `source` and `destination` are for operators; `samples` and `orders` are oldest first.
    """

    uuid: str
    run_uuid: str
    instance_uuid: str
    status: str
    is_live: bool
    source: str
    destination: str
    samples: list[Sample]
    rates: list[Rates]
    verdict: ConvergenceVerdict
    actions: list[MigrationAction]
    orders: list[OrderView]
    began_at: datetime | None

    @property
    def has_arrived(self) -> bool:
        """Whether the guest runs at its destination."""
        return self.status == MigrationStatus.COMPLETED


def of_runs(context: RequestContext, runs: Sequence[RunView]) -> MigrationPanel | None:
    """Return the panel of the first live migration among some runs; None where there is none."""
    for run in runs:
        if run.flow == live_migrations.FLOW:
            return of_run(context, run.uuid)
    return None


def of_run(context: RequestContext, run_uuid: str) -> MigrationPanel | None:
    """Return the panel of a run; None if it is no live migration. Raises NotFound."""
    alias, run = workflows.locate(context, run_uuid)
    if run.flow != live_migrations.FLOW:  # other runs may be in the API database, which has no migrations
        return None
    row = Migration.objects.using(alias).filter(uuid=run.inputs.get("migration_uuid")).first()
    if row is None:
        return None
    rows = Event.objects.using(alias).filter(run_uuid=run.uuid, kind="step.progress").order_by("-pk")
    newest = list(rows[:MOST_SAMPLES])[::-1]
    found = [convergence.sample_of(event.created_at, event.data.get("figures") or {}) for event in newest]
    samples = [sample for sample in found if sample is not None]
    is_live = run.state in LIVE_RUN_STATES
    orders = live_interventions.given(alias, row.instance_uuid, run.uuid)
    has_begun = any(event.data.get("step") == live_interventions.MOVE for event in newest)
    standing = MigrationProgress(
        status=row.status,
        samples=samples,
        ordered=_ordered(run, orders),
        abilities=server_actions.capabilities(alias, row.source_host) if is_live else frozenset(),
        has_begun=has_begun,
        is_post_copy=live_interventions.is_post_copy_reported(newest[-1:], orders),
    )
    return MigrationPanel(
        uuid=str(row.uuid),
        run_uuid=str(run.uuid),
        instance_uuid=str(row.instance_uuid),
        status=row.status,
        is_live=is_live,
        source=row.source_host if context.is_admin else "",
        destination=(row.destination_host or "") if context.is_admin else "",
        samples=samples,
        rates=convergence.rates_of(samples),
        verdict=_ended(row.status, orders) or convergence.judge(samples, database_time(alias)),
        actions=permitted_actions.actions(context, standing) if is_live else [],
        orders=[_view(order) for order in orders],
        began_at=samples[0].at if samples else None,
    )


def order(context: RequestContext, run_uuid: str, name: str, amount: object = 0) -> str:
    """Start an intervention; returns the workflow's uuid. Raises NotFound, Conflict, Invalid, NotSupported."""
    panel = of_run(context, run_uuid)
    if panel is None:
        raise NotFound(phrase("Workflow %(workflow)s is not a live migration.", workflow=run_uuid))
    if name == ABORT:
        return live_migrations.abort(context, panel.instance_uuid, panel.uuid)
    if name == FINISH:
        return live_migrations.force_complete(context, panel.instance_uuid, panel.uuid)
    return live_migrations.steer(context, panel.instance_uuid, panel.uuid, name, amount)


def _view(run: WorkflowRun) -> OrderView:
    return OrderView(
        id=live_interventions.kind_of(run),
        amount=int(run.inputs.get("amount") or 0),
        user_name=run.user_name or run.user_id,
        run_uuid=str(run.uuid),
        state=run.state,
        created_at=run.created_at,
        error=text_of(run.error),
    )


def _ended(status: str, orders: Sequence[WorkflowRun]) -> ConvergenceVerdict | None:
    aborts = [run for run in orders if live_interventions.kind_of(run) == ABORT and run.state == RunState.DONE]
    by = aborts[-1].user_name or aborts[-1].user_id if aborts else ""
    stopped = message("migration.stopped_by", name=by) if by else message("migration.stopped")
    return {
        MigrationStatus.COMPLETED: ConvergenceVerdict(message("migration.arrived"), "good", 0.0, 0.0),
        MigrationStatus.FAILED: ConvergenceVerdict(message("migration.failed"), "bad"),
        MigrationStatus.ERROR: ConvergenceVerdict(message("migration.error"), "bad"),
        MigrationStatus.CANCELLED: ConvergenceVerdict(stopped, "none"),
    }.get(MigrationStatus(status))


def _ordered(run: WorkflowRun, orders: Sequence[WorkflowRun]) -> frozenset[str]:
    """Return the kinds of pending interventions."""
    ordered = {live_interventions.kind_of(order) for order in orders if order.state in LIVE_RUN_STATES}
    return frozenset(ordered | {ABORT} if run.is_cancel_requested else ordered)
