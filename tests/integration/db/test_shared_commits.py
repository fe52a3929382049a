"""Group commit of many workers on one SQLite file. PostgreSQL groups commits by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from conductor.core.states import RunState, StepState
from conductor.db.transactions import write_tx
from conductor.journal.models import LockWait, ResourceLock, StepRecord, WorkflowRun
from conductor.workflows.engine import executor
from conductor.workflows.engine.unit_of_work import BATCHES
from conductor.workflows.flow import Result, StepContext
from tests.fixtures.engine_costs import ALIAS, Quiet, flow, overtake, start, states
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
assert flow, "the fixture of that name"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups that were written, in order."""
    sizes: list[int] = []
    write = BATCHES._write

    def noted(connection: Any, batch: Any) -> None:
        sizes.append(len(batch))
        write(connection, batch)

    monkeypatch.setattr(BATCHES, "_write", noted)
    return sizes


def in_threads(runs: list[WorkflowRun]) -> list[threading.Thread]:
    def work(run: WorkflowRun) -> None:
        executor.run(ALIAS, run.uuid)
        connections.close_all()

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    return threads


class Gathering(Quiet):
    """Ends when all workers are there."""

    everyone: threading.Barrier

    def execute(self, work: StepContext) -> Result:
        self.everyone.wait(timeout=WAIT_SECONDS)
        return super().execute(work)


def _gather(workers: int, meanwhile: Callable[[list[WorkflowRun]], object] = lambda runs: None) -> list[WorkflowRun]:
    """Run as many runs to the end of their first step while writes are blocked; then unblock all."""
    runs = [start(f"thing:{number}") for number in range(workers)]
    Gathering.everyone = threading.Barrier(workers + 1)
    threads = in_threads(runs)
    wait_until("the workers wait", lambda: Gathering.everyone.n_waiting == workers)
    with write_tx(ALIAS):
        Gathering.everyone.wait(timeout=WAIT_SECONDS)
        # One of them leads, and waits for this transaction.
        wait_until("all wait to write", lambda: len(BATCHES.queue_of(ALIAS)) == workers)
        meanwhile(runs)
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    return runs


def test_workers_that_come_together_share_one_commit(flow: Any, batches: list[int]) -> None:
    flow(Gathering(), Quiet())
    _gather(6)
    assert batches[0] == 6  # the leader waits for its turn to write, and includes writers that came meanwhile
    assert states() == [RunState.DONE] * 6


def test_a_failed_transaction_fails_no_other_of_a_shared_commit(flow: Any, batches: list[int]) -> None:
    flow(Gathering(), Quiet())
    overtaken = _gather(6, lambda runs: overtake(runs[-1]))[-1]
    assert batches[:7] == [6, *[1] * 6]
    rest = WorkflowRun.objects.using(ALIAS).exclude(pk=overtaken.pk)
    assert set(rest.values_list("state", flat=True)) == {RunState.DONE}
    row = WorkflowRun.objects.using(ALIAS).get(pk=overtaken.pk)
    assert (row.state, row.position) == (RunState.RUNNING, 0)
    assert StepRecord.objects.using(ALIAS).get(run=row).state == StepState.RUNNING


def test_ends_share_a_commit_too(flow: Any, batches: list[int]) -> None:
    flow(Gathering())
    _gather(6)
    assert batches == [6]
    assert states() == [RunState.DONE] * 6
    assert not ResourceLock.objects.using(ALIAS).exists()


def test_an_end_that_a_run_may_wait_for_is_written_alone_and_wakes_it(flow: Any, batches: list[int]) -> None:
    flow(Gathering())
    waiters: list[WorkflowRun] = []
    _gather(3, lambda runs: waiters.append(start("thing:1", may_wait=True)))
    (waiter,) = waiters
    assert batches == [3]
    waiter.refresh_from_db(using=ALIAS)
    assert (waiter.state, waiter.waits_for) == (RunState.QUEUED, None)
    assert list(ResourceLock.objects.using(ALIAS).values_list("resource", "run_id")) == [("thing:1", waiter.pk)]
    assert not LockWait.objects.using(ALIAS).exists()
