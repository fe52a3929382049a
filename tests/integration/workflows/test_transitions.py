"""Each transition of a run leaves the same rows as a plain-ORM model of it.

The engine moves one run, the model another that was opened alike; after each transition the journals must be equal. The
same tests run on SQLite and on PostgreSQL (TEST_DATABASE=postgresql), where the engine uses other statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conductor.core.context import RequestContext
from conductor.core.errors import StaleToken
from conductor.core.states import RunState, StepState, WaitCause
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import Event, LeaseGrant, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.workflows.engine import leases
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.flow import Flow, Result, RetryPolicy, Step, StepContext

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ALIAS = "cell1"
ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
ERROR = {"class": "Conflict", "message": "as expected", "step": "", "attempt": 1}
CANCEL = {"class": "Cancelled", "message": "changed my mind"}


class Plug(Step):
    title = "Plug"

    def execute(self, context: StepContext) -> Result:
        return {}

    def revert(self, context: StepContext, result: Result) -> None:
        pass


class Record(Plug):
    """Has code of its own in the transaction."""

    title = "Record"
    revert_retry = RetryPolicy(max_attempts=1)

    def commit(self, context: StepContext, result: Result) -> None:
        pass


class Spawn(Plug):
    title = "Spawn"
    retry = RetryPolicy(max_attempts=2, pause_seconds=60.0)


FLOW = Flow("made", 1, (Plug(), Record(), Spawn()))


class Engine:
    """The moves as the engine makes them."""

    def __init__(self) -> None:
        self.run = _open("thing:1")
        self._transitions: Any = None

    def resume(self) -> None:
        with write_tx(ALIAS):
            claimed = leases.take(ALIAS, self.run.uuid)
            assert claimed is not None
            self._transitions = Transitions(ALIAS, claimed, FLOW)
            with self._transitions.inside():
                self._transitions.resume()

    def advance(self, result: Mapping[str, Any]) -> None:
        self._transitions.advance(self._step, result)

    def suspend(self, detail: str) -> None:
        self._transitions.suspend(WaitCause.CELL, detail, 60.0)

    def fail(self) -> None:
        self._transitions.fail(self._step, ERROR)

    @property
    def _step(self) -> Step:
        step: Step = self._transitions.next_step()[0]
        return step


class Model:
    """The same moves by the ORM: what each of them means, without a thought of speed."""

    def __init__(self) -> None:
        self.run = _open("thing:2")

    def resume(self) -> None:
        run = self._read()
        grant = LeaseGrant.objects.using(ALIAS).create(
            run=run, owner=leases.WORKER, reason="claim", granted_at=database_now()
        )
        run.owner, run.fencing_token, run.waits_for = leases.WORKER, grant.pk, None
        run.lease_expires_at = database_now(60)
        run.state = RunState.UNDOING if run.direction == "undo" else RunState.RUNNING
        if not run.flow_version:
            run.flow_version, run.plan, run.started_at = 1, FLOW.plan(), database_now()
            self._emit("run.started")
        self._write(run)
        last = self._last(run)
        if last is None or last.state not in (StepState.RUNNING, StepState.WAITING):
            self._open_step(run)

    def advance(self, result: Mapping[str, Any]) -> None:
        run, step = self._read(), self._step()
        if run.direction == "undo":
            self._close_step(StepState.UNDONE, "step.undone", result=dict(result))
            run.position -= 1
            run.variables.pop(step.name, None)
        else:
            self._close_step(StepState.DONE, "step.done", result=dict(result))
            run.position += 1
            run.variables[step.name] = dict(result)
        self._write(run)
        if run.is_cancel_requested and run.direction == "do":
            self._turn_back(run, run.position, CANCEL)
        self._go_on(run)

    def suspend(self, detail: str) -> None:
        self._suspend(WaitCause.CELL, detail)

    def fail(self) -> None:
        run, step, record = self._read(), self._step(), self._last(self._read())
        assert record is not None
        is_undo = run.direction == "undo"
        self._close_step(StepState.UNDO_FAILED if is_undo else StepState.FAILED, "step.failed", error=ERROR)
        retry = step.revert_retry if is_undo else step.retry
        if retry.max_attempts is None or record.try_number < retry.max_attempts:
            self._suspend(WaitCause.TIMER, f"next try of {step.title}")
        elif is_undo:
            run.position -= 1
            run.uncompensated = [*run.uncompensated, f"{step.title}: {ERROR['message']}"]
            self._write(run)
            self._go_on(run)
        else:
            self._turn_back(run, run.position + 1, ERROR)
            self._go_on(run)

    def _turn_back(self, run: WorkflowRun, position: int, error: Mapping[str, Any]) -> None:
        run.direction, run.position, run.state, run.error = "undo", position, RunState.UNDOING, run.error or error
        self._write(run)
        self._emit("run.undoing", error=error)

    def _go_on(self, run: WorkflowRun) -> None:
        """Open the next step, or end the run."""
        if (run.direction == "do" and run.position < len(FLOW.steps)) or (run.direction == "undo" and run.position):
            self._open_step(run)
            return
        if run.direction == "undo":
            run.direction = "end"
            is_cancelled = run.error["class"] == "Cancelled"
            run.state = RunState.CANCELLED if is_cancelled else RunState.FAILED_UNDONE
            run.state = RunState.FAILED_NOT_CLEAN if run.uncompensated else run.state
        else:
            run.state = RunState.DONE
        run.owner = run.lease_expires_at = None
        run.finished_at = database_now()
        self._write(run)
        self._emit("run.ended", state=run.state, error=run.error)
        ResourceLock.objects.using(ALIAS).filter(run=run).delete()

    def _suspend(self, cause: WaitCause, detail: str) -> None:
        run = self._read()
        run.state, run.waits_for = RunState.WAITING, {"cause": cause, "detail": detail}
        run.owner = run.lease_expires_at = None
        run.wake_at = database_now(60)
        self._write(run)
        self._emit("run.waiting", waits_for=run.waits_for)

    def _step(self) -> Step:
        run = self._read()
        return FLOW.steps[run.position - (run.direction == "undo")]

    def _last(self, run: WorkflowRun) -> StepRecord | None:
        index = run.position - (run.direction == "undo")
        found = StepRecord.objects.using(ALIAS).filter(run=run, index=index, direction=run.direction)
        return found.order_by("-try_number").first()

    def _open_step(self, run: WorkflowRun) -> None:
        step, index, last = self._step(), run.position - (run.direction == "undo"), self._last(run)
        number = last.try_number + 1 if last else 1
        record = StepRecord.objects.using(ALIAS).create(
            run=run,
            index=index,
            direction=run.direction,
            try_number=number,
            name=step.name,
            worker=leases.WORKER,
            step_key=f"{run.uuid}:{run.direction}:{index}:1:{number}",
            fencing_token=run.fencing_token,
            started_at=database_now(),
        )
        self._emit("step.started", **_about(record))

    def _close_step(self, state: str, kind: str, **values: Any) -> None:
        record = self._last(self._read())
        assert record is not None
        record.state, record.finished_at = state, database_now()
        for name, value in values.items():
            setattr(record, name, value)
        record.save(using=ALIAS)
        self._emit(kind, **_about(record), error=record.error)

    def _emit(self, kind: str, **data: Any) -> None:
        Event.objects.using(ALIAS).create(
            topic=f"wf:{self.run.uuid}",
            kind=kind,
            run_uuid=self.run.uuid,
            project_id=ANA.project_id,
            data={name: value for name, value in data.items() if value},
            created_at=database_now(),
        )

    def _read(self) -> WorkflowRun:
        return WorkflowRun.objects.using(ALIAS).get(pk=self.run.pk)

    def _write(self, run: WorkflowRun) -> None:
        run.save(using=ALIAS)


def _about(record: StepRecord) -> dict[str, Any]:
    return {"step": record.name, "index": record.index, "attempt": record.attempt, "host": record.host}


def _open(resource: str) -> WorkflowRun:
    wanted = outbox.NewRun(flow="made", action="make", context=ANA, resources=[resource])
    with write_tx(ALIAS):
        return outbox.open_run(ALIAS, wanted)


def rows(run: WorkflowRun) -> dict[str, Any]:
    """Return the rows of a run, without values that differ between runs."""
    found = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    newest = LeaseGrant.objects.using(ALIAS).filter(run=run).order_by("-pk").values_list("pk", flat=True).first() or 0
    times = ("lease_expires_at", "started_at", "finished_at")
    names = (
        "state",
        "direction",
        "position",
        "attempt",
        "variables",
        "plan",
        "error",
        "uncompensated",
        "waits_for",
        "owner",
    )
    records = StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk")
    emitted = Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk")
    return {
        "run": {name: getattr(found, name) for name in names},
        "times": {name: getattr(found, name) is not None for name in times},
        "wakes later": WorkflowRun.objects.using(ALIAS).filter(pk=run.pk, wake_at__gt=database_now(5)).exists(),
        "token is the newest": found.fencing_token == newest,
        "steps": [_step_row(record, run) for record in records],
        "events": [
            (event.topic.replace(str(run.uuid), "RUN"), event.kind, event.data, event.project_id) for event in emitted
        ],
        "locks": ResourceLock.objects.using(ALIAS).filter(run=run).count(),
    }


def _step_row(record: StepRecord, run: WorkflowRun) -> dict[str, Any]:
    names = (
        "index",
        "direction",
        "attempt",
        "try_number",
        "name",
        "state",
        "host",
        "worker",
        "result",
        "answer",
        "error",
    )
    return {
        **{name: getattr(record, name) for name in names},
        "step_key": record.step_key.replace(str(run.uuid), "RUN"),
        "has ended": record.finished_at is not None,
    }


def wake(run: WorkflowRun) -> None:
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(wake_at=database_now(-1))


def cancel(run: WorkflowRun) -> None:
    with write_tx(ALIAS):
        outbox.request_cancel(ALIAS, WorkflowRun.objects.using(ALIAS).get(pk=run.pk), CANCEL["message"])


Move = tuple[str, Any]
RESUME: Move = ("resume", ())
FAIL: Move = ("fail", ())
ADVANCE: Move = ("advance", ({},))
SCENARIOS: dict[str, tuple[tuple[Move | str, ...], str]] = {
    "done": ((RESUME, ("advance", ({"n": 1},)), ADVANCE, ("advance", ({"n": 3},))), RunState.DONE),
    "suspended and resumed": (
        (RESUME, ("suspend", ("cell2",)), "wake", RESUME, ADVANCE, ADVANCE, ADVANCE),
        RunState.DONE,
    ),
    "tried again": (
        (RESUME, ADVANCE, ADVANCE, FAIL, "wake", RESUME, ADVANCE),
        RunState.DONE,
    ),
    "undone": (
        (RESUME, ADVANCE, FAIL, ADVANCE, ADVANCE),
        RunState.FAILED_UNDONE,
    ),
    "undone, not clean": (
        (RESUME, ADVANCE, ADVANCE, FAIL, "wake", RESUME, FAIL, ADVANCE, FAIL, ADVANCE),
        RunState.FAILED_NOT_CLEAN,
    ),
    "cancelled": (
        (RESUME, ("advance", ({"n": 1},)), "cancel", ADVANCE, ADVANCE, ADVANCE),
        RunState.CANCELLED,
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_engine_writes_what_the_model_writes(scenario: str) -> None:
    moves, end = SCENARIOS[scenario]
    engine, model = Engine(), Model()
    for number, move in enumerate(moves):
        for side in (engine, model):
            if isinstance(move, str):
                {"wake": wake, "cancel": cancel}[move](side.run)
            else:
                name, arguments = move
                getattr(side, name)(*arguments)
        assert rows(engine.run) == rows(model.run), f"after move {number}: {move}"
    assert rows(engine.run)["run"]["state"] == end


def test_a_stale_owner_writes_nothing_by_any_transition() -> None:
    for name, arguments in (ADVANCE, ("suspend", ("cell2",)), FAIL):
        ResourceLock.objects.using(ALIAS).all().delete()
        engine = Engine()
        engine.resume()
        grant = LeaseGrant.objects.using(ALIAS).create(
            run=engine.run, owner="another", reason="takeover", granted_at=database_now()
        )
        WorkflowRun.objects.using(ALIAS).filter(pk=engine.run.pk).update(fencing_token=grant.pk, owner="another")
        before = rows(engine.run)
        with pytest.raises(StaleToken):
            getattr(engine, name)(*arguments)
        assert rows(engine.run) == before, name
