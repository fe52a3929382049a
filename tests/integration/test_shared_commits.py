"""Many workers and one SQLite file: who comes together shares a commit. PostgreSQL groups commits by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connections

from conductor.core.states import RunState, StepState
from conductor.journal import passages
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.transactions import write_tx
from conductor.workflows import engine
from conductor.workflows.flow import Result, Work
from tests.integration.test_engine_costs import ALIAS, Quiet, flow, overtake, start, states

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
assert flow, "the fixture of that name"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups that were written, in order."""
    sizes: list[int] = []
    write = passages._write

    def noted(connection: Any, batch: Any) -> None:
        sizes.append(len(batch))
        write(connection, batch)

    monkeypatch.setattr(passages, "_write", noted)
    return sizes


def in_threads(runs: list[WorkflowRun]) -> list[threading.Thread]:
    def work(run: WorkflowRun) -> None:
        engine.run(ALIAS, run.uuid)
        connections.close_all()

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    return threads


class Gathering(Quiet):
    """Ends when all workers are there."""

    everyone: threading.Barrier

    def execute(self, work: Work) -> Result:
        self.everyone.wait(timeout=30)
        return super().execute(work)


def _gather(workers: int, is_overtaken: bool = False) -> list[WorkflowRun]:
    """Take as many runs to the end of their first step while nobody can write; then let them all write."""
    runs = [start(f"thing:{number}") for number in range(workers)]
    Gathering.everyone = threading.Barrier(workers + 1)
    threads = in_threads(runs)
    _until(lambda: Gathering.everyone.n_waiting == workers)
    with write_tx(ALIAS):
        Gathering.everyone.wait(timeout=30)
        _until(lambda: len(passages._group_of(ALIAS)._waiting) == workers)  # and one of them leads, and waits for us
        if is_overtaken:
            overtake(runs[-1])
    for thread in threads:
        thread.join(timeout=30)
    return runs


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "the workers did not come together"
        time.sleep(0.005)


def test_workers_that_come_together_share_one_commit(flow: Any, batches: list[int]) -> None:
    flow(Gathering(), Quiet())
    _gather(6)
    assert batches == [6]  # who leads waits for his turn to write, and takes along who has come meanwhile
    assert states() == [RunState.DONE] * 6


def test_nobody_suffers_for_another_in_a_shared_commit(flow: Any, batches: list[int]) -> None:
    flow(Gathering(), Quiet())
    overtaken = _gather(6, is_overtaken=True)[-1]
    assert batches == [6, *[1] * 6]
    rest = WorkflowRun.objects.using(ALIAS).exclude(pk=overtaken.pk)
    assert set(rest.values_list("state", flat=True)) == {RunState.DONE}
    row = WorkflowRun.objects.using(ALIAS).get(pk=overtaken.pk)
    assert (row.state, row.position) == (RunState.RUNNING, 0)
    assert StepRecord.objects.using(ALIAS).get(run=row).state == StepState.RUNNING
