"""Cancel, retry, resume, reschedule: effects, and reasons for refusals."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.core.errors import Conflict, Invalid, ResourceLocked
from conductor.core.states import RunState, StepState
from conductor.journal import locks as journal_locks
from conductor.journal.models import Event, LeaseGrant, LockWait, ResourceLock, StepRecord, WorkflowRun
from conductor.services.workflows import actions
from conductor.workflows.flow import RetryPolicy, Step, StepContext
from tests.integration.interventions import (
    ALIAS,
    DIARY,
    INSTANCE,
    MANAGER,
    MEMBER,
    Noted,
    OnHost,
    answer,
    audited,
    fresh,
    go,
    locks,
    order,
    snapshot,
    start,
)

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
SLOW = RetryPolicy(max_attempts=5, pause_seconds=3600, max_pause_seconds=3600)


# -- cancel ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("host_is_heard")
def test_cancel_of_a_run_parked_on_a_host_reverts_the_step_under_way(flow: Any) -> None:
    flow(Noted("one"), OnHost())
    run = start()
    go(run)
    before = order(run, "cancel", MEMBER)
    assert before.fencing_token == LeaseGrant.objects.using(ALIAS).latest("pk").pk
    assert go(run).state == RunState.WAITING  # for the host, which undoes
    ended = answer(run)
    assert (ended.state, ended.error["message"]) == (RunState.CANCELLED, "because")
    assert DIARY.lines == ["do one", "apply one one", "undo one", "last"]
    assert locks() == []
    assert audited() == [("workflow.cancel", "done")]


def test_cancel_of_a_run_that_waits_for_a_lock_ends_it_at_once(flow: Any) -> None:
    flow(Noted("one", SLOW))
    DIARY.failures["do one"] = 1
    holder, waiter = start(), start(may_wait=True)
    go(holder)
    assert order(waiter, "cancel", MEMBER).state == RunState.CANCELLED
    assert not LockWait.objects.using(ALIAS).exists()
    assert fresh(holder).state == RunState.WAITING
    assert len(locks()) == 1
    assert DIARY.lines == ["do one"]


def test_cancel_before_the_first_step_only_ends_the_run(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    order(run, "cancel", MEMBER)
    assert go(run).state == RunState.CANCELLED
    assert DIARY.lines == ["last"]


def test_a_cancel_that_was_accepted_is_never_too_late(flow: Any) -> None:
    class Asking(Noted):
        def execute(self, work: StepContext) -> Any:
            order(work.run, "cancel", MEMBER)  # comes while the step before the point of no return is under way
            return super().execute(work)

    flow(Asking("one"), Noted("two"), cancellable_until="two")
    run = start()
    go(run)  # fenced out by the cancel
    assert fresh(run).position == 0
    assert go(run).state == RunState.CANCELLED
    assert "do two" not in DIARY.lines
    assert DIARY.lines[-2:] == ["undo one", "last"]


@pytest.mark.parametrize("until", [None, "one"])
def test_cancel_past_the_point_of_no_return_is_refused(flow: Any, until: str | None) -> None:
    flow(Noted("one", SLOW), cancellable_until=until)
    DIARY.failures["do one"] = 1
    run = start()
    go(run)
    before = snapshot()
    with pytest.raises(Conflict, match=r"can be undone|always runs to its end"):
        order(run, "cancel", MEMBER)
    assert snapshot() == before
    assert audited() == [("workflow.cancel", "refused")]


def test_a_run_that_only_goes_forward_is_not_cancelled_before_it_begins_either(flow: Any) -> None:
    flow(Noted("one"), cancellable_until=None)
    run = start(is_cancellable=False)
    with pytest.raises(Conflict, match="always runs to its end"):
        order(run, "cancel")


@pytest.mark.usefixtures("host_is_heard")
def test_cancel_reaches_the_children_and_those_that_cannot_are_on_record(flow: Any) -> None:
    flow(OnHost())
    parent = start("thing:parent")
    WorkflowRun.objects.using(ALIAS).filter(pk=parent.pk).update(state=RunState.DONE)
    first, second = (start(f"thing:{n}", parent_uuid=parent.uuid) for n in (1, 2))
    for child in (first, second):
        go(child)
    order(second, "cancel")
    order(parent, "cancel", MEMBER)
    assert fresh(first).is_cancel_requested
    results = [result for _, result in audited()]
    assert results == ["done", "done", "done", "refused"]


def test_a_cancel_before_the_flow_was_known_is_withdrawn_and_reported(flow: Any) -> None:
    flow(Noted("one"), cancellable_until=None)
    run = start()
    order(run, "cancel")
    ended = go(run)
    assert (ended.state, ended.is_cancel_requested) == (RunState.DONE, False)
    assert Event.objects.using(ALIAS).filter(run_uuid=run.uuid, kind="run.cancel_refused").exists()


# -- retry ----------------------------------------------------------------------------------------------------


def failed(flow: Any, *parts: Step, at: str) -> WorkflowRun:
    flow(*parts)
    DIARY.failures[f"do {at}"] = 1
    run = start()
    assert go(run).state == RunState.FAILED_UNDONE
    return fresh(run)


def test_retry_takes_the_locks_and_begins_a_new_attempt(flow: Any) -> None:
    run = failed(flow, Noted("one"), Noted("two"), at="two")
    DIARY.lines.clear()
    again = order(run, "retry", MANAGER, step="one")
    assert (again.state, again.attempt, again.error, locks()) == (
        RunState.QUEUED,
        2,
        None,
        ["instance:" + str(run.instance_uuid)],
    )
    assert go(run).state == RunState.DONE
    assert DIARY.lines == ["do one", "apply one one", "do two", "apply two two"]
    assert locks() == []


class Kept(Noted):
    """Has nothing to undo, so its result stays."""

    revert = Step.revert


def test_retry_may_begin_after_steps_that_are_still_done(flow: Any) -> None:
    run = failed(flow, Kept("one"), Noted("two"), Noted("three"), at="two")
    assert actions.facts_of(ALIAS, run).retry_steps == ("one", "two")
    before = snapshot()
    with pytest.raises(Invalid, match="one, two"):
        order(run, "retry", step="three")
    assert snapshot() == before
    DIARY.lines.clear()
    order(run, "retry", step="two")
    assert go(run).state == RunState.DONE
    assert DIARY.lines[0] == "do two"


def test_retry_names_the_holder_of_a_lock_and_takes_none(flow: Any) -> None:
    flow(Noted("one"))
    DIARY.failures["do one"] = 1
    run = start("thing:1", "thing:2")
    go(run)
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(instance_uuid=None)
    holder = start("thing:2")
    before = snapshot()
    with pytest.raises(ResourceLocked, match=str(holder.uuid)):
        order(run, "retry", step="one")
    assert snapshot() == before


def test_retry_is_refused_when_another_run_had_the_server_since(flow: Any) -> None:
    run = failed(flow, Noted("one"), at="one")
    later = start()
    assert go(later).state == RunState.DONE
    with pytest.raises(Conflict, match=str(later.uuid)):
        order(run, "retry", step="one")


def test_retry_is_refused_where_the_flow_let_go_of_what_it_needs(flow: Any) -> None:
    flow(Noted("one"), is_retryable=False)
    DIARY.failures["do one"] = 1
    run = start()
    go(run)
    with pytest.raises(Conflict, match="Start a new one"):
        order(run, "retry", step="one")


def test_a_run_whose_secrets_are_gone_is_not_retried(flow: Any) -> None:
    flow(Noted("one"))
    DIARY.failures["do one"] = 1
    run = start(secrets={"password": "seven-ducks"})
    assert go(run).secrets == {}
    with pytest.raises(Conflict, match="Start a new one"):
        order(run, "retry", step="one")


# -- resume ---------------------------------------------------------------------------------------------------


def test_resume_does_not_wait_for_the_timer(flow: Any) -> None:
    flow(Noted("one", SLOW))
    DIARY.failures["do one"] = 1
    run = start()
    assert go(run).state == RunState.WAITING
    assert go(run).state == RunState.WAITING  # not due
    order(run, "resume", MANAGER)
    assert go(run).state == RunState.DONE


def needing_an_operator(flow: Any, **options: Any) -> WorkflowRun:
    flow(Noted("one"), **options)
    DIARY.failures |= {"do one": 1, "last": 1}
    run = start()
    assert go(run).state == RunState.NEEDS_OPERATOR
    return fresh(run)


def test_a_run_that_needs_an_operator_keeps_its_locks_and_its_first_cause(flow: Any) -> None:
    run = needing_an_operator(flow)
    assert len(locks()) == 1
    assert run.error["message"] == "RuntimeError"
    assert run.error["step"] == "one"
    with pytest.raises(ResourceLocked, match=str(run.uuid)):
        start()
    order(run, "resume")
    ended = go(run)
    assert (ended.state, ended.error["step"]) == (RunState.FAILED_UNDONE, "one")
    assert locks() == []


def foreign_locks() -> list[str]:
    """Return the locks in the API database of the cell's runs."""
    return sorted(ResourceLock.objects.using("default").values_list("resource", flat=True))


