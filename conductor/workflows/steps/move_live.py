"""Have the source send the running guest over. Where the guest is afterwards is the hosts' word, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.cell_db.models import Migration
from conductor.core.compute_driver import HAS_LEFT
from conductor.core.states import MigrationStatus
from conductor.journal.models import WorkflowRun
from conductor.rpc.messages import LiveMigrate
from conductor.transactions import database_now
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of
from conductor.workflows.steps.prepare_at_destination import PrepareAtDestination

FIGURES = frozenset(
    {"memory_total", "memory_processed", "memory_remaining", "disk_total", "disk_processed", "disk_remaining"}
)
SILENT = "source_is_silent"


def is_unsure(work: Work) -> bool:
    """Whether the source could not say that the guest is at the destination: that one is asked."""
    result = work.result_of(MoveLive)
    return bool(result.get(SILENT) or result.get(HAS_LEFT))


class MoveLive(RemoteStep):
    """An answer that it failed means that the guest goes on at the source. From a silent source there is no answer, and
    one whose guest has left in spite of a failure cannot tell: the destination is asked then."""

    title = "Move the running guest"
    event = "compute_live_migration"

    def apply_start(self, work: Work) -> None:
        move_rows.update(work, status=MigrationStatus.RUNNING)

    def command(self, work: Work) -> Any:
        return LiveMigrate(
            **addressed(work, move_rows.read(work).source_host),
            guest=guest_of(work, instance_rows.read(work)),
            target=dict(work.result_of(PrepareAtDestination)),
            is_block_migration=work.inputs.get("block_migration"),
        )

    def on_silence(self, work: Work) -> Result:
        return {SILENT: True}

    def apply_progress(self, alias: str, run: WorkflowRun, figures: Mapping[str, int]) -> None:
        known = {name: amount for name, amount in figures.items() if name in FIGURES}
        if known:
            rows = Migration.objects.using(alias).filter(uuid=run.inputs["migration_uuid"])
            rows.update(**known, updated_at=database_now())
