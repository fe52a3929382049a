"""A live migration as it goes on: how much has arrived, how quickly, and what may be done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from conductor.cell_db.models import Migration
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.states import LIVE_RUN_STATES, MigrationStatus
from conductor.journal.models import Event
from conductor.services import convergence, flows, live_migrations
from conductor.services.convergence import Rates, Sample, Verdict
from conductor.services.values import RunView
from conductor.transactions import database_time

MOST_SAMPLES = 240
ABORT, FINISH = "abort", "finish"
POST_COPY_RISK = (
    "The guest switches at once and fetches the rest: it cannot be stopped then, and a broken connection loses it."
)


@dataclass(frozen=True)
class Offer:
    """One thing to do to a migration, with what it risks; `why_not` is empty where it may be done now."""

    id: str
    title: str
    risk: str
    why_not: str = ""
    is_danger: bool = False


@dataclass(frozen=True)
class MigrationPanel:
    """`source` and `destination` are operators'. `samples` are what the source told, oldest first."""

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
    row = Migration.objects.using(alias).filter(uuid=run.inputs.get("migration_uuid")).first()
    if run.flow != live_migrations.FLOW or row is None:
        return None
    told = Event.objects.using(alias).filter(run_uuid=run.uuid, kind="step.progress").order_by("-pk")
    newest = list(told[:MOST_SAMPLES])[::-1]
    found = [convergence.sample_of(event.created_at, event.data.get("figures") or {}) for event in newest]
    samples = [sample for sample in found if sample is not None]
    is_live = run.state in LIVE_RUN_STATES
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
        verdict=_ended(row.status) or convergence.judge(samples, database_time(alias)),
        offers=_offers(context, row, samples) if is_live else [],
        began_at=samples[0].at if samples else None,
    )


def order(context: RequestContext, run_uuid: str, name: str) -> str:
    """Do what was offered; the uuid of the workflow that does it. Raises NotFound, Conflict, Invalid."""
    panel = of_run(context, run_uuid)
    if panel is None:
        raise NotFound(f"Workflow {run_uuid} moves no guest.")
    do = {ABORT: live_migrations.abort, FINISH: live_migrations.force_complete}[name]
    return do(context, panel.instance_uuid, panel.uuid)


def _ended(status: str) -> Verdict | None:
    return {
        MigrationStatus.COMPLETED: Verdict("The guest runs at its destination.", "good", 0.0, 0.0),
        MigrationStatus.FAILED: Verdict("It failed; the guest goes on where it was.", "bad"),
        MigrationStatus.ERROR: Verdict("It failed; look where the guest is.", "bad"),
        MigrationStatus.CANCELLED: Verdict("It was stopped; the guest goes on at its source.", "none"),
    }.get(MigrationStatus(status))


def _offers(context: RequestContext, row: Migration, samples: Sequence[Sample]) -> list[Offer]:
    """What the drivers can do: stop it, and have it switch now."""
    is_running = row.status == MigrationStatus.RUNNING
    may = "" if context.is_admin or "manager" in context.roles else "It takes the role manager."
    early = may or ("" if is_running or row.status in live_migrations.NOT_MOVING_YET else "The guest has switched.")
    late = may or ("" if is_running else "The guest does not move yet, or has switched.")
    risk = f"The guest pauses until the rest has arrived: {_pause(samples)}."
    if samples and samples[-1].is_post_copy_forced:
        risk = POST_COPY_RISK
    return [
        Offer(FINISH, "Finish now", risk, late),
        Offer(ABORT, "Abort", "The guest stays at its source; what has arrived is thrown away.", early, is_danger=True),
    ]


def _pause(samples: Sequence[Sample]) -> str:
    rates = convergence.rates_of(samples[-6:])
    moved = max((one.moved for one in rates), default=0.0)
    if not samples or not moved:
        return "how long cannot be told yet"
    return f"about {max(0.1, samples[-1].left / moved):.1f} s at the present speed"