def run_with_volume() -> WorkflowRun:
    """Open a run like an accepted action: locks in the API database are taken before the run is opened."""
    run_uuid, resources = uuid4(), (f"instance:{INSTANCE}", "volume:1")
    journal_locks.take_cross_database(["volume:1"], holder_uuid=run_uuid, holder_alias=ALIAS, action="make")
    return start(*resources, run_uuid=run_uuid)


def test_a_refused_retry_frees_nothing_of_a_run_that_needs_an_operator(flow: Any) -> None:
    flow(Noted("one"))
    DIARY.failures |= {"do one": 1, "last": 1}
    run = run_with_volume()
    assert go(run).state == RunState.NEEDS_OPERATOR
    with pytest.raises(Conflict):
        order(run, "retry", step="one")
    assert (foreign_locks(), len(locks())) == (["volume:1"], 2)
    order(run, "resume")
    go(run)
    assert (foreign_locks(), locks()) == ([], [])


def test_a_second_concurrent_retry_of_a_run_releases_no_locks_of_the_first(flow: Any, monkeypatch: Any) -> None:
    flow(Noted("one"))
    DIARY.failures["do one"] = 1
    run = run_with_volume()
    assert go(run).state == RunState.FAILED_UNDONE
    assert foreign_locks() == []
    taken = journal_locks.take_cross_database

    def first_comes_another(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(journal_locks, "take_cross_database", taken)
        order(run, "retry", step="one")
        taken(*args, **options)

    monkeypatch.setattr(journal_locks, "take_cross_database", first_comes_another)
    with pytest.raises(ResourceLocked, match=str(run.uuid)):
        order(run, "retry", step="one")
    assert (foreign_locks(), fresh(run).state) == (["volume:1"], RunState.QUEUED)
    assert go(run).state == RunState.DONE
    assert foreign_locks() == []


def test_the_end_of_a_run_that_comes_late_frees_nothing_of_its_next_life(flow: Any, monkeypatch: Any) -> None:
    flow(Noted("one"))
    DIARY.failures["do one"] = 1
    run = run_with_volume()
    late: list[tuple[Any, ...]] = []
    connection = connections["default"]
    with connection.cursor() as sql:  # at a whole second, as the database's clock writes it
        sql.execute("UPDATE journal_resourcelock SET granted_at = '2026-01-01 00:00:00.000'")
    with monkeypatch.context() as patch:
        patch.setattr(journal_locks, "free_cross_database_until", lambda *given: late.append(given))
        assert go(run).state == RunState.FAILED_UNDONE
    assert foreign_locks() == ["volume:1"]
    order(run, "retry", step="one")
    journal_locks.free_cross_database_until(*late[0])
    assert foreign_locks() == ["volume:1"]
    assert go(run).state == RunState.DONE
    assert foreign_locks() == []


# -- reschedule -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("host_is_heard")
def test_reschedule_undoes_the_attempt_and_takes_the_next_alternate(flow: Any) -> None:
    flow(Noted("one"), OnHost(), max_attempts=2)
    run = start(inputs={"selections": [{"host": "host-1"}, {"host": "host-2"}, {"host": "host-3"}]})
    go(run)
    order(run, "reschedule")
    go(run)
    answer(run)  # the undo on host-1
    again = fresh(run)
    assert (again.attempt, again.waits_for["detail"]) == (2, "host-2")
    order(run, "reschedule")  # more attempts than the flow would take by itself
    go(run)
    assert answer(run).attempt == 3
    ended = answer(run)
    assert (ended.state, ended.error) == (RunState.DONE, None)
    failed_steps = StepRecord.objects.using(ALIAS).filter(run=run, state=StepState.FAILED)
    assert [record.error["class"] for record in failed_steps] == ["Rescheduled", "Rescheduled"]


@pytest.mark.usefixtures("host_is_heard")
def test_reschedule_is_refused_when_no_alternate_is_left(flow: Any) -> None:
    flow(OnHost(), max_attempts=3)
    run = start(inputs={"selections": [{"host": "host-1"}]})
    go(run)
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(variables={"tried_hosts": ["host-1"]})
    before = snapshot()
    with pytest.raises(Conflict, match="No alternate"):
        order(run, "reschedule")
    assert snapshot() == before
