"""Generated histories of runs: whatever happens, the engine's rows are those of a plain-ORM model of all transitions.

The engine moves two runs that want the same lock, and the model (`tests/fixtures/run_model.py`) two others: starts,
answers late, twice and out of order, cancels, steps that fail or wait, hosts that go down, interventions, and processes
that are killed at any named place. After each move the rows are equal; after a kill they are those of a commit of the
model's move. The same histories run on SQLite and on PostgreSQL (TEST_DATABASE=postgresql).
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from conductor import process_names
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, ResourceLocked, StaleToken
from conductor.core.interventions import BY_ID
from conductor.core.states import RunState, WaitCause
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import (
    Event,
    LeaseGrant,
    LockWait,
    OutboxMessage,
    ResourceLock,
    StepRecord,
    WorkflowRun,
)
from conductor.rpc import outbox
from conductor.rpc.messages import SpawnInstance, StepAnswered
from conductor.services.workflows import actions, interventions
from conductor.services.workflows.interventions import InterventionRequest
from conductor.workflows import catalog
from conductor.workflows.engine import executor, leases, transitions
from conductor.workflows.engine.transitions import Transitions
from conductor.workflows.flow import Flow, RemoteStep, Result, RetryPolicy, Step, StepContext, Suspend
from tests.fixtures.run_model import ALIAS, Commits, RunModel
from tests.integration.interventions import ADMIN

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

PARTS = 8
HISTORIES = 2  # in each part
MOVES = 30
HOST = "sim-1"
RUNS = 2
PLACES = ("before", "effect", "after", "sent", "answered")  # where processes are killed
INTERVENTIONS = ("cancel", "retry", "resume", "reschedule", "skip", "force", "take-over", "undo")


# -- the flow, whose steps do what is planned for their run -------------------------------------------------------

PLANNED: dict[str, defaultdict[str, list[str]]] = {}  # by run: the next outcomes of each step


def outcome_of(run_uuid: object, key: str) -> str:
    planned = PLANNED[str(run_uuid)].get(key)
    return planned.pop(0) if planned else "ok"


def act(work: StepContext, key: str) -> None:
    outcome = outcome_of(work.run.uuid, key)
    if outcome == "fail":
        raise Conflict("as planned")
    if outcome == "wait":
        raise Suspend(WaitCause.CELL, "cell2", 600.0)


TWICE = RetryPolicy(max_attempts=2, pause_seconds=600.0, max_pause_seconds=600.0)


class Plug(Step):
    title = "Plug"
    revert_retry = TWICE

    def execute(self, work: StepContext) -> Result:
        act(work, f"do {self.name}")
        return {"by": self.name}

    def revert(self, work: StepContext, result: Result) -> None:
        act(work, f"undo {self.name}")


class Note(Step):
    title = "Note"

    def commit(self, work: StepContext, result: Result) -> None:
        act(work, f"commit {self.name}")

    def commit_revert(self, work: StepContext) -> None:
        pass


class Spawn(RemoteStep):
    title = "Spawn"
    revert_retry = TWICE

    def command(self, work: StepContext) -> Any:
        return SpawnInstance(
            step_key=work.step_key,
            fencing_token=work.token,
            run_uuid=str(work.run.uuid),
            cell=work.alias,
            host=HOST,
            instance_uuid=work.instance_uuid,
            guest={},
        )

    revert_command = command


class Check(Step):
    """Has nothing to undo, and code in the transaction that closes it."""

    title = "Check"
    retry = TWICE

    def execute(self, work: StepContext) -> Result:
        act(work, f"do {self.name}")
        return {"by": self.name}

    def commit(self, work: StepContext, result: Result) -> None:
        act(work, f"commit {self.name}")


class Last(Step):
    title = "Last"

    def execute(self, work: StepContext) -> Result:
        act(work, f"do {self.name}")
        return {"by": self.name}


FLOW = Flow("made", 1, (Plug(), Note(), Spawn(), Check()), on_failure=Last(), on_cancel=Note(), max_attempts=2)
KEYS = ("do Plug", "undo Plug", "commit Note", "do Check", "commit Check", "do Last")


# -- both sides -----------------------------------------------------------------------------------------------


def open_run(context: RequestContext, resource: str) -> WorkflowRun:
    wanted = outbox.NewRun(
        flow="made", action="make", context=context, resources=[resource], instance_uuid=uuid.uuid4()
    )
    with write_tx(ALIAS):
        run = outbox.open_run(ALIAS, wanted, may_wait=True)
    PLANNED[str(run.uuid)] = defaultdict(list)
    return run


def rows(run: WorkflowRun) -> dict[str, Any]:
    """Return all rows of a run, without what differs between runs."""
    found = WorkflowRun.objects.using(ALIAS).get(pk=run.pk)
    grants = list(LeaseGrant.objects.using(ALIAS).filter(run=run).order_by("pk").values_list("pk", "owner", "reason"))
    rank = {0: -1, **{pk: number for number, (pk, _, _) in enumerate(grants)}}
    names = ("state", "direction", "position", "attempt", "variables", "plan", "error", "uncompensated", "waits_for")
    names += ("owner", "orders", "is_cancel_requested", "cancel_reason", "flow_version")
    times = ("lease_expires_at", "started_at", "finished_at")
    fields = ("index", "direction", "attempt", "try_number", "name", "state", "host", "worker")
    fields += ("result", "answer", "error")
    records = StepRecord.objects.using(ALIAS).filter(run=run)
    found_rows = {
        "run": {name: getattr(found, name) for name in names},
        "times": {name: getattr(found, name) is not None for name in times},
        "is due": WorkflowRun.objects.using(ALIAS).filter(pk=run.pk, wake_at__lte=database_now()).exists(),
        "token": rank[found.fencing_token],
        "grants": [(owner, reason) for _, owner, reason in grants],
        "steps": {
            record.step_key: {name: getattr(record, name) for name in fields}
            | {"token": rank[record.fencing_token], "has ended": record.finished_at is not None}
            for record in records
        },
        "commands": sorted(
            (message.step_key, message.queue, message.host, message.is_deferred)
            for message in OutboxMessage.objects.using(ALIAS).filter(run_uuid=run.uuid)
        ),
        "events": [
            (event.kind, event.data, event.project_id)
            for event in Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk")
        ],
        "locks": ResourceLock.objects.using(ALIAS).filter(run=run).count(),
        "waits": LockWait.objects.using(ALIAS).filter(run=run).count(),
    }
    (resource,) = found.resources or ()
    text = json.dumps(found_rows).replace(str(run.uuid), "RUN").replace(resource, "LOCK")
    return dict(json.loads(text))


def differences(engine: Any, model: Any, path: str = "") -> Iterator[str]:
    """Yield what differs between the rows of both sides, one line each."""
    if isinstance(engine, dict) and isinstance(model, dict):
        for key in {**engine, **model}:
            yield from differences(engine.get(key), model.get(key), f"{path}/{key}")
    elif isinstance(engine, list) and isinstance(model, list):
        for number, (one, other) in enumerate(itertools.zip_longest(engine, model)):
            yield from differences(one, other, f"{path}/{number}")
    elif engine != model:
        yield f"{path}: {engine!r}, and by the model {model!r}"


class Killed(BaseException):
    """The process ends here."""


class World:
    """The engine's runs and the model's, moved alike."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, counted: Counter[str]) -> None:
        self.is_down = False
        self.counted = counted  # interventions, places of kills, and states
        self.preferred = INTERVENTIONS[number // HISTORIES % len(INTERVENTIONS)]
        self._reached: Iterator[int] = itertools.count()
        self._kill_at = -1
        patch.setitem(catalog._by_version, ("made", 1), FLOW)
        patch.setattr(executor, "is_unresponsive", lambda alias, host: self.is_down)
        for module in (executor, transitions):
            patch.setattr(module, "reach", self._reach)
        # In each second history both runs want the same lock.
        resources = [f"{number}:{which if number % 2 else 0}" for which in range(RUNS)]
        self.engine = [open_run(ADMIN, f"engine:{resource}") for resource in resources]
        opened = [open_run(ADMIN, f"model:{resource}") for resource in resources]
        self.model = [RunModel(run, FLOW, self._outcomes_of(run), lambda: self.is_down) for run in opened]
        self.sent: list[list[str]] = [[] for _ in range(RUNS)]

    def _outcomes_of(self, run: WorkflowRun) -> Callable[[str], str]:
        return lambda key: outcome_of(run.uuid, key)

    def _reach(self, place: str) -> None:
        if next(self._reached) == self._kill_at:
            raise Killed(place)

    # -- moves ------------------------------------------------------------------------------------------------

    def plan(self, which: int, key: str, outcome: str) -> None:
        """Plan the next outcome of a step; a rollback fails until it is given up."""
        times = TWICE.max_attempts if key.startswith("undo") else 1
        for run in (self.engine[which], self.model[which].run):
            PLANNED[str(run.uuid)][key] += [outcome] * (times or 1)

    def drive(self, which: int, kill_at: int = -1) -> None:
        run = self.engine[which]
        self._move(which, lambda: executor.run(ALIAS, run.uuid), self.model[which].drive(), kill_at)

    def answer(self, which: int, back: int, is_ok: bool, is_reschedulable: bool, kill_at: int = -1) -> None:
        """Answer one of the commands so far, counted from the newest."""
        sent = self.sent[which]
        key = sent[-1 - back % len(sent)] if sent else "RUN:do:2:1:9"
        error = {"class": "DriverError", "message": "no", "is_reschedulable": is_reschedulable}
        given: dict[str, Any] = {"ok": is_ok, "result": {"n": 1} if is_ok else {}, "error": None if is_ok else error}
        engine, model = self.engine[which], self.model[which]
        message = StepAnswered(
            step_key=key.replace("RUN", str(engine.uuid)),
            run_uuid=str(engine.uuid),
            fencing_token=1,
            host=HOST,
            **given,
        )
        commits = model.answer(key.replace("RUN", str(model.run.uuid)), **given)
        self._move(which, lambda: executor.answer(ALIAS, message), commits, kill_at)

    def intervene(self, which: int, choice: float, mark: str) -> None:
        """Intervene in the rarest of the permitted ways; one in ten times in any, which may be refused."""
        engine, model = self.engine[which], self.model[which]
        found = WorkflowRun.objects.using(ALIAS).get(pk=engine.pk)
        facts = actions.facts_of(ALIAS, found)
        permitted = [name for name in INTERVENTIONS if not BY_ID[name].why_not(facts)]
        if choice < 0.1 or not permitted:
            name = INTERVENTIONS[int(choice * 1000) % len(INTERVENTIONS)]
        else:
            name = self.preferred if self.preferred in permitted else min(permitted, key=lambda one: self.counted[one])
        requested: dict[str, Any] = {}
        if name == "retry":
            requested = {"step": "Plug"}
        elif name == "skip":
            requested = {"step": facts.step_name, "mark": mark, "result": {"by": "hand"}}
        confirm = {"skip": facts.step_name, "force": str(engine.uuid)[:8]}.get(name, "")
        request = InterventionRequest(reason="because", confirm=confirm, **requested)
        try:
            interventions.intervene(ADMIN, engine.uuid, name, request)
        except (Conflict, Invalid, ResourceLocked):
            self.counted[f"{name} refused"] += 1
        else:
            self.counted[name] += 1
            model.intervene(name, "because", ADMIN, **requested)

    def wake(self, which: int) -> None:
        """Time passes until a waiting run is due."""
        for run in (self.engine[which], self.model[which].run):
            waiting = WorkflowRun.objects.using(ALIAS).filter(pk=run.pk, state=RunState.WAITING)
            waiting.update(wake_at=database_now())

    def _move(self, which: int, engine: Callable[[], Any], model: Commits, kill_at: int) -> None:
        self._reached, self._kill_at = itertools.count(), kill_at
        try:
            engine()
        except Killed as killed:
            self._find_commit(which, model, killed)
            self._die(which)
        else:
            for _ in model:
                pass
        finally:
            self._kill_at = -1

    def _find_commit(self, which: int, model: Commits, killed: Killed) -> None:
        """Move the model up to the commit that the engine has come to."""
        wanted, side = rows(self.engine[which]), self.model[which]
        found = rows(side.run)
        while found != wanted:
            assert next(model, killed) is not killed, f"killed at {killed}: at no commit of the model"
            found = rows(side.run)
        self.counted[str(killed).rpartition(".")[2]] += 1

    def _die(self, which: int) -> None:
        """Kill the process, and let another one notice."""
        PLANNED[str(self.model[which].run.uuid)] = deepcopy(PLANNED[str(self.engine[which].uuid)])
        process_names._take_new_name()
        leases._take_new_name()
        leases.expire_earlier(ALIAS)

    def compare(self, which: int, after: object) -> None:
        engine, model = self.engine[which], self.model[which].run
        found = rows(engine)
        planned = [dict(PLANNED[str(run.uuid)]) for run in (engine, model)]
        differing = [*differences(found, rows(model)), *differences(*planned, "planned")]
        assert not differing, "\n".join((f"run {which} after {after}", *differing))
        self.counted[found["run"]["state"]] += 1
        for key, *_ in found["commands"]:
            if key not in self.sent[which]:
                self.sent[which].append(key)


# Chance alone rarely leads to a state in which these are permitted.
FIRST: dict[str, tuple[tuple[Any, ...], ...]] = {
    "retry": (("plan", 0, "do Plug", "fail"), ("drive", 0, -1), ("intervene", 0, 0.5, "forced")),
    "undo": (
        *(("plan", 0, "commit Note", "fail"), ("plan", 0, "undo Plug", "fail")),
        *(("drive", 0, -1), ("wake", 0), ("drive", 0, -1), ("intervene", 0, 0.5, "forced"), ("drive", 0, -1)),
    ),
}


def moves(random: Random, preferred: str) -> Iterator[tuple[Any, ...]]:
    """Yield the moves of a history: the method of `World`, and its arguments."""
    yield from FIRST.get(preferred, ())
    for _ in range(MOVES):
        which = int(random.random() < 0.25)
        kill_at = random.choice((-1, -1, -1, 0, 0, 1, 2, 3, 5))
        kind = random.choices(("drive", "answer", "plan", "wake", "intervene", "host"), (30, 26, 14, 14, 18, 3))[0]
        if kind == "drive":
            yield "drive", which, kill_at
        elif kind == "answer":
            back = random.choice((0, 0, 0, 0, 1, 2))
            yield "answer", which, back, random.random() < 0.7, random.random() < 0.6, kill_at
        elif kind == "plan":
            yield "plan", which, random.choice(KEYS), random.choice(("fail", "fail", "wait"))
        elif kind == "wake":
            yield "wake", which
        elif kind == "host":
            yield ("host",)
        else:
            yield "intervene", which, random.random(), random.choice(("forced", "skipped"))


def play(world: World, seed: int) -> None:
    history: list[tuple[Any, ...]] = []
    for name, *arguments in moves(Random(seed), world.preferred):
        if name == "plan" and arguments[1].startswith(("undo", "commit")):
            arguments[2] = "fail"
        history.append((name, *arguments))
        if name == "host":
            world.is_down = not world.is_down
        else:
            getattr(world, name)(*arguments)
        if name not in ("plan", "host"):
            world.compare(arguments[0], history)
    for which in range(RUNS):
        world.compare(which, history)


DRIVE, WAKE = ("drive", 0), ("wake", 0)
SPAWNED, NOT_SPAWNED = ("answer", 0, 0, True, False), ("answer", 0, 0, False, False)
ELSEWHERE = ("answer", 0, 0, False, True)
UNDO_SPAWN = (DRIVE, SPAWNED, DRIVE)  # a command of its own, and its answer


def planned(key: str, outcome: str) -> tuple[Any, ...]:
    return "plan", 0, key, outcome


# Histories to read, each with the state that it ends in.
READABLE: dict[str, tuple[tuple[tuple[Any, ...], ...], str]] = {
    "done": ((DRIVE, SPAWNED, DRIVE), RunState.DONE),
    "suspended and resumed": ((planned("do Plug", "wait"), DRIVE, WAKE, DRIVE, SPAWNED, DRIVE), RunState.DONE),
    "tried again": ((planned("do Check", "fail"), DRIVE, SPAWNED, DRIVE, WAKE, DRIVE), RunState.DONE),
    "answered twice": ((DRIVE, SPAWNED, SPAWNED, DRIVE), RunState.DONE),
    "undone": ((DRIVE, NOT_SPAWNED, *UNDO_SPAWN, DRIVE), RunState.FAILED_UNDONE),
    "begun again on another host": ((DRIVE, ELSEWHERE, *UNDO_SPAWN, SPAWNED, DRIVE), RunState.DONE),
    "undone, not clean": (
        (planned("undo Plug", "fail"), DRIVE, NOT_SPAWNED, *UNDO_SPAWN, WAKE, DRIVE, WAKE, DRIVE),
        RunState.FAILED_NOT_CLEAN,
    ),
}


@pytest.mark.usefixtures("_same_process")
@pytest.mark.parametrize("name", READABLE)
def test_a_history_that_can_be_read_ends_as_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history, end = READABLE[name]
    world = World(monkeypatch, 1, Counter())
    for move, *arguments in history:
        getattr(world, move)(*arguments)
        if move != "plan":
            world.compare(0, (name, move))
    PLANNED.clear()
    assert rows(world.engine[0])["run"]["state"] == end


TRANSITIONS: dict[str, Callable[[Transitions, Step], None]] = {
    "advance": lambda moved, step: moved.advance(step, {}),
    "suspend": lambda moved, step: moved.suspend(WaitCause.CELL, "cell2", 60.0),
    "fail": lambda moved, step: moved.fail(step, {"class": "Conflict", "message": "as planned"}),
}


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_stale_owner_writes_nothing_by_any_transition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has taken the run over while this one was at its step."""
    monkeypatch.setitem(catalog._by_version, ("made", 1), FLOW)
    run = open_run(ADMIN, "thing:1")
    with write_tx(ALIAS):
        claimed = leases.take(ALIAS, run.uuid)
        assert claimed is not None
        moved = Transitions(ALIAS, claimed, FLOW)
        with moved.inside():
            moved.resume()
    step = moved.next_step()[0]
    grant = LeaseGrant.objects.using(ALIAS).create(
        run=run, owner="another", reason="takeover", granted_at=database_now()
    )
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(fencing_token=grant.pk, owner="another")
    before = rows(run)
    with pytest.raises(StaleToken):
        TRANSITIONS[name](moved, step)
    assert rows(run) == before
    PLANNED.clear()


@pytest.fixture
def _same_process() -> Iterator[None]:
    name, worker = process_names.mine(), leases.WORKER
    yield
    process_names._name, leases.WORKER = name, worker


@pytest.fixture(scope="module")
def everything() -> Counter[str]:
    """The interventions, places of kills and states that occurred in the parts that were run."""
    return Counter()


@pytest.mark.usefixtures("_same_process")
@pytest.mark.parametrize("part", range(PARTS))
def test_in_every_history_the_engine_writes_the_same_rows_as_the_model(
    part: int, monkeypatch: pytest.MonkeyPatch, everything: Counter[str]
) -> None:
    counted: Counter[str] = Counter()
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        world = World(monkeypatch, seed, counted)
        play(world, seed)
        PLANNED.clear()
    everything.update({**counted, "parts": 1})


def test_the_histories_show_everything(everything: Counter[str]) -> None:
    """Needs the results of all parts: run alone, this test has nothing to check."""
    if everything["parts"] == PARTS:
        assert {*INTERVENTIONS, *PLACES} - everything.keys() == set()
        assert {
            RunState.DONE,
            RunState.FAILED_UNDONE,
            RunState.FAILED_NOT_CLEAN,
            RunState.CANCELLED,
        } <= everything.keys()
