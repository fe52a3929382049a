"""Units of work: steps without external effects, commands, and failures among them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from conductor.cell_db.models import Instance
from conductor.core.states import RunState, StepState, TaskState
from conductor.db.transactions import savepoint, write_tx
from conductor.journal.models import Event, OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import DestroyInstance
from conductor.workflows import catalog
from conductor.workflows.engine import executor
from conductor.workflows.flow import Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed
from tests import factories
from tests.counting import counted
from tests.fixtures.engine import ALIAS, ANA, DIARY, Final, Noted, NotedLocal, NotedRemote, answer, fresh

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


class NothingOutside(Noted):
    """Asks for its result inside the transaction, the first time round."""

    def is_local_in(self, work: StepContext) -> bool:
        return work.attempt == 1

    def commit(self, work: StepContext, result: Result) -> None:
        DIARY.write(f"apply {self.name}")


class Networking(Step):
    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.NETWORKING)

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, host="h1")
        DIARY.write("apply Networking")


class OnItsHost(RemoteStep):
    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.SPAWNING)

    def command(self, work: StepContext) -> Any:
        DIARY.write("command")
        return DestroyInstance(**addressed(work, instance_rows.read(work).host or ""))


@pytest.fixture(autouse=True)
def _fresh_diary() -> None:
    DIARY.lines.clear()
    DIARY.failures.clear()


@pytest.fixture
def run_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(*steps: Step, instance: Instance | None = None, **options: Any) -> WorkflowRun:
        made = Flow("made", 1, steps, **{"on_failure": Final(), **options})
        monkeypatch.setitem(catalog._by_version, ("made", 1), made)
        wanted = outbox.NewRun(
            flow="made", action="make", context=ANA, resources=["thing:1"], instance_uuid=instance and instance.uuid
        )
        with write_tx(ALIAS):
            return outbox.open_run(ALIAS, wanted)

    return make


@pytest.fixture
def instance() -> Instance:
    factories.cells()
    return factories.instance(ANA, "web-1", cell=ALIAS)


def records(run: WorkflowRun) -> list[tuple[str, str]]:
    return list(StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk").values_list("name", "state"))


def test_steps_without_external_effects_and_the_next_command_commit_with_the_claim(run_of: Any) -> None:
    run = run_of(NothingOutside("first"), NotedLocal(), NotedRemote())
    with counted(ALIAS) as seen:
        executor.run(ALIAS, run.uuid)
    assert seen.transactions == 1
    assert DIARY.lines == ["do first", "apply first", "do local"]
    assert records(run) == [("first", "done"), ("NotedLocal", "done"), ("NotedRemote", "waiting")]
    assert fresh(run).state == RunState.WAITING
    waiting = StepRecord.objects.using(ALIAS).get(run=run, state=StepState.WAITING)
    assert (waiting.host, waiting.fencing_token) == ("host-1", fresh(run).fencing_token)
    assert OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid).step_key == waiting.step_key
    kinds = Event.objects.using(ALIAS).filter(run_uuid=run.uuid).order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == [
        "run.queued",
        "run.started",
        *["step.started", "step.done"] * 2,
        "step.started",
        "run.waiting",
    ]


@pytest.mark.parametrize("line", ["do second", "apply second"])
def test_a_failure_in_the_shared_transaction_keeps_earlier_steps(run_of: Any, line: str) -> None:
    run = run_of(NothingOutside("first"), NothingOutside("second"), NotedRemote())
    DIARY.failures[line] = 1
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.FAILED_UNDONE
    assert fresh(run).error["step"] == "second"
    assert records(run)[:2] == [("first", "done"), ("second", "failed")]
    assert DIARY.lines[-3:] == ["undo second", "undo first", "final"]
    assert not OutboxMessage.objects.using(ALIAS).exists()


def test_a_later_attempt_asks_outside_of_the_transaction(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.workflows.engine.executor.is_unresponsive", lambda alias, host: False)
    inside: list[bool] = []
    monkeypatch.setattr(
        NothingOutside, "execute", lambda self, work: inside.append(transaction.get_connection(ALIAS).in_atomic_block)
    )
    run = run_of(NothingOutside("first"), NotedRemote(), max_attempts=2)
    executor.run(ALIAS, run.uuid)
    answer(run, ok=False)
    answer(run)  # the undo's command
    assert fresh(run).attempt == 2
    assert inside == [True, False]


def test_a_command_that_cannot_be_made_fails_its_step_alone(run_of: Any, instance: Instance) -> None:
    run = run_of(Networking(), OnItsHost(), instance=instance)
    DIARY.failures["command"] = 2  # with the step before it, and in its own transaction
    executor.run(ALIAS, run.uuid)
    assert DIARY.lines == ["apply Networking", "command", "command", "final"]
    assert fresh(run).state == RunState.FAILED_UNDONE
    assert fresh(run).error["step"] == "OnItsHost"
    assert not OutboxMessage.objects.using(ALIAS).exists()


def test_a_command_that_could_not_be_made_at_first_is_sent_after_all(run_of: Any, instance: Instance) -> None:
    run = run_of(Networking(), OnItsHost(), instance=instance)
    DIARY.failures["command"] = 1
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.WAITING
    assert OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid).host == "h1"


def test_an_instance_is_written_once_and_a_command_sees_its_new_values(run_of: Any, instance: Instance) -> None:
    run = run_of(Networking(), OnItsHost(), instance=instance)
    with counted(ALIAS) as seen:
        executor.run(ALIAS, run.uuid)
    assert [text.split()[1] for text in seen.statements if text.startswith("UPDATE cell_db")] == ["cell_db_instance"]
    assert OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid).host == "h1"
    stored = Instance.objects.using(ALIAS).get(pk=instance.pk)
    assert (stored.host, stored.task_state) == ("h1", TaskState.SPAWNING)
    reported = Event.objects.using(ALIAS).filter(run_uuid=run.uuid, kind="instance.updated")
    assert reported.count() == 1


def test_changes_of_an_instance_by_a_failed_step_are_discarded(run_of: Any, instance: Instance) -> None:
    run = run_of(Networking(), NotedRemote(), instance=instance)
    DIARY.failures["apply Networking"] = 1
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.FAILED_UNDONE
    stored = Instance.objects.using(ALIAS).get(pk=instance.pk)
    assert (stored.host, stored.task_state) == (instance.host, TaskState.NETWORKING)


def test_a_savepoint_takes_its_rows_and_hooks_along(instance: Instance) -> None:
    heard: list[str] = []
    rows = Instance.objects.using(ALIAS).filter(pk=instance.pk)

    def change(name: str) -> None:
        rows.update(**{name: "changed"})
        transaction.on_commit(lambda: heard.append(name), using=ALIAS)

    def fail() -> None:
        with savepoint(ALIAS):
            with savepoint(ALIAS):  # ends well, and goes with the one around it
                change("description")
            with savepoint(ALIAS):
                change("hostname")
            raise RuntimeError

    with write_tx(ALIAS):
        change("name")
        with pytest.raises(RuntimeError):
            fail()
        with savepoint(ALIAS):
            change("key_name")
    assert heard == ["name", "key_name"]
    stored = rows.get()
    assert [stored.name, stored.key_name] == ["changed"] * 2
    assert [stored.description, stored.hostname] == [instance.description, instance.hostname]
