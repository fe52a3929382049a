"""Costs of the engine: exact numbers of statements, which do not depend on load."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connections

from conductor import events
from conductor.core.errors import Conflict
from conductor.core.states import RunState, StepState
from conductor.db.transactions import savepoint, write_tx
from conductor.journal.models import Event, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.workflows.engine import executor
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.flow import Result, RetryPolicy, Step, StepContext
from tests.counting import counted
from tests.fixtures.engine_costs import ALIAS, Quiet, flow, overtake, start, states

__all__ = ["flow"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

STEPS = 8
# Per database: transactions and statements of a run, from the request that opens it to its end.
RUN = {"sqlite": (10, 43), "postgresql": (10, 23)}
RUN_AND_COMPENSATE = {"sqlite": (19, 80), "postgresql": (19, 32)}


class Failing(Step):
    title = "failing"

    def execute(self, work: StepContext) -> Result:
        raise Conflict("as asked")


class Kept(Step):
    title = "kept"

    def execute(self, work: StepContext) -> Result:
        return {}


def named(count: int, kind: type[Step] = Quiet) -> list[Step]:
    """Steps of one kind, each with a name of its own."""
    return [type(f"{kind.__name__}{number}", (kind,), {})() for number in range(count)]


def test_a_flow_of_eight_steps_takes_ten_transactions(flow: Any) -> None:
    flow(*named(STEPS))
    with counted(ALIAS) as seen:
        executor.run(ALIAS, start().uuid)
    assert states() == [RunState.DONE]
    assert (seen.transactions, len(seen.statements)) == RUN[connections[ALIAS].vendor]


def test_compensating_eight_steps_costs_as_much_as_executing_them(flow: Any) -> None:
    flow(*named(STEPS), Failing())
    with counted(ALIAS) as seen:
        executor.run(ALIAS, start().uuid)
    assert states() == [RunState.FAILED_UNDONE]
    assert (seen.transactions, len(seen.statements)) == RUN_AND_COMPENSATE[connections[ALIAS].vendor]


def emit_and_roll_back(scope: AbstractContextManager[None]) -> None:
    with scope:
        events.append(ALIAS, events.EventSubject("host:a"), "undone")
        raise Conflict("as asked")


def test_events_of_a_transaction_are_written_at_its_end_without_what_was_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced: list[tuple[str, int]] = []
    monkeypatch.setattr(events, "_listeners", [lambda lines: announced.append((lines.kind, lines.cursor))])
    about = events.EventSubject("host:a")
    with counted(ALIAS) as seen, write_tx(ALIAS):
        for number in range(150):
            events.append(ALIAS, about, f"kept.{number}")
        with pytest.raises(Conflict):
            emit_and_roll_back(savepoint(ALIAS))
        events.append(ALIAS, about, "last")
    assert sum(text.startswith("INSERT") for text in seen.statements) == 2  # a hundred at most in one
    log = list(Event.objects.using(ALIAS).order_by("pk").values_list("kind", "pk"))
    assert [kind for kind, _ in log] == [*(f"kept.{number}" for number in range(150)), "last"]
    assert announced == log
    with pytest.raises(Conflict):
        emit_and_roll_back(write_tx(ALIAS))
    assert Event.objects.using(ALIAS).count() == len(announced) == 151


def test_a_notification_without_work_costs_one_read(flow: Any) -> None:
    flow(*named(1))
    run = start()
    executor.run(ALIAS, run.uuid)
    with counted(ALIAS) as seen:
        executor.run(ALIAS, run.uuid)
    assert (seen.transactions, len(seen.statements)) == (0, 1)


@pytest.mark.parametrize("last", [(Kept(), Failing()), ()], ids=["back", "done"])
def test_fast_and_slow_transitions_write_the_same_rows(
    last: tuple[Step, ...], flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fast paths and the long one leave the same records, variables and events, and announce the same."""
    emitted: list[tuple[str, str]] = []
    listener = lambda lines: emitted.append((lines.kind, lines.run_uuid))  # noqa: E731
    monkeypatch.setattr(events, "_listeners", [listener])
    flow(*named(3), *last)
    short = start("thing:1")
    executor.run(ALIAS, short.uuid)
    monkeypatch.setattr(Transitions, "_is_known", lambda self: False)
    long = start("thing:2")
    executor.run(ALIAS, long.uuid)
    assert _written(short) == _written(long)
    lines = [[kind for kind, uuid in emitted if uuid == str(run.uuid)] for run in (short, long)]
    assert lines[0] == lines[1]
    assert lines[0] == list(Event.objects.using(ALIAS).filter(run_uuid=short.uuid).values_list("kind", flat=True))
    assert not ResourceLock.objects.using(ALIAS).exists()


