"""Deferred commands of an unresponsive host: no run waits for them, and they are sent until they are done."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.states import RunState
from conductor.journal.models import Event, OutboxMessage, WorkflowRun
from conductor.rpc.messages import StepAnswered
from conductor.workflows.engine import executor
from tests.integration.interventions import ALIAS, OnHost, due_now, fresh, go, start

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def deferring(flow: Any) -> WorkflowRun:
    """Return a run with a deferred compensation at an unresponsive host."""
    flow(OnHost())
    run = start()
    go(run)
    assert due_now(run).state == RunState.FAILED_UNDONE
    assert deferred().is_deferred
    return run


def deferred() -> OutboxMessage:
    return OutboxMessage.objects.using(ALIAS).get()


def say(run: WorkflowRun, step_key: str, error: dict[str, Any] | None = None) -> None:
    """Send the host's answer."""
    answered = StepAnswered(
        step_key=step_key,
        run_uuid=str(run.uuid),
        fencing_token=1,
        host="host-1",
        ok=error is None,
        result={},
        error=None if error is None else error | {"is_reschedulable": True},
    )
    executor.answer(ALIAS, answered)


def test_a_host_that_fails_at_it_gets_it_again_until_it_succeeds(flow: Any) -> None:
    run, keys = deferring(flow), set()
    for number in range(1, 4):
        command = deferred()
        assert command.body["body"]["step_key"] == command.step_key
        keys.add(command.step_key)
        for _ in range(2):  # the answer comes twice
            say(run, command.step_key, {"class": "DriverError", "message": f"no {number}"})
    assert len(keys) == 3  # for each of them the host has its answer
    rows = Event.objects.using(ALIAS).filter(kind="run.cleanup_retried").order_by("pk")
    assert [(one.data["host"], one.data["error"]["message"]) for one in rows] == [
        ("host-1", f"no {number}") for number in (1, 2, 3)
    ]
    say(run, deferred().step_key)
    assert not OutboxMessage.objects.using(ALIAS).exists()
    assert fresh(run).state == RunState.FAILED_UNDONE


def test_a_host_with_newer_commands_no_longer_has_a_deferred_one(flow: Any) -> None:
    run = deferring(flow)
    say(run, deferred().step_key, {"class": "StaleToken", "message": "too late"})
    assert not OutboxMessage.objects.using(ALIAS).exists()
