"""Sets of runs: due at the same step, executed and committed together, and none fails by another's fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.db import OperationalError

from conductor import process_names
from conductor.core.errors import StaleToken
from conductor.core.states import RunState, StepState, WaitCause
from conductor.db.transactions import each_in_turn, write_tx
from conductor.journal.models import Event, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.workflows.engine import executor, leases, recovery
from conductor.workflows.flow import Flow, Result, SetStep, StepContext, Suspend, guarded
from tests.fixtures.engine import ALIAS, DIARY, Noted, _fresh_diary, due_now, flow, fresh, start

__all__ = ["_fresh_diary", "flow"]  # fixtures

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

COUNT = 5


class NotedSet(SetStep):
    """Notes the size of each set, and the step key of each effect; it fails, waits or is interrupted as configured."""

    name = ""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]
        self.title = name  # type: ignore[misc]
        self.sizes: list[int] = []
        self.keys: list[str] = []
        self.then: dict[str, Callable[[StepContext], None]] = {}  # by the run's resource
        self.at_commit: dict[str, Callable[[StepContext], None]] = {}
        self.before: list[Callable[[], None]] = []

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        for act in self.before:
            act()
        self.sizes.append(len(works))
        return each_in_turn(works, self._effect)

    def _effect(self, work: StepContext) -> Result:
        self.then.get(_resource(work), _nothing)(work)
        self.keys.append(work.step_key)
        return {"of": _resource(work)}

    def commit(self, work: StepContext, result: Result) -> None:
        self.at_commit.get(_resource(work), _nothing)(work)
        assert result == {"of": _resource(work)}

    def revert(self, work: StepContext, result: Result) -> None:
        DIARY.write(f"undo {self.name} of {_resource(work)}")


def _resource(work: StepContext) -> str:
    assert work.run.resources is not None
    return str(work.run.resources[0])


def _nothing(work: StepContext) -> None:
    pass


def _fail(work: StepContext) -> None:
    raise ValueError("no good")


def _wait(work: StepContext) -> None:
    raise Suspend(WaitCause.TIMER, "a while", 60.0)


def begin(count: int = COUNT) -> list[WorkflowRun]:
    return [start(f"thing:{number}") for number in range(count)]


def states(runs: Sequence[WorkflowRun]) -> list[str]:
    return [fresh(run).state for run in runs]


def done_but(runs: Sequence[WorkflowRun], index: int, state: str) -> list[str]:
    return [state if at == index else RunState.DONE for at in range(len(runs))]


def test_runs_due_at_the_same_step_are_executed_together(flow: Any) -> None:
    one, two = NotedSet("one"), NotedSet("two")
    flow(one, two)
    runs = begin()
    executor.run(ALIAS, runs[2].uuid)
    assert states(runs) == [RunState.DONE] * COUNT
    assert (one.sizes, two.sizes) == ([COUNT], [COUNT])
    assert sorted(one.keys) == sorted(f"{run.uuid}:do:0:1:1" for run in runs)
    assert {fresh(run).variables["two"]["of"] for run in runs} == {f"thing:{number}" for number in range(COUNT)}
    assert not ResourceLock.objects.using(ALIAS).exists()
    for run in runs:
        records = StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk")
        assert list(records.values_list("name", "state")) == [("one", StepState.DONE), ("two", StepState.DONE)]
        kinds = Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk").values_list("kind", flat=True)
        assert [kind for kind in kinds if kind != "run.queued"] == [
            *("run.started", "step.started", "step.done", "step.started", "step.done", "run.ended")
        ]


def test_a_set_ends_at_a_step_that_takes_none(flow: Any) -> None:
    one, three = NotedSet("one"), NotedSet("three")
    flow(one, Noted("two"), three)
    runs = begin(3)
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == [RunState.DONE] * 3
    assert (one.sizes, three.sizes) == ([3], [1, 1, 1])
    assert DIARY.lines == ["do two"] * 3


def test_only_ordinary_runs_without_an_owner_at_the_same_step_come_along(flow: Any) -> None:
    one = NotedSet("one")
    flow(one)
    first, owned, cancelled, ahead, later, along = begin(6)
    rows = WorkflowRun.objects.using(ALIAS)
    assert leases.claim(ALIAS, owned.uuid) is not None
    rows.filter(pk=cancelled.pk).update(is_cancel_requested=True)
    rows.filter(pk=ahead.pk).update(flow_version=1, position=1)
    with write_tx(ALIAS):
        outbox.statements.save_run(outbox.connections[ALIAS], later.pk, {"wake_at": outbox.SecondsFromNow(60.0)})
    executor.run(ALIAS, first.uuid)
    assert states([first, along]) == [RunState.DONE] * 2
    assert one.sizes == [2]
    assert states([owned, cancelled, ahead, later]) == [RunState.RUNNING, *[RunState.QUEUED] * 3]


def test_a_set_has_a_limit(flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = NotedSet("one")
    flow(one)
    monkeypatch.setattr(executor, "SET_SIZE", 3)
    runs = begin()
    executor.run(ALIAS, runs[0].uuid)
    assert one.sizes == [3]
    executor.run(ALIAS, runs[-1].uuid)
    assert one.sizes == [3, 2]
    assert states(runs) == [RunState.DONE] * COUNT


@pytest.mark.parametrize("where", ["then", "at_commit"])
def test_one_that_fails_is_rolled_back_and_its_neighbours_go_on(flow: Any, where: str) -> None:
    one, two = NotedSet("one"), NotedSet("two")
    flow(one, two)
    getattr(two, where)["thing:1"] = _fail
    runs = begin()
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == done_but(runs, 1, RunState.FAILED_UNDONE)
    assert DIARY.lines == ["undo two of thing:1", "undo one of thing:1", "final"]
    error = fresh(runs[1]).error
    assert error is not None
    assert (error["class"], error["step"]) == ("ValueError", "two")
    assert not ResourceLock.objects.using(ALIAS).exists()


def test_one_that_waits_leaves_its_set(flow: Any) -> None:
    one, two = NotedSet("one"), NotedSet("two")
    flow(one, two)
    one.then["thing:3"] = _wait
    runs = begin()
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == done_but(runs, 3, RunState.WAITING)
    assert two.sizes == [COUNT - 1]
    one.then.clear()
    due_now(runs[3])
    executor.run(ALIAS, runs[3].uuid)
    assert states(runs) == [RunState.DONE] * COUNT


def test_a_cancellation_that_comes_meanwhile_undoes_one(flow: Any) -> None:
    one, two = NotedSet("one"), NotedSet("two")
    flow(one, two)
    runs = begin()

    def cancel() -> None:
        with write_tx(ALIAS):
            outbox.request_cancel(ALIAS, runs[4], "changed my mind")

    one.before.append(cancel)
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == done_but(runs, 4, RunState.CANCELLED)
    assert two.sizes == [COUNT - 1]


@pytest.fixture
def _same_process() -> Iterator[None]:
    name, worker = process_names.mine(), leases.WORKER
    yield
    process_names._name, leases.WORKER = name, worker


def _taken_over(run: WorkflowRun) -> None:
    """Another worker claims the run."""
    owner, leases.WORKER = leases.WORKER, "another:worker"
    try:
        WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(lease_expires_at="2000-01-01T00:00:00Z")
        assert leases.claim(ALIAS, run.uuid) is not None
    finally:
        leases.WORKER = owner


def test_one_that_was_taken_over_is_not_written_and_its_neighbours_are(flow: Any) -> None:
    one = NotedSet("one")
    flow(one)
    runs = begin()
    one.then["thing:0"] = lambda work: _taken_over(runs[2])
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == done_but(runs, 2, RunState.RUNNING)
    row = fresh(runs[2])
    assert (row.owner, row.position, row.variables) == ("another:worker", 0, {})
    assert Event.objects.using(ALIAS).filter(run_uuid=row.uuid, kind="run.write_refused").count() == 1
    assert ResourceLock.objects.using(ALIAS).filter(run=row).count() == 1


def test_in_another_database_each_run_has_its_own_fence(flow: Any) -> None:
    made = flow(NotedSet("one"))
    runs = begin(3)
    stale = [leases.claim(ALIAS, run.uuid) for run in runs]
    _taken_over(runs[1])
    works = [
        StepContext(ALIAS, row, executor.RunExecutor(ALIAS, row, made).transitions._context, "key", row.fencing_token)
        for row in stale
        if row is not None
    ]
    newer = leases.WorkflowRun.objects.using(ALIAS).get(pk=runs[1].pk)
    with write_tx("default"):
        StepContext(ALIAS, newer, works[0].context, "key", newer.fencing_token).guard_in("default")
    with write_tx("default"):
        failed = guarded("default", works)
    assert list(failed) == [runs[1].uuid]
    assert isinstance(failed[runs[1].uuid], StaleToken)


def test_a_database_that_one_needs_and_that_is_down_holds_up_no_other(flow: Any) -> None:
    one = NotedSet("one")
    flow(one)

    def down(work: StepContext) -> None:
        raise OperationalError("no answer")

    one.then["thing:2"] = down
    runs = begin()
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == done_but(runs, 2, RunState.RUNNING)
    assert leases.given_up() == [(ALIAS, runs[2].uuid)]
    one.then.clear()
    assert leases.let_go_of(ALIAS, runs[2].uuid)
    executor.run(ALIAS, runs[2].uuid)
    assert states(runs) == [RunState.DONE] * COUNT


def test_a_commit_that_fails_undoes_the_whole_set_and_it_is_executed_again(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = NotedSet("one")
    flow(one)
    runs = begin()
    struck: list[str] = []

    def conflicting(work: StepContext) -> None:
        if not struck:
            struck.append("once")
            cause = Exception()
            cause.sqlstate = "40001"  # type: ignore[attr-defined]
            raise OperationalError("another transaction was faster") from cause

    one.at_commit["thing:4"] = conflicting
    executor.run(ALIAS, runs[0].uuid)
    assert states(runs) == [RunState.RUNNING] * COUNT
    assert not StepRecord.objects.using(ALIAS).filter(state=StepState.DONE).exists()
    executor.run(ALIAS, runs[0].uuid)
    for run in runs[1:]:
        executor.run(ALIAS, run.uuid)
    assert states(runs) == [RunState.DONE] * COUNT
    assert len(set(one.keys)) == COUNT  # the same keys again: hosts and databases know them


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.usefixtures("_same_process")
def test_wherever_its_process_is_killed_another_finishes_each_run(flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill at each place that a set of three passes: before, at and after the effect of each run."""
    reached: list[str] = []
    killed = 0
    for kill_at in range(1, 100):
        steps = NotedSet("one"), NotedSet("two")
        made: Flow = flow(*steps)
        runs = begin(3)
        reached.clear()

        def reach(place: str, kill_at: int = kill_at) -> None:
            reached.append(place)
            if len(reached) == kill_at:
                raise Killed(place)

        monkeypatch.setattr(executor, "reach", reach)
        try:
            executor.run(ALIAS, runs[0].uuid)
        except Killed:
            killed += 1
        monkeypatch.setattr(executor, "reach", lambda place: None)
        if len(reached) < kill_at:
            break
        process_names._take_new_name()
        leases._take_new_name()
        leases.expire_earlier(ALIAS)
        recovery.sweep(ALIAS, grace_seconds=0.0)
        for run in runs:
            executor.run(ALIAS, run.uuid)
        assert states(runs) == [RunState.DONE] * 3, reached[-1]
        for index, step in enumerate(steps):
            assert set(step.keys) == {f"{run.uuid}:do:{index}:1:1" for run in runs}, reached[-1]
        assert made.steps == steps
        assert not ResourceLock.objects.using(ALIAS).exists()
    assert killed == 2 * 3 * 3  # of two steps, of three runs, three places
