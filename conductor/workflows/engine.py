"""Runs workflows: claim a run, take it as far as it goes, park it or end it.

             ┌────────── next attempt ──────────┐
             ▼                                  │
do: step 1 → step 2 → … ─ failure, cancel → undo: … → step 2 → step 1 → end: on_failure, on_cancel
             │                                  │
             └── all done                       └── parked while a host works, or until a retry is due
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections

from conductor.cells import quarantine
from conductor.cells.targeting import target_cell
from conductor.core.errors import StaleToken
from conductor.core.states import StepState
from conductor.journal import checkpoints
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import StepAnswered, StepProgressed
from conductor.transactions import has_crossed, write_tx
from conductor.workflows import catalog, interventions, leases, records
from conductor.workflows.flow import RemoteStep
from conductor.workflows.turn import Turn

log = logging.getLogger(__name__)


def run(alias: str, run_uuid: UUID | str) -> None:
    """Claim the run and take it as far as it goes; does nothing when it is not due or somebody else has it."""
    if leases.is_due(alias, run_uuid) and not _is_kept_out(alias, run_uuid):
        _work_on(alias, run_uuid)


def _is_kept_out(alias: str, run_uuid: UUID | str) -> bool:
    """Whether it would begin in a cell that is in quarantine: the sweep rings until that is lifted."""
    return quarantine.holds(alias) and WorkflowRun.objects.using(alias).filter(uuid=run_uuid, flow_version=0).exists()


def answer(alias: str, message: StepAnswered) -> bool:
    """Record a host's answer and go on with the run. A late, doubled or unknown answer changes nothing.

    Returns:
        Whether the host has done a deferred command by this, which no run waits for any more.
    """
    done: list[bool] = []
    given = {"ok": message.ok, "result": dict(message.result), "error": message.error}

    def keep() -> bool:
        done.append(outbox.answered(alias, message.step_key, message.error))
        return checkpoints.keep_answer(connections[alias], message.run_uuid, message.step_key, given)

    _work_on(alias, message.run_uuid, keep)
    return done[-1:] == [True]


def _work_on(alias: str, run_uuid: UUID | str, first: Callable[[], bool] = lambda: True) -> None:
    with leases.AtWork(alias, run_uuid), target_cell(alias):
        try:
            turn = _take_up(alias, run_uuid, first)
            if turn is not None:
                turn.drive()
        except catalog.UnknownFlow as error:
            # Nothing is claimed. What came along is kept; a conductor that has the flow is rung by its sweep.
            if catalog.is_news(run_uuid):
                log.warning("left to another release: run=%s %s", run_uuid, error)
            with write_tx(alias):
                first()
        except StaleToken as error:
            log.warning("gave way: run=%s %s", run_uuid, error)
            _tell_of_refusal(alias, run_uuid, error)
        except (OperationalError, InterfaceError) as error:
            # The database does not answer: nothing is known, so nothing is decided. The lease ends when it answers
            # again, or runs out, and somebody is rung.
            if has_crossed(error):
                log.info("transaction crossed another: run=%s", run_uuid)
                leases.give_back(alias, run_uuid)
            else:
                log.exception("database failed: run=%s", run_uuid)
                leases.give_up(alias, run_uuid)


def _tell_of_refusal(alias: str, run_uuid: UUID | str, error: StaleToken) -> None:
    """A late owner's write came to nothing: whoever reads the run's history sees that it was kept out."""
    refused: dict[str, Any] = {**error.details, "owner": leases.WORKER}
    with suppress(OperationalError, InterfaceError), write_tx(alias):
        found = WorkflowRun.objects.using(alias).filter(uuid=run_uuid).first()
        if found is not None:
            records.tell(alias, found, "run.write_refused", **refused, newest=found.fencing_token)


def _take_up(alias: str, run_uuid: UUID | str, first: Callable[[], bool]) -> Turn | None:
    """In one transaction: what comes `first`, the claim, and all that can be done before something is done outside."""
    with write_tx(alias):
        claimed = leases.take(alias, run_uuid) if first() else None
        if claimed is None:
            return None
        flow = catalog.flow_of(claimed)
        turn = Turn(alias, claimed, flow)
        if not claimed.orders:
            turn.begin()
            return turn
    return turn if interventions.carry_out(alias, claimed, flow) else None


def progress(alias: str, message: StepProgressed) -> None:
    """Show how far a host is; a late one is dropped."""
    connection = connections[alias]
    with write_tx(alias):
        record = checkpoints.RECORDS_BY_KEY.find(connection, message.step_key)
        if record is None or record.state != StepState.WAITING:
            return
        record.run = checkpoints.RUNS.get(connection, record.run_id)
        shown = {"message": message.message, "share": message.share}
        checkpoints.RECORDS.update(connection, record.pk, progress=shown)
        figures = dict(message.figures or {})
        records.tell(alias, record.run, "step.progress", record, progress=shown, figures=figures)
        if message.figures and record.direction == "do" and catalog.is_known(record.run.flow, record.run.flow_version):
            step = catalog.flow_of(record.run).steps[record.index]
            if isinstance(step, RemoteStep):
                step.apply_progress(alias, record.run, message.figures)
