"""The engine's laws, on flows made for the purpose and a real database."""

from __future__ import annotations

from typing import Any

import pytest

from conductor import process_names
from conductor.core.errors import ResourceLocked, StaleToken
from conductor.core.states import RunState, StepState
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import LeaseGrant, OutboxMessage, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import broker, outbox
from conductor.rpc.messages import StepAnswered
from conductor.workflows import catalog
from conductor.workflows.engine import executor, leases, recovery
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.flow import RetryPolicy, StepContext
from tests.fixtures.engine import (
    ALIAS,
    ANA,
    DIARY,
    Noted,
    NotedLocal,
    NotedRemote,
    _fresh_diary,
    _host_is_heard,
    answer,
    due_now,
    flow,
    fresh,
    start,
)

__all__ = ["_fresh_diary", "_host_is_heard", "flow"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_steps_run_in_order_and_locks_are_freed(flow: Any) -> None:
    flow(Noted("one"), NotedLocal(), Noted("two"))
    run = start("thing:1", "thing:2")
    executor.run(ALIAS, run.uuid)
    assert DIARY.lines == ["do one", "do local", "do two"]
    assert fresh(run).state == RunState.DONE
    assert fresh(run).variables["one"] == {"by": "one"}
    assert not ResourceLock.objects.using(ALIAS).exists()
    states = StepRecord.objects.using(ALIAS).order_by("pk").values_list("name", "state")
    assert list(states) == [("one", "done"), ("NotedLocal", "done"), ("two", "done")]


@pytest.mark.parametrize("failing", ["one", "two", "three"])
def test_a_failure_compensates_all_steps_backwards_including_the_failed_one(flow: Any, failing: str) -> None:
    names = ["one", "two", "three"]
    flow(*(Noted(name) for name in names))
    DIARY.failures[f"do {failing}"] = 1
    run = start()
    executor.run(ALIAS, run.uuid)
    done = names[: names.index(failing) + 1]
    assert DIARY.lines == [f"do {n}" for n in done] + [f"undo {n}" for n in reversed(done)] + ["final"]
    ended = fresh(run)
    assert ended.state == RunState.FAILED_UNDONE
    assert ended.error["step"] == failing
    assert ended.error["message"] == "RuntimeError"
    assert not ResourceLock.objects.using(ALIAS).exists()


def test_the_final_step_of_a_flow_runs_once_and_no_step_follows_it(flow: Any) -> None:
    """One that works outside the journal is done like a step, and its place is no step's."""
    flow(Noted("one"), Noted("two"), on_failure=Noted("last"))
    DIARY.failures["do one"] = 1
    run = start()
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.FAILED_UNDONE
    assert DIARY.lines == ["do one", "undo one", "do last"]
    ends = StepRecord.objects.using(ALIAS).filter(run=run, direction="end").values_list("name", "state")
    assert list(ends) == [("last", StepState.DONE)]


def test_a_failing_compensation_is_reported_and_the_others_are_done(flow: Any) -> None:
    flow(Noted("one"), Noted("two"), Noted("three"))
    DIARY.failures |= {"do three": 1, "undo two": 9}
    run = start()
    executor.run(ALIAS, run.uuid)
    while fresh(run).state == RunState.WAITING:
        due_now(run)
        executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.FAILED_NOT_CLEAN
    assert fresh(run).uncompensated == ["two: RuntimeError"]
    assert DIARY.lines[-2:] == ["undo one", "final"]


def test_a_step_is_retried_by_its_policy_and_no_thread_waits(flow: Any) -> None:
    flow(Noted("one", retry=RetryPolicy(max_attempts=3, pause_seconds=60)))
    DIARY.failures["do one"] = 2
    run = start()
    for tries in (1, 2):
        executor.run(ALIAS, run.uuid)
        assert fresh(run).state == RunState.WAITING
        assert fresh(run).waits_for["cause"] == "timer"
        assert fresh(run).owner is None
        assert DIARY.lines == ["do one"] * tries
        executor.run(ALIAS, run.uuid)  # rung too early: nothing happens
        assert DIARY.lines == ["do one"] * tries
        due_now(run)
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.DONE


@pytest.mark.usefixtures("_host_is_heard")
def test_a_remote_step_parks_and_the_answer_resumes_it_once(flow: Any) -> None:
    flow(NotedRemote(), Noted("after"))
    run = start()
    executor.run(ALIAS, run.uuid)
    parked = fresh(run)
    assert (parked.state, parked.owner, parked.waits_for["detail"]) == (RunState.WAITING, None, "host-1")
    sent = OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid)
    answer(run)
    repeated = StepAnswered(
        step_key=sent.step_key, run_uuid=str(run.uuid), fencing_token=1, host="host-1", ok=False, result={}, error={}
    )
    executor.answer(ALIAS, repeated)  # late and contradicting: changes nothing
    assert DIARY.lines == ["do remote 1", "do after"]
    assert fresh(run).state == RunState.DONE
    assert not OutboxMessage.objects.using(ALIAS).exists()


