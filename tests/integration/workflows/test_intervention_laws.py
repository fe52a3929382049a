"""Laws that hold for every intervention: in every state of a run it is allowed or refused by the table, a refusal
changes nothing, and whatever is ordered in whatever order, no lock outlives its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conductor.core.errors import NovellaError
from conductor.core.interventions import INTERVENTIONS
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState
from conductor.db.transactions import database_now
from conductor.journal.models import LeaseGrant, LockWait, OutboxMessage, StepRecord, WorkflowRun
from conductor.services.workflows import actions
from conductor.workflows import catalog
from conductor.workflows.engine import leases
from conductor.workflows.flow import Flow, RetryPolicy
from tests.databases import empty_all
from tests.integration.interventions import (
    ADMIN,
    ALIAS,
    DIARY,
    Last,
    Noted,
    OnHost,
    answer,
    audited,
    due_now,
    fresh,
    go,
    locks,
    order,
    snapshot,
    start,
)

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
HOURS = RetryPolicy(max_attempts=9, pause_seconds=3600, max_pause_seconds=3600)
NAMES = [one.id for one in INTERVENTIONS]
ROUNDS = 40


def made(*parts: Any) -> Flow:
    return Flow("made", 1, parts, on_failure=Last(), on_cancel=Last(), max_attempts=2)


def queued() -> WorkflowRun:
    return start()


def waiting_for_a_lock() -> WorkflowRun:
    start("thing:1")
    return start("thing:1", may_wait=True)


def owned() -> WorkflowRun:
    run = start()
    assert leases.claim(ALIAS, run.uuid) is not None
    return run


def orphaned() -> WorkflowRun:
    run = owned()
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(lease_expires_at=database_now(-1))
    return run


def on_a_host() -> WorkflowRun:
    run = start(inputs={"selections": [{"host": "host-1"}, {"host": "host-2"}]})
    go(run)
    return run


def waiting_for_a_retry() -> WorkflowRun:
    DIARY.failures["do one"] = 1
    run = start()
    go(run)
    return run


def undoing_on_a_host() -> WorkflowRun:
    run = on_a_host()
    answer(run, ok=False, is_reschedulable=False)
    return run


def done() -> WorkflowRun:
    run = on_a_host()
    answer(run)
    return run


def failed_and_undone() -> WorkflowRun:
    run = undoing_on_a_host()
    answer(run)
    return run


def failed_and_not_clean() -> WorkflowRun:
    DIARY.failures["undo one"] = 9
    run = undoing_on_a_host()
    answer(run)
    DIARY.clear()
    return run


def cancelled() -> WorkflowRun:
    run = start()
    order(run, "cancel")
    go(run)
    return run


def needing_an_operator() -> WorkflowRun:
    DIARY.failures["last"] = 1
    run = undoing_on_a_host()
    answer(run)
    return run


# In each state: what is allowed to an operator; everything else is refused.
STATES: list[tuple[Callable[[], WorkflowRun], str, set[str]]] = [
    (queued, RunState.QUEUED, {"cancel"}),
    (waiting_for_a_lock, RunState.QUEUED, {"cancel"}),
    (owned, RunState.RUNNING, {"cancel"}),
    (orphaned, RunState.RUNNING, {"cancel", "take-over", "force"}),
    (on_a_host, RunState.WAITING, {"cancel", "reschedule"}),
    (waiting_for_a_retry, RunState.WAITING, {"cancel", "resume", "skip", "force"}),
    (undoing_on_a_host, RunState.WAITING, set()),
    (done, RunState.DONE, set()),
    (failed_and_undone, RunState.FAILED_UNDONE, {"retry"}),
    (failed_and_not_clean, RunState.FAILED_NOT_CLEAN, {"undo"}),
    (cancelled, RunState.CANCELLED, set()),
    (needing_an_operator, RunState.NEEDS_OPERATOR, {"resume", "skip", "force"}),
]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    DIARY.clear()
    monkeypatch.setattr("conductor.workflows.engine.executor.is_unresponsive", lambda alias, host: False)
    monkeypatch.setattr(actions, "_heard", lambda alias, hosts: (hosts, {}))
    monkeypatch.setitem(catalog._by_version, ("made", 1), made(Noted("one", HOURS), OnHost()))
    yield
    DIARY.clear()


def words(run: WorkflowRun, name: str) -> dict[str, Any]:
    """Return everything that an intervention may need, as the server itself offers it."""
    choices = actions.choices(ADMIN, fresh(run), actions.facts_of(ALIAS, fresh(run)))
    # actions without a pending request are not offered
    offered = next((one.choices for one in choices if one.id == name), ())
    step = offered[0] if offered else "one"
    confirm = step if name == "skip" else str(run.uuid)[:8]
    return {"step": step, "confirm": confirm, "mark": "forced", "result": {"by": "hand"}}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bring", "state", "allowed"), STATES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_intervention_in_each_state(
    bring: Callable[[], WorkflowRun], state: str, allowed: set[str], name: str
) -> None:
    run = bring()
    assert fresh(run).state == state
    before, requested = snapshot(), words(run, name)
    offered = {one.id for one in actions.choices(ADMIN, fresh(run), actions.facts_of(ALIAS, fresh(run))) if one.enabled}
    assert (name in offered) == (name in allowed), "what is shown and what is done come from one table"
    earlier = len(audited())
    if name in allowed:
        token = fresh(run).fencing_token
        order(run, name, **requested)
        assert fresh(run).fencing_token > token
        assert audited()[earlier:] == [(f"workflow.{name}", "done")]
    else:
        with pytest.raises(NovellaError) as refusal:
            order(run, name, **requested)
        assert str(run.uuid) in refusal.value.message
        assert snapshot() == before
        assert audited()[earlier:] == [(f"workflow.{name}", "refused")]


class Operators(RuleBasedStateMachine):
    """Operators, workers and hosts do what they please, one after the other, to one run."""

    @initialize()
    def open(self) -> None:
        empty_all()
        DIARY.clear()
        self.run = start(inputs={"selections": [{"host": f"host-{number}"} for number in range(1, 9)]})
        self.token = 0

    @rule(number=st.integers(0, len(NAMES) - 1), mark=st.sampled_from(["forced", "skipped"]))
    def do_what_is_offered(self, number: int, mark: str) -> None:
        run = fresh(self.run)
        choices = actions.choices(ADMIN, run, actions.facts_of(ALIAS, run))
        offered = [one.id for one in choices if one.enabled]
        if offered:
            name = offered[number % len(offered)]
            order(run, name, **{**words(run, name), "mark": mark})

    @rule(name=st.sampled_from(NAMES))
    def do_what_may_be_refused(self, name: str) -> None:
        before = snapshot()
        try:
            order(self.run, name, **words(self.run, name))
        except NovellaError:
            assert snapshot() == before

    @rule()
    def work(self) -> None:
        go(self.run)

    @rule()
    def time_passes(self) -> None:
        if not fresh(self.run).orders and fresh(self.run).state in LIVE_RUN_STATES:
            due_now(self.run)

    @rule(line=st.sampled_from(["do one", "undo one", "last"]))
    def trouble_is_near(self, line: str) -> None:
        DIARY.failures[line] = 1

    @precondition(lambda self: OutboxMessage.objects.using(ALIAS).filter(run_uuid=self.run.uuid).exists())
    @rule(ok=st.booleans())
    def the_host_answers(self, ok: bool) -> None:
        answer(self.run, ok=ok)

    @rule()
    def a_worker_dies(self) -> None:
        claimed = leases.claim(ALIAS, self.run.uuid)
        if claimed is not None:
            WorkflowRun.objects.using(ALIAS).filter(pk=self.run.pk).update(lease_expires_at=database_now(-1))

    @invariant()
    def locks_belong_to_runs_that_go_on(self) -> None:
        if not hasattr(self, "run"):
            return
        run = fresh(self.run)
        assert bool(locks()) == (run.state not in FINAL_RUN_STATES), run.state
        assert not LockWait.objects.using(ALIAS).exists()
        assert run.fencing_token >= self.token
        self.token = run.fencing_token
        if run.state in FINAL_RUN_STATES:
            assert run.owner is None
            assert run.orders is None
            still_open = StepRecord.objects.using(ALIAS).filter(
                run=run, state__in=(StepState.RUNNING, StepState.WAITING)
            )
            assert not still_open.exists()
        assert (run.state == RunState.FAILED_NOT_CLEAN) <= bool(run.uncompensated)
        assert LeaseGrant.objects.using(ALIAS).filter(pk=run.fencing_token).exists() or run.fencing_token == 0

    def teardown(self) -> None:
        """Left alone, with hosts that answer, it comes to an end or asks for an operator."""
        if not hasattr(self, "run"):
            return
        DIARY.failures.clear()
        for _ in range(ROUNDS):
            if fresh(self.run).state not in LIVE_RUN_STATES:
                break
            WorkflowRun.objects.using(ALIAS).filter(pk=self.run.pk).update(
                wake_at=database_now(), lease_expires_at=database_now(-1)
            )
            go(self.run)
            if OutboxMessage.objects.using(ALIAS).filter(run_uuid=self.run.uuid).exists():
                answer(self.run)
        ended = fresh(self.run)
        assert ended.state not in LIVE_RUN_STATES, (ended.state, ended.waits_for)
        assert bool(locks()) == (ended.state == RunState.NEEDS_OPERATOR)


def test_no_sequence_of_interventions_and_answers_leaves_a_lock() -> None:
    run_state_machine_as_test(
        Operators,
        settings=settings(
            max_examples=30,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