def _written(run: WorkflowRun) -> Any:
    row = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    records = StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk")
    emitted = Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk")
    return (
        (row.state, row.position, row.direction, row.variables, row.error, row.owner, row.lease_expires_at),
        [
            (
                r.name,
                r.index,
                r.direction,
                r.try_number,
                r.state,
                r.result,
                r.error,
                bool(r.started_at and r.finished_at),
            )
            for r in records
        ],
        list(emitted.values_list("kind", "data", "project_id", "instance_uuid")),
    )


def test_a_cancel_that_comes_during_a_step_is_seen_at_its_end(flow: Any) -> None:
    class Cancelling(Quiet):
        def execute(self, work: StepContext) -> Result:
            with write_tx(ALIAS):
                outbox.request_cancel(ALIAS, WorkflowRun.objects.using(ALIAS).get(pk=work.run.pk), "changed my mind")
            return super().execute(work)

    flow(*named(1), Cancelling(), *named(2, type("SecondsFromNow", (Quiet,), {})))
    run = start()
    executor.run(ALIAS, run.uuid)
    ended = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    assert (ended.state, ended.error["message"]) == (RunState.CANCELLED, "changed my mind")
    done = StepRecord.objects.using(ALIAS).filter(run=run, direction="do", state=StepState.DONE)
    assert list(done.order_by("pk").values_list("name", flat=True)) == ["Quiet0", "Cancelling"]


def test_an_owner_that_was_overtaken_during_a_step_writes_nothing(flow: Any) -> None:
    class Overtaken(Quiet):
        def execute(self, work: StepContext) -> Result:
            overtake(work.run)
            return super().execute(work)

    flow(Overtaken(), *named(1))
    run = start()
    executor.run(ALIAS, run.uuid)
    record = StepRecord.objects.using(ALIAS).get(run=run)
    assert (record.name, record.state, record.result) == ("Overtaken", StepState.RUNNING, None)
    assert WorkflowRun.objects.using(ALIAS).get(pk=run.pk).position == 0


@pytest.mark.parametrize("meanwhile", ["overtaken", "asked to stop"])
def test_a_step_that_fails_turns_back_only_the_run_that_its_owner_knows(flow: Any, meanwhile: str) -> None:
    class Interrupted(Failing):
        def execute(self, work: StepContext) -> Result:
            if meanwhile == "overtaken":
                overtake(work.run)
            else:
                with write_tx(ALIAS):
                    outbox.request_cancel(
                        ALIAS, WorkflowRun.objects.using(ALIAS).get(pk=work.run.pk), "changed my mind"
                    )
            return super().execute(work)

    flow(*named(1), Interrupted())
    run = start()
    executor.run(ALIAS, run.uuid)
    found = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    record = StepRecord.objects.using(ALIAS).get(run=run, name="Interrupted")
    if meanwhile == "overtaken":
        assert (found.direction, found.position, found.error, record.state) == ("do", 1, None, StepState.RUNNING)
        assert not StepRecord.objects.using(ALIAS).filter(run=run, direction="undo").exists()
    else:
        assert (found.state, found.error["message"], record.state) == (
            RunState.FAILED_UNDONE,
            "as asked",
            StepState.FAILED,
        )


def test_a_step_that_has_tries_left_is_tried_again_and_not_undone(flow: Any) -> None:
    class Stubborn(Failing):
        retry = RetryPolicy(max_attempts=2, pause_seconds=0.0)

    flow(*named(1), Stubborn())
    run = start()
    executor.run(ALIAS, run.uuid)
    assert WorkflowRun.objects.using(ALIAS).get(pk=run.pk).direction == "do"
    executor.run(ALIAS, run.uuid)
    assert states() == [RunState.FAILED_UNDONE]
    tried = StepRecord.objects.using(ALIAS).filter(run=run, name="Stubborn")
    assert list(tried.order_by("pk").values_list("try_number", "state")) == [(1, "failed"), (2, "failed")]
