"""A live migration as it goes on: how much has arrived, how quickly, what was ordered of it, and what may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from conductor.cell_db.models import Migration
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.states import LIVE_RUN_STATES, MigrationStatus, RunState
from conductor.journal.models import Event, WorkflowRun
from conductor.services import convergence, flows, live_migrations, live_orders, migration_offers, server_actions
from conductor.services.convergence import Rates, Sample, Verdict
from conductor.services.live_orders import ABORT, FINISH
from conductor.services.migration_offers import Offer, Standing
from conductor.services.values import RunView
from conductor.transactions import database_time

MOST_SAMPLES = 240


@dataclass(frozen=True)
class OrderView:
    """What somebody ordered of the move: `id` as an offer's, and what became of it."""

    id: str
    amount: int
    user_name: str
    run_uuid: str
    state: str
    created_at: datetime
    error: str = ""


@dataclass(frozen=True)
class MigrationPanel:
    """`source` and `destination` are operators'. `samples` are what the source told, oldest first, as are `orders`."""

    uuid: str
    run_uuid: str
    instance_uuid: str
    status: str
    is_live: bool
    source: str
    destination: str
    samples: list[Sample]
    rates: list[Rates]
    verdict: Verdict
    offers: list[Offer]
    orders: list[OrderView]
    began_at: datetime | None

    @property
    def has_arrived(self) -> bool:
        """Whether the guest runs at its destination."""
        return self.status == MigrationStatus.COMPLETED


def of_runs(context: RequestContext, runs: Sequence[RunView]) -> MigrationPanel | None:
    """The panel of the first live migration among the runs of a story; None where there is none."""
    for run in runs:
        if run.flow == live_migrations.FLOW:
            return of_run(context, run.uuid)
    return None


def of_run(context: RequestContext, run_uuid: str) -> MigrationPanel | None:
    """Of a run that moves a guest; None for one that does something else. Raises NotFound."""
    alias, run = flows.locate(context, run_uuid)
    if run.flow != live_migrations.FLOW:  # others may lie in the API database, which has no migrations
        return None
    row = Migration.objects.using(alias).filter(uuid=run.inputs.get("migration_uuid")).first()
    if row is None:
        return None
    told = Event.objects.using(alias).filter(run_uuid=run.uuid, kind="step.progress").order_by("-pk")
    newest = list(told[:MOST_SAMPLES])[::-1]
    found = [convergence.sample_of(event.created_at, event.data.get("figures") or {}) for event in newest]
    samples = [sample for sample in found if sample is not None]
    is_live = run.state in LIVE_RUN_STATES
    orders = live_orders.given(alias, row.instance_uuid, run.uuid)
    has_begun = any(event.data.get("step") == live_orders.MOVE for event in newest)
    standing = Standing(
        status=row.status,
        samples=samples,
        ordered=_ordered(run, orders),
        abilities=server_actions.capabilities(alias, row.source_host) if is_live else frozenset(),
        has_begun=has_begun,
        is_post_copy=live_orders.says_post_copy(newest[-1:], orders),
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
        offers=migration_offers.offers(context, standing) if is_live else [],
        orders=[_view(order) for order in orders],
        began_at=samples[0].at if samples else None,
    )


def order(context: RequestContext, run_uuid: str, name: str, amount: object = 0) -> str:
    """Do what was offered; the uuid of the workflow that does it. Raises NotFound, Conflict, Invalid, NotSupported."""
    panel = of_run(context, run_uuid)
    if panel is None:
        raise NotFound(f"Workflow {run_uuid} moves no guest.")
    if name == ABORT:
        return live_migrations.abort(context, panel.instance_uuid, panel.uuid)
    if name == FINISH:
        return live_migrations.force_complete(context, panel.instance_uuid, panel.uuid)
    return live_migrations.steer(context, panel.instance_uuid, panel.uuid, name, amount)


def _view(run: WorkflowRun) -> OrderView:
    return OrderView(
        id=live_orders.kind_of(run),
        amount=int(run.inputs.get("amount") or 0),
        user_name=run.user_name or run.user_id,
        run_uuid=str(run.uuid),
        state=run.state,
        created_at=run.created_at,
        error=str((run.error or {}).get("message", "")),
    )


def _ended(status: str, orders: Sequence[WorkflowRun]) -> Verdict | None:
    aborts = [run for run in orders if live_orders.kind_of(run) == ABORT and run.state == RunState.DONE]
    by = f" by {aborts[-1].user_name or aborts[-1].user_id}" if aborts else ""
    return {
        MigrationStatus.COMPLETED: Verdict("The guest runs at its destination.", "good", 0.0, 0.0),
        MigrationStatus.FAILED: Verdict("It failed; the guest goes on where it was.", "bad"),
        MigrationStatus.ERROR: Verdict("It failed; look where the guest is.", "bad"),
        MigrationStatus.CANCELLED: Verdict(f"It was stopped{by}; the guest goes on at its source.", "none"),
    }.get(MigrationStatus(status))


def _ordered(run: WorkflowRun, orders: Sequence[WorkflowRun]) -> frozenset[str]:
    """What was ordered already and is not carried out yet."""
    ordered = {live_orders.kind_of(order) for order in orders if order.state in LIVE_RUN_STATES}
    return frozenset(ordered | {ABORT} if run.is_cancel_requested else ordered)
