"""A host that is up but does not answer a command: its driver hangs, and the run's wait has an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.cell_db.models import InstanceFault
from conductor.core.states import RunState, TaskState, VmState
from conductor.db.transactions import database_now
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc.messages import StepProgressed
from conductor.services.servers import actions, instances
from conductor.workflows.engine import executor
from conductor.workflows.flow import UNTIL_DONE
from tests.fixtures.builds import ana, held, instance_of, run_to_the_end
from tests.fixtures.engine import (
    ALIAS,
    DIARY,
    Noted,
    NotedRemote,
    _fresh_diary,
    _host_is_heard,
    answer,
    due_now,
    flow,
    fresh,
    start,
)
from tests.fixtures.power import LIVING, built, engine_wakes

__all__ = ["_fresh_diary", "_host_is_heard", "ana", "flow"]
pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


class Removed(NotedRemote):
    retry = UNTIL_DONE


@pytest.fixture
def no_report(settings: Any) -> Callable[[WorkflowRun], None]:
    """Make a run's commands older than the time limit for an answer."""
    settings.NOVELLA_COMMAND_SECONDS = 600.0

    def grow_old(run: WorkflowRun) -> None:
        StepRecord.objects.using(ALIAS).filter(run=run).update(started_at=database_now(-601.0))
        due_now(run)
        executor.run(ALIAS, run.uuid)

    return grow_old


@pytest.mark.usefixtures("_host_is_heard")
def test_a_driver_that_hangs_fails_the_step_and_defers_the_compensation(flow: Any, no_report: Any) -> None:
    flow(Noted("claim"), NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    due_now(run)
    executor.run(ALIAS, run.uuid)
    assert fresh(run).state == RunState.WAITING  # there is time
    no_report(run)
    assert fresh(run).state == RunState.WAITING  # it is asked to undo what it may have done
    no_report(run)
    ended = fresh(run)
    assert (ended.state, ended.error["class"]) == (RunState.FAILED_UNDONE, "HostUnresponsive")
    assert "reported nothing about this for 600 seconds: its driver seems to hang" in ended.error["message"]
    assert OutboxMessage.objects.using(ALIAS).get().is_deferred
    assert DIARY.lines == ["do claim", "undo claim", "final"]


@pytest.mark.usefixtures("_host_is_heard")
def test_a_host_that_reports_progress_does_not_hang(flow: Any, no_report: Any) -> None:
    flow(NotedRemote())
    run = start()
    executor.run(ALIAS, run.uuid)
    sent = OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid)
    executor.progress(
        ALIAS,
        StepProgressed(
            step_key=sent.step_key, run_uuid=str(run.uuid), fencing_token=1, host="host-1", message="copying", share=0.5
        ),
    )
    no_report(run)
    assert (fresh(run).state, fresh(run).direction) == (RunState.WAITING, "do")
    answer(run)
    assert fresh(run).state == RunState.DONE


@pytest.mark.usefixtures("_host_is_heard")
def test_steps_that_only_go_forward_are_retried_after_a_driver_hangs(flow: Any, no_report: Any) -> None:
    flow(Removed(), cancellable_until=None)
    run = start()
    executor.run(ALIAS, run.uuid)
    no_report(run)
    assert fresh(run).waits_for["cause"] == "timer"
    due_now(run)
    executor.run(ALIAS, run.uuid)
    assert not OutboxMessage.objects.using(ALIAS).get().is_deferred
    answer(run)
    assert fresh(run).state == RunState.DONE


def test_a_driver_that_hangs_ends_the_action_with_a_sentence(ana: Any, settings: Any) -> None:
    uuid = built(ana, VmState.STOPPED)
    run_uuid = actions.begin(ana, uuid, "start")
    executor.run("cell1", run_uuid)
    settings.NOVELLA_COMMAND_SECONDS = 0.0
    engine_wakes(run_uuid)
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.STOPPED, None)
    assert "its driver seems to hang" in InstanceFault.objects.using("cell1").get(instance_uuid=uuid).message
    assert OutboxMessage.objects.using("cell1").count() == 0
    assert held() == LIVING


def test_a_delete_reports_a_hanging_driver_at_once_and_continues(ana: Any, settings: Any) -> None:
    uuid = built(ana)
    instances.delete(ana, uuid)
    run = WorkflowRun.objects.using("cell1").get(flow="delete_instance")
    executor.run("cell1", run.uuid)
    settings.NOVELLA_COMMAND_SECONDS = 0.0
    WorkflowRun.objects.using("cell1").filter(pk=run.pk).update(wake_at=database_now())
    executor.run("cell1", run.uuid)
    assert (instance_of(uuid).vm_state, instance_of(uuid).task_state) == (VmState.ERROR, TaskState.DELETING)
    assert "its driver seems to hang" in InstanceFault.objects.using("cell1").get(instance_uuid=uuid).message
    run_to_the_end()
    assert (instance_of(uuid).vm_state, held()) == (VmState.DELETED, {})
