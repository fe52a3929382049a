"""Runs workflows: claim a run, take it as far as it goes, park it or end it.

             ┌────────── next attempt ──────────┐
             ▼                                  │
do: step 1 → step 2 → … ─ failure, cancel → undo: … → step 2 → step 1 → end: on_failure, on_cancel
             │                                  │
             └── all done                       └── parked while a host works, or until a retry is due
"""

from __future__ import annotations

import logging
from uuid import UUID

from django.db import InterfaceError, OperationalError

from conductor.cells.targeting import target_cell
from conductor.core.errors import StaleToken
from conductor.core.states import LIVE_RUN_STATES, StepState
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc.messages import StepAnswered, StepProgressed
from conductor.transactions import database_now, write_tx
from conductor.workflows import catalog, interventions, leases, records
from conductor.workflows.turn import Turn

log = logging.getLogger(__name__)


def run(alias: str, run_uuid: UUID | str) -> None:
    """Claim the run and take it as far as it goes; does nothing when it is not due or somebody else has it."""
    claimed = leases.claim(alias, run_uuid)
    if claimed is None:
        return
    with leases.AtWork(alias), target_cell(alias):
        flow = catalog.flow_of(claimed)
        try:
            if interventions.carry_out(alias, claimed, flow):
                Turn(alias, claimed, flow).drive()
        except StaleToken as error:
            log.warning("gave way: run=%s %s", run_uuid, error)
        except (OperationalError, InterfaceError):
            # The database does not answer: nothing is known, so nothing is decided. The lease runs out and the
            # sweep rings again.
            log.exception("database failed: run=%s", run_uuid)


def answer(alias: str, message: StepAnswered) -> None:
    """Record a host's answer and go on with the run. A late, doubled or unknown answer changes nothing."""
    with write_tx(alias):
        OutboxMessage.objects.using(alias).filter(step_key=message.step_key).delete()
        waiting = StepRecord.objects.using(alias).filter(
            step_key=message.step_key, state=StepState.WAITING, run__state__in=LIVE_RUN_STATES, answer__isnull=True
        )
        values = {"ok": message.ok, "result": dict(message.result), "error": message.error}
        if not waiting.update(answer=values):
            return
        WorkflowRun.objects.using(alias).filter(uuid=message.run_uuid).update(wake_at=database_now())
    run(alias, message.run_uuid)


def progress(alias: str, message: StepProgressed) -> None:
    """Show how far a host is; a late one is dropped."""
    with write_tx(alias):
        record = (
            StepRecord.objects.using(alias)
            .select_related("run")
            .filter(step_key=message.step_key, state=StepState.WAITING)
            .first()
        )
        if record is None:
            return
        shown = {"message": message.message, "share": message.share}
        StepRecord.objects.using(alias).filter(pk=record.pk).update(progress=shown)
        records.tell(alias, record.run, "step.progress", record, progress=shown)
