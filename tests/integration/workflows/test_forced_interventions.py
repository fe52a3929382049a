"""Skip, force, take over, undo again, and what holds for every intervention: roles, revisions, fences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision, StaleToken
from conductor.core.states import RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import AuditRecord, Event, OutboxMessage, StepRecord, WorkflowRun
from conductor.services.workflows import actions
from conductor.workflows import catalog
from conductor.workflows.engine import leases
from conductor.workflows.engine.executor import RunExecutor
from conductor.workflows.flow import RetryPolicy, StepContext
from tests.integration.interventions import (
    ADMIN,
    ALIAS,
    DIARY,
    MANAGER,
    MEMBER,
    Noted,
    OnHost,
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
SLOW = RetryPolicy(max_attempts=5, pause_seconds=3600, max_pause_seconds=3600)


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
    assert record.result == {"evidence": "because", "confirmed_by": "ana", "by": "hand"}


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
    ("requested", "named"),
    [
        ({"step": "two", "confirm": "tow", "mark": "forced"}, "two"),
        ({"step": "one", "confirm": "one", "mark": "forced"}, "two"),
        ({"step": "two", "confirm": "two", "mark": "done"}, "forced, skipped"),
        ({"step": "", "confirm": "", "mark": "forced"}, "step"),
        ({"step": "two", "confirm": "two", "mark": "forced", "reason": "  "}, "reason"),
        ({"step": "two", "confirm": "two", "mark": "forced", "reason": "x" * 256}, "255"),
    ],
)
def test_a_skip_needs_valid_values(flow: Any, requested: dict[str, Any], named: str) -> None:
    run = parked_on_a_failed_step(flow)
    before = snapshot()
    with pytest.raises(Invalid, match=named):
        order(run, "skip", **requested)
    assert snapshot() == before


@pytest.mark.usefixtures("host_is_heard")
def test_a_step_under_way_on_a_live_host_is_not_skipped(flow: Any) -> None:
    flow(OnHost())
    run = start()
    go(run)
    before = snapshot()
    with pytest.raises(Conflict, match="host-1"):
        order(run, "skip", step="OnHost", confirm="OnHost", mark="forced")
    assert snapshot() == before


def test_a_command_to_an_unresponsive_host_can_be_marked_as_done_and_is_not_sent_again(
    flow: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("conductor.workflows.engine.executor.is_unresponsive", lambda alias, host: False)
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
    assert ended.uncompensated == ["one: done, and not undone", "two: may have done a part"]
    assert locks() == []
    assert go(run).state == RunState.FAILED_NOT_CLEAN


def test_force_needs_the_id_typed(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    before = snapshot()
    with pytest.raises(Invalid, match=str(run.uuid)[:8]):
        order(run, "force", confirm="yes")
    assert snapshot() == before


def test_a_workflow_forced_to_complete_can_be_rolled_back_later(flow: Any) -> None:
    run = parked_on_a_failed_step(flow)
    order(run, "force", confirm=str(run.uuid)[:8])
    DIARY.lines.clear()
    order(run, "undo")
    assert go(run).state == RunState.FAILED_UNDONE
    assert DIARY.lines == ["undo one", "last"]
    assert locks() == []


# -- take over ------------------------------------------------------------------------------------------------


def test_an_unresponsive_owner_is_fenced_and_another_continues(flow: Any) -> None:
    flow(Noted("one"))
    run = start()
    stale = leases.claim(ALIAS, run.uuid)
    assert stale is not None
    with pytest.raises(Conflict, match="owner is alive"):
        order(run, "take-over")
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(lease_expires_at=database_now(-1))
    taken = order(run, "take-over")
    assert taken.fencing_token > stale.fencing_token
    old = StepContext(ALIAS, stale, MEMBER, "key", stale.fencing_token)
    with pytest.raises(StaleToken), old.fenced(ALIAS):
        pytest.fail("the old owner got in")
    assert go(run).state == RunState.DONE
    assert [lease.reason for lease in actions.leases(ALIAS, run.uuid)] == ["claim", "take-over: because", "claim"]


# -- undo again -----------------------------------------------------------------------------------------------


def not_clean(flow: Any) -> WorkflowRun:
    flow(Noted("one"), Noted("two"), Noted("three"))
    DIARY.failures |= {"do three": 1, "undo two": 1}
    run = start()
    assert go(run).state == RunState.FAILED_NOT_CLEAN
    assert fresh(run).uncompensated == ["two: RuntimeError"]
    return fresh(run)


def test_undo_again_compensates_only_uncompensated_steps(flow: Any) -> None:
    run = not_clean(flow)
    DIARY.lines.clear()
    order(run, "undo")
    assert len(locks()) == 1
    ended = go(run)
    assert (ended.state, ended.uncompensated, ended.orders) == (RunState.FAILED_UNDONE, [], None)
    assert DIARY.lines == ["undo two", "last"]
    assert locks() == []


def test_an_undo_that_fails_again_names_it_again(flow: Any) -> None:
    run = not_clean(flow)
    DIARY.failures["undo two"] = 1
    order(run, "undo")
    ended = go(run)
    assert (ended.state, ended.uncompensated) == (RunState.FAILED_NOT_CLEAN, ["two: RuntimeError"])
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
    seen = actions.revision_of(run)
    order(run, "resume", revision=seen)
    go(run)
    before = snapshot()
    with pytest.raises(StaleRevision):
        order(run, "resume", revision=seen)
    assert snapshot() == before


def test_an_unknown_intervention_is_refused(flow: Any) -> None:
    flow(Noted("one"))
    with pytest.raises(NotFound, match="cancel, retry"):
        order(start(), "explode")


@pytest.mark.parametrize("name", ["cancel", "skip", "take-over", "force"])
def test_a_worker_in_the_middle_of_a_step_is_fenced_out(flow: Any, name: str) -> None:
    """For every intervention: the step in progress at that moment writes nothing afterwards."""
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
        RunExecutor(ALIAS, worker, catalog.flow_of(worker)).drive()
    assert snapshot() == before


# -- a second person ------------------------------------------------------------------------------------------

BO = replace(ADMIN, user_id="b" * 32, user_name="bo")
SKIP = {"step": "two", "confirm": "two", "mark": "skipped", "reason": "done by hand last night"}


def test_forced_interventions_need_an_approval_where_configured(flow: Any, settings: Any) -> None:
    settings.NOVELLA_SECOND_PERSON = True
    run = parked_on_a_failed_step(flow)
    before = snapshot()
    order(run, "skip", **SKIP)
    requested = fresh(run)
    (waits,) = [one for one in snapshot()["runs"] if one["approval"]]
    assert {**waits, "approval": None} in before["runs"], "nothing else was changed"
    assert (requested.fencing_token, requested.orders) == (run.fencing_token, None)
    mine, others = actions.panel(ADMIN, run.uuid), actions.panel(BO, run.uuid)
    assert mine.approval is not None
    assert (mine.approval.by, mine.approval.step, mine.approval.reason) == ("ana", "two", SKIP["reason"])
    why = {one.id: one.why_not for one in mine.actions}
    assert (why["agree"], why["decline"]) == ("You requested this. Another operator must approve it.", "")
    assert {one.id: one.enabled for one in others.actions}["agree"]
    assert actions.panel(MANAGER, run.uuid).approval is None, "operators' words"
    with pytest.raises(Forbidden, match="You requested this"):
        order(run, "agree")
    with pytest.raises(Forbidden, match="role admin"):
        order(run, "agree", replace(MANAGER, user_id="c" * 32))
    for name, how in (("skip", SKIP), ("force", {"confirm": str(run.uuid)[:8]})):
        with pytest.raises(Conflict, match="waits for another operator"):
            order(run, name, BO, **how)
    order(run, "agree", BO, reason="I saw it")
    assert go(run).state == RunState.DONE
    assert ("do", "two", "skipped") in steps(run)
    assert fresh(run).approval is None
    records = AuditRecord.objects.using(ALIAS).filter(result="done").order_by("pk")
    assert [(one.action, one.user_name, one.reason, one.details.get("asked_by")) for one in records] == [
        ("workflow.ask", "ana", SKIP["reason"], None),
        ("workflow.agree", "bo", "I saw it", "ana"),
        ("workflow.skip", "bo", SKIP["reason"], "ana"),
    ]


def test_declined_or_expired_interventions_are_not_executed(flow: Any, settings: Any) -> None:
    settings.NOVELLA_SECOND_PERSON = True
    run = parked_on_a_failed_step(flow)
    with pytest.raises(Invalid, match="Only step two can be skipped"):
        order(run, "skip", step="one", confirm="one", mark="skipped")
    force = {"confirm": str(run.uuid)[:8]}
    order(run, "force", **force)
    assert order(run, "decline", reason="not needed after all").approval is None, "who asked may take it back"
    with pytest.raises(Conflict, match="No action waits for approval"):
        order(run, "agree", BO)
    order(run, "force", **force)
    kept = fresh(run).approval
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(approval={**kept, "until": "2020-01-31T12:00:00+00:00"})
    with pytest.raises(Conflict, match="No action waits for approval"):
        order(run, "agree", BO)
    assert "agree" not in {one.id for one in actions.panel(BO, run.uuid).actions}
    order(run, "force", **force)
    assert order(run, "resume").approval is None, "what was asked for was about the run as it stood"
    assert go(run).state == RunState.WAITING
    order(run, "force", **force)
    order(run, "agree", BO)
    assert fresh(run).state == RunState.FAILED_NOT_CLEAN
