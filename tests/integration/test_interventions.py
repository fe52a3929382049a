"""Each intervention does what it says, is fenced, and leaves a record."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, ResourceLocked, StaleRevision, StaleToken
from conductor.core.states import RunState, StepState
from conductor.journal.models import AuditRecord, Event, LeaseGrant, LockWait, OutboxMessage, StepRecord, WorkflowRun
from conductor.services import flow_actions
from conductor.transactions import database_now
from conductor.workflows import catalog, leases
from conductor.workflows.flow import Flow, Retry, Step, Work
from conductor.workflows.turn import Turn
from tests.integration.interventions import (
    ALIAS,
    DIARY,
    MANAGER,
    MEMBER,
    Last,
    Noted,
    OnHost,
    answer,
    audited,
    fresh,
    go,
    locks,
    order,
    person,
    snapshot,
    start,
    steps,
)

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
SLOW = Retry(tries=5, pause_seconds=3600, longest_pause_seconds=3600)


@pytest.fixture(autouse=True)
def _fresh_diary() -> None:
    DIARY.clear()


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*parts: Step, **options: Any) -> Flow:
        made = Flow("made", 1, parts, **{"on_failure": Last(), "on_cancel": Last(), **options})
        monkeypatch.setitem(catalog._by_version, ("made", 1), made)
        return made

    return use


@pytest.fixture
def _host_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.workflows.turn.is_silent", lambda alias, host: False)
    monkeypatch.setattr(flow_actions, "_is_heard", lambda alias, host: True)


# -- cancel ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_host_is_heard")
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


def test_cancel_before_the_first_turn_does_nothing_but_end(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    order(run, "cancel", MEMBER)
    assert go(run).state == RunState.CANCELLED
    assert DIARY.lines == ["last"]


def test_a_cancel_that_was_accepted_is_never_too_late(flow: Any) -> None:
    class Asking(Noted):
        def execute(self, work: Work) -> Any:
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
    with pytest.raises(Conflict, match=r"undone|forward"):
        order(run, "cancel", MEMBER)
    assert snapshot() == before
    assert audited() == [("workflow.cancel", "refused")]


def test_a_run_that_only_goes_forward_is_not_cancelled_before_it_begins_either(flow: Any) -> None:
    flow(Noted("one"), cancellable_until=None)
    run = start(is_cancellable=False)
    with pytest.raises(Conflict, match="forward"):
        order(run, "cancel")


@pytest.mark.usefixtures("_host_is_heard")
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


def test_retry_may_begin_after_what_is_done_still(flow: Any) -> None:
    run = failed(flow, Kept("one"), Noted("two"), Noted("three"), at="two")
    assert flow_actions.facts_of(ALIAS, run).retry_steps == ("one", "two")
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
    with pytest.raises(Conflict, match="anew"):
        order(run, "retry", step="one")


def test_a_run_whose_secrets_are_gone_is_not_retried(flow: Any) -> None:
    flow(Noted("one"))
    DIARY.failures["do one"] = 1
    run = start(secrets={"password": "seven-ducks"})
    assert go(run).secrets == {}
    with pytest.raises(Conflict, match="anew"):
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


# -- reschedule -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_host_is_heard")
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


@pytest.mark.usefixtures("_host_is_heard")
def test_reschedule_is_refused_when_no_alternate_is_left(flow: Any) -> None:
    flow(OnHost(), max_attempts=3)
    run = start(inputs={"selections": [{"host": "host-1"}]})
    go(run)
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(variables={"tried_hosts": ["host-1"]})
    before = snapshot()
    with pytest.raises(Conflict, match="No alternate"):
        order(run, "reschedule")
    assert snapshot() == before


# -- skip and mark as done ------------------------------------------------------------------------------------


def parked_on_a_failed_step(flow: Any) -> WorkflowRun:
    flow(Noted("one"), Noted("two", SLOW), Noted("three"))
    DIARY.failures["do two"] = 9
    run = start()
    assert go(run).state == RunState.WAITING
    return fresh(run)


def test_a_step_that_was_done_by_hand_is_forced_and_its_effect_recorded(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    order(run, "skip", step="two", confirm="two", mark="forced", result={"by": "hand"})
    ended = go(run)
    assert ended.state == RunState.DONE
    assert ended.variables["two"] == {"by": "hand"}
    assert DIARY.lines[-3:] == ["apply two hand", "do three", "apply three three"]
    record = StepRecord.objects.using(ALIAS).get(run=run, name="two")
    assert record.state == StepState.FORCED
    assert record.result == {"evidence": "because", "said_by": "ana", "by": "hand"}


def test_a_skipped_step_has_no_effect(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    order(run, "skip", step="two", confirm="two", mark="skipped")
    assert go(run).state == RunState.DONE
    assert not any(line.startswith("apply two") for line in DIARY.lines)
    assert ("do", "two", "skipped") in steps(run)


def test_an_order_that_cannot_be_carried_out_changes_nothing_and_asks_again(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    order(run, "skip", step="two", confirm="two", mark="forced", result={"wrong": 1})  # apply needs "by"
    again = go(run)
    assert (again.state, again.position, again.orders) == (RunState.NEEDS_OPERATOR, 1, None)
    assert len(locks()) == 1
    assert Event.objects.using(ALIAS).filter(run_uuid=run.uuid, kind="run.order_failed").exists()
    DIARY.failures.clear()
    order(run, "resume")
    assert go(run).state == RunState.DONE


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"step": "two", "confirm": "tow", "mark": "forced"}, "two"),
        ({"step": "one", "confirm": "one", "mark": "forced"}, "two"),
        ({"step": "two", "confirm": "two", "mark": "done"}, "forced, skipped"),
        ({"step": "", "confirm": "", "mark": "forced"}, "step"),
        ({"step": "two", "confirm": "two", "mark": "forced", "reason": "  "}, "reason"),
        ({"step": "two", "confirm": "two", "mark": "forced", "reason": "x" * 256}, "255"),
    ],
)
def test_a_skip_needs_the_right_words(flow: Any, asked: dict[str, Any], named: str) -> None:
    run = parked_on_a_failed_step(flow)
    before = snapshot()
    with pytest.raises(Invalid, match=named):
        order(run, "skip", **asked)
    assert snapshot() == before


@pytest.mark.usefixtures("_host_is_heard")
def test_a_step_under_way_on_a_live_host_is_not_skipped(flow: Any) -> None:
    flow(OnHost())
    run = start()
    go(run)
    before = snapshot()
    with pytest.raises(Conflict, match="host-1"):
        order(run, "skip", step="OnHost", confirm="OnHost", mark="forced")
    assert snapshot() == before


def test_a_command_to_a_silent_host_can_be_marked_as_done_and_is_not_sent_again(flow: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("conductor.workflows.turn.is_silent", lambda alias, host: False)
    flow(OnHost())
    run = start()
    go(run)
    order(run, "skip", step="OnHost", confirm="OnHost", mark="forced")
    assert go(run).state == RunState.DONE
    assert not OutboxMessage.objects.using(ALIAS).exists()


# -- force ----------------------------------------------------------------------------------------------------


def test_force_ends_it_with_a_list_and_frees_its_locks(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    ended = order(run, "force", confirm=str(run.uuid)[:8])
    assert ended.state == RunState.FAILED_NOT_CLEAN
    assert ended.leftovers == ["one: done, and not undone", "two: may have done a part"]
    assert locks() == []
    assert go(run).state == RunState.FAILED_NOT_CLEAN


def test_force_needs_the_id_typed(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    before = snapshot()
    with pytest.raises(Invalid, match=str(run.uuid)[:8]):
        order(run, "force", confirm="yes")
    assert snapshot() == before


def test_what_was_forced_to_its_end_can_be_undone_afterwards(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    order(run, "force", confirm=str(run.uuid)[:8])
    DIARY.lines.clear()
    order(run, "undo")
    assert go(run).state == RunState.FAILED_UNDONE
    assert DIARY.lines == ["undo one", "last"]
    assert locks() == []


# -- take over ------------------------------------------------------------------------------------------------


def test_a_silent_owner_is_fenced_out_and_another_goes_on(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    stale = leases.claim(ALIAS, run.uuid)
    assert stale is not None
    with pytest.raises(Conflict, match="heard"):
        order(run, "take-over")
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(lease_expires_at=database_now(-1))
    taken = order(run, "take-over")
    assert taken.fencing_token > stale.fencing_token
    old = Work(ALIAS, stale, MEMBER, "key", stale.fencing_token)
    with pytest.raises(StaleToken), old.fenced(ALIAS):
        pytest.fail("the old owner got in")
    assert go(run).state == RunState.DONE
    assert [lease.reason for lease in flow_actions.leases(ALIAS, run.uuid)] == ["claim", "take-over: because", "claim"]


# -- undo again -----------------------------------------------------------------------------------------------


def not_clean(flow: Any) -> WorkflowRun:
    flow(Noted("one"), Noted("two"), Noted("three"))
    DIARY.failures |= {"do three": 1, "undo two": 1}
    run = start()
    assert go(run).state == RunState.FAILED_NOT_CLEAN
    assert fresh(run).leftovers == ["two: RuntimeError"]
    return fresh(run)


def test_undo_again_undoes_what_is_left_and_nothing_else(flow: Any) -> None:
    run = not_clean(flow)
    DIARY.lines.clear()
    order(run, "undo")
    assert len(locks()) == 1
    ended = go(run)
    assert (ended.state, ended.leftovers, ended.orders) == (RunState.FAILED_UNDONE, [], None)
    assert DIARY.lines == ["undo two", "last"]
    assert locks() == []


def test_an_undo_that_fails_again_names_it_again(flow: Any) -> None:
    run = not_clean(flow)
    DIARY.failures["undo two"] = 1
    order(run, "undo")
    ended = go(run)
    assert (ended.state, ended.leftovers) == (RunState.FAILED_NOT_CLEAN, ["two: RuntimeError"])
    assert locks() == []


def test_undo_again_never_begins_a_new_attempt(flow: Any) -> None:
    run = not_clean(flow)
    marked = {"class": "DriverError", "message": "no", "is_reschedulable": True}
    StepRecord.objects.using(ALIAS).filter(run=run, state=StepState.FAILED).update(error=marked)
    flow(Noted("one"), Noted("two"), Noted("three"), max_attempts=9)
    order(run, "undo")
    assert (go(run).state, fresh(run).attempt) == (RunState.FAILED_UNDONE, 1)


# -- all of them ----------------------------------------------------------------------------------------------


def test_roles(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    with pytest.raises(Forbidden, match="manager"):
        order(run, "resume", MEMBER)
    with pytest.raises(Forbidden, match="admin"):
        order(run, "skip", MANAGER, step="two", confirm="two", mark="forced")
    with pytest.raises(Forbidden, match="member"):
        order(run, "cancel", person("reader"))
    with pytest.raises(NotFound):
        order(run, "cancel", person("member", project_id="c" * 32))
    assert audited() == [("workflow.resume", "refused"), ("workflow.skip", "refused"), ("workflow.cancel", "refused")]
    reason = AuditRecord.objects.using(ALIAS).order_by("pk")[0]
    assert (reason.reason, reason.on_behalf_of, reason.error["class"]) == ("because", "ana", "Forbidden")


def test_a_form_that_is_out_of_date_is_refused(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    seen = flow_actions.revision_of(run)
    order(run, "resume", revision=seen)
    go(run)
    before = snapshot()
    with pytest.raises(StaleRevision):
        order(run, "resume", revision=seen)
    assert snapshot() == before


def test_an_intervention_that_there_is_none_of(flow: Any) -> None:
    flow(Noted("one"))
    with pytest.raises(NotFound, match="cancel, retry"):
        order(start(), "explode")


@pytest.mark.parametrize("name", ["cancel", "skip", "take-over", "force"])
def test_a_worker_in_the_middle_of_a_step_is_fenced_out(flow: Any, name: str) -> None:
    """Whatever is ordered: the turn that was under way when it came writes nothing any more."""
    flow(Noted("one", SLOW), Noted("two"))
    DIARY.failures["do one"] = 1
    run = start()
    go(run)
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(wake_at=database_now())
    worker = leases.claim(ALIAS, run.uuid)
    assert worker is not None
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(lease_expires_at=database_now(-1))
    confirm = "one" if name == "skip" else str(run.uuid)[:8]
    order(run, name, step="one", confirm=confirm, mark="forced", result={"by": "hand"})
    before = snapshot()
    with pytest.raises(StaleToken):
        Turn(ALIAS, worker, catalog.flow_of(worker)).drive()
    assert snapshot() == before