@pytest.mark.usefixtures("_host_is_heard")
def test_attempts_are_repeated_up_to_their_maximum(flow: Any) -> None:
    flow(Noted("claim"), NotedRemote(), max_attempts=2)
    run = start()
    executor.run(ALIAS, run.uuid)
    for expected_attempt in (1, 2):
        assert fresh(run).attempt == expected_attempt
        answer(run, ok=False)
        answer(run)  # the undo's command
    assert DIARY.lines == ["do claim", "undo claim", "do claim", "undo claim", "final"]
    assert fresh(run).state == RunState.FAILED_UNDONE
    assert fresh(run).error["message"] == "no"


@pytest.mark.usefixtures("_host_is_heard")
def test_an_error_that_no_host_can_mend_ends_at_once(flow: Any) -> None:
    flow(Noted("claim"), NotedRemote(), max_attempts=3)
    run = start()
    executor.run(ALIAS, run.uuid)
    answer(run, ok=False, is_reschedulable=False)
    answer(run)
    assert (fresh(run).attempt, fresh(run).state) == (1, RunState.FAILED_UNDONE)


@pytest.mark.usefixtures("_host_is_heard")
def test_cancel_of_a_parked_run_undoes_it(flow: Any) -> None:
    flow(Noted("claim"), NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    with write_tx(ALIAS):
        outbox.request_cancel(ALIAS, fresh(run), "not wanted any more")
    executor.run(ALIAS, run.uuid)
    answer(run)  # of the undo
    ended = fresh(run)
    assert (ended.state, ended.error["message"]) == (RunState.CANCELLED, "not wanted any more")
    assert DIARY.lines == ["do claim", "undo claim"]


def test_an_unresponsive_host_fails_the_step_and_defers_the_compensation(flow: Any) -> None:
    flow(Noted("claim"), NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    due_now(run)
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.FAILED_UNDONE
    assert fresh(run).error["class"] == "HostUnresponsive"
    deferred = OutboxMessage.objects.using(ALIAS).get()
    assert deferred.is_deferred
    assert deferred.host == "host-1"


def test_a_command_to_a_host_that_is_long_gone_is_still_sent_again(flow: Any) -> None:
    flow(NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    deferred = OutboxMessage.objects.using(ALIAS)
    for times_sent in (1, 5_000):
        deferred.update(send_again_at=database_now(), times_sent=times_sent)
        assert outbox.resend_due(ALIAS) == 1
        assert outbox.resend_due(ALIAS) == 0
        assert deferred.get().times_sent == times_sent + 1


def test_while_the_broker_is_down_no_command_is_sent_again_nor_delayed(flow: Any) -> None:
    """Otherwise the attempts of an outage would add up to a delay of a minute after it."""
    flow(NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    commands = OutboxMessage.objects.using(ALIAS)
    commands.update(send_again_at=database_now())
    before = commands.get()
    broker.outage.begun("ConnectionClosed")
    try:
        assert outbox.resend_due(ALIAS) == 0
    finally:
        broker.outage.over()
    assert (commands.get().times_sent, commands.get().send_again_at) == (before.times_sent, before.send_again_at)
    assert outbox.resend_due(ALIAS) == 1


def test_a_resource_under_work_is_refused_with_the_holder_named(flow: Any) -> None:
    flow(Noted("one"))
    holder = start("thing:1")
    with pytest.raises(ResourceLocked, match=str(holder.uuid)):
        start("thing:0", "thing:1")
    assert WorkflowRun.objects.using(ALIAS).count() == 1
    assert list(ResourceLock.objects.using(ALIAS).values_list("resource", flat=True)) == ["thing:1"]


def test_a_waiting_run_gets_its_locks_when_the_holder_ends(flow: Any) -> None:
    flow(Noted("one"))
    first, second = start("thing:1"), start("thing:1", may_wait=True)
    executor.run(ALIAS, second.uuid)
    assert fresh(second).state == RunState.QUEUED
    assert DIARY.lines == []
    executor.run(ALIAS, first.uuid)
    executor.run(ALIAS, second.uuid)
    assert fresh(second).state == RunState.DONE
    assert not ResourceLock.objects.using(ALIAS).exists()


def another_life() -> None:
    """Replace the worker's process by a new one."""
    process_names._take_new_name()
    leases._take_new_name()
    leases.expire_earlier(ALIAS)


def test_recovery_at_a_start_leaves_runs_of_its_own_workers_alone(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    claimed = leases.claim(ALIAS, run.uuid)
    assert claimed is not None
    assert leases.expire_earlier(ALIAS) == 0
    assert leases.claim(ALIAS, run.uuid) is None
    assert fresh(run).fencing_token == claimed.fencing_token


def test_a_live_owner_is_left_alone_and_a_dead_one_is_taken_over(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    first = leases.claim(ALIAS, run.uuid)
    assert first is not None
    executor.run(ALIAS, run.uuid)
    assert DIARY.lines == []
    another_life()
    assert recovery.sweep(ALIAS, grace_seconds=0.0) == 1
    executor.run(ALIAS, run.uuid)
    assert DIARY.lines == ["do one"]
    reasons = LeaseGrant.objects.using(ALIAS).filter(run=run).order_by("pk").values_list("reason", flat=True)
    assert list(reasons) == ["claim", "takeover: the lease ran out"]


def test_a_stale_owner_is_refused_in_its_own_and_in_other_databases(flow: Any) -> None:
    made = flow(Noted("one"))
    run = start()
    stale = leases.claim(ALIAS, run.uuid)
    assert stale is not None
    another_life()
    current = leases.claim(ALIAS, run.uuid)
    assert current is not None
    assert current.fencing_token > stale.fencing_token

    def work(row: WorkflowRun) -> StepContext:
        return StepContext(ALIAS, row, ANA, "key", row.fencing_token)

    with pytest.raises(StaleToken), work(stale).fenced(ALIAS):
        pytest.fail("a stale owner got in")
    with work(current).fenced("default"):
        pass
    with pytest.raises(StaleToken), work(stale).fenced("default"):
        pytest.fail("a stale owner wrote in another database")
    assert made.plan()[0]["name"] == "one"


def test_the_open_record_of_a_dead_owner_keeps_its_key(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    claimed = leases.claim(ALIAS, run.uuid)
    assert claimed is not None
    transitions = Transitions(ALIAS, claimed, catalog.flow_of(claimed))
    with transitions.transaction():
        transitions.resume()  # the owner dies here, after the first step was opened
    another_life()
    executor.run(ALIAS, run.uuid)
    record = StepRecord.objects.using(ALIAS).get(run=run)
    assert (record.try_number, record.state) == (1, StepState.DONE)
