"""What the engine asks of its database, to the statement: figures that no noise touches."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connections

from conductor import events
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict
from conductor.core.states import RunState, StepState
from conductor.journal import passages
from conductor.journal.models import Event, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.transactions import database_now, write_tx
from conductor.workflows import catalog, engine, leases
from conductor.workflows.flow import Flow, Result, Step, Work
from tests.counting import counted

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ALIAS = "cell1"
ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
STEPS = 8
# Per database: transactions and statements of a run, from the request that opens it to its end.
DOING = {"sqlite": (10, 49), "postgresql": (10, 28)}
DOING_AND_UNDOING = {"sqlite": (19, 89), "postgresql": (19, 44)}


class Quiet(Step):
    title = "quiet"

    def execute(self, work: Work) -> Result:
        return {"n": work.run.position}

    def revert(self, work: Work, result: Result) -> None:
        assert result == {"n": work.run.position - 1}


class Failing(Step):
    title = "failing"

    def execute(self, work: Work) -> Result:
        raise Conflict("as asked")


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*steps: Step) -> None:
        monkeypatch.setitem(catalog._by_version, ("made", 1), Flow("made", 1, steps))

    return use


def named(count: int, kind: type[Step] = Quiet) -> list[Step]:
    """Steps of one kind, each with a name of its own."""
    return [type(f"{kind.__name__}{number}", (kind,), {})() for number in range(count)]


def start(resource: str = "thing:1") -> WorkflowRun:
    with write_tx(ALIAS):
        return outbox.open_run(ALIAS, outbox.NewRun(flow="made", action="make", context=ANA, resources=[resource]))


def overtake(run: WorkflowRun) -> None:
    """Its lease has run out, and another worker goes on with the run."""
    past = {"lease_expires_at": database_now(-1), "wake_at": database_now()}
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(**past)
    assert leases.claim(ALIAS, run.uuid) is not None


def states() -> list[str]:
    return list(WorkflowRun.objects.using(ALIAS).order_by("pk").values_list("state", flat=True))


def test_a_flow_of_eight_steps_takes_ten_transactions(flow: Any) -> None:
    flow(*named(STEPS))
    with counted(ALIAS) as seen:
        engine.run(ALIAS, start().uuid)
    assert states() == [RunState.DONE]
    assert (seen.transactions, len(seen.statements)) == DOING[connections[ALIAS].vendor]


def test_undoing_eight_steps_costs_what_doing_them_does(flow: Any) -> None:
    flow(*named(STEPS), Failing())
    with counted(ALIAS) as seen:
        engine.run(ALIAS, start().uuid)
    assert states() == [RunState.FAILED_UNDONE]
    assert (seen.transactions, len(seen.statements)) == DOING_AND_UNDOING[connections[ALIAS].vendor]


def test_a_doorbell_for_nothing_costs_one_read(flow: Any) -> None:
    flow(*named(1))
    run = start()
    engine.run(ALIAS, run.uuid)
    with counted(ALIAS) as seen:
        engine.run(ALIAS, run.uuid)
    assert (seen.transactions, len(seen.statements)) == (0, 1)


def test_what_is_written_at_once_is_what_was_written_bit_by_bit(flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual way on and the long way leave the same records, variables and events, and announce the same."""
    told: list[tuple[str, str]] = []
    listener = lambda said: told.append((said.kind, said.run_uuid))  # noqa: E731
    monkeypatch.setattr(events, "_listeners", [listener])
    flow(*named(3), Failing())
    short = start("thing:1")
    engine.run(ALIAS, short.uuid)
    monkeypatch.setattr("conductor.workflows.straight_on.go_on", lambda *_: None)
    long = start("thing:2")
    engine.run(ALIAS, long.uuid)
    assert _written(short) == _written(long)
    said = [[kind for kind, uuid in told if uuid == str(run.uuid)] for run in (short, long)]
    assert said[0] == said[1]
    assert said[0] == list(Event.objects.using(ALIAS).filter(run_uuid=short.uuid).values_list("kind", flat=True))
    assert not ResourceLock.objects.using(ALIAS).exists()


def _written(run: WorkflowRun) -> Any:
    row = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    records = StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk")
    told = Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk")
    return (
        (row.state, row.position, row.direction, row.variables, row.error, row.owner, row.lease_expires_at),
        [
            (r.name, r.index, r.direction, r.try_number, r.state, r.result, bool(r.started_at and r.finished_at))
            for r in records
        ],
        list(told.values_list("kind", "data", "project_id", "instance_uuid")),
    )


def test_a_cancel_that_comes_during_a_step_is_seen_at_its_end(flow: Any) -> None:
    class Cancelling(Quiet):
        def execute(self, work: Work) -> Result:
            with write_tx(ALIAS):
                outbox.request_cancel(ALIAS, WorkflowRun.objects.using(ALIAS).get(pk=work.run.pk), "changed my mind")
            return super().execute(work)

    flow(*named(1), Cancelling(), *named(2, type("Later", (Quiet,), {})))
    run = start()
    engine.run(ALIAS, run.uuid)
    ended = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    assert (ended.state, ended.error["message"]) == (RunState.CANCELLED, "changed my mind")
    done = StepRecord.objects.using(ALIAS).filter(run=run, direction="do", state=StepState.DONE)
    assert list(done.order_by("pk").values_list("name", flat=True)) == ["Quiet0", "Cancelling"]


def test_an_owner_that_was_overtaken_during_a_step_writes_nothing(flow: Any) -> None:
    class Overtaken(Quiet):
        def execute(self, work: Work) -> Result:
            overtake(work.run)
            return super().execute(work)

    flow(Overtaken(), *named(1))
    run = start()
    engine.run(ALIAS, run.uuid)
    record = StepRecord.objects.using(ALIAS).get(run=run)
    assert (record.name, record.state, record.result) == ("Overtaken", StepState.RUNNING, None)
    assert WorkflowRun.objects.using(ALIAS).get(pk=run.pk).position == 0


# -- many workers and one SQLite file -------------------------------------------------------------------------


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups that were committed, in order."""
    if connections[ALIAS].vendor != "sqlite":
        pytest.skip("PostgreSQL groups commits by itself: each passage is a statement of its own there")
    sizes: list[int] = []
    settle = passages._settle

    def noted(alias: str, batch: Any) -> None:
        sizes.append(len(batch))
        settle(alias, batch)

    monkeypatch.setattr(passages, "_settle", noted)
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
        _until(lambda: len(passages._group_of(ALIAS)._waiting) == workers - 1)  # and one leads, and waits for us
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
    assert batches == [1, 5]  # the first leads alone, as nobody else was there; the next writes for all
    assert states() == [RunState.DONE] * 6


def test_nobody_suffers_for_another_in_a_shared_commit(flow: Any, batches: list[int]) -> None:
    flow(Gathering(), Quiet())
    overtaken = _gather(6, is_overtaken=True)[-1]
    assert sorted(batches, reverse=True)[0] == 5
    rest = WorkflowRun.objects.using(ALIAS).exclude(pk=overtaken.pk)
    assert set(rest.values_list("state", flat=True)) == {RunState.DONE}
    row = WorkflowRun.objects.using(ALIAS).get(pk=overtaken.pk)
    assert (row.state, row.position) == (RunState.RUNNING, 0)
    assert StepRecord.objects.using(ALIAS).get(run=row).state == StepState.RUNNING
