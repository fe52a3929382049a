"""Changes of a server that waits for scheduling are never lost: they are copied into the cell, or refused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import BuildRequest
from conductor.core.errors import Conflict, NotFound
from conductor.core.states import VmState
from conductor.services.servers import instances, updates
from conductor.workflows.flow import Step
from conductor.workflows.flows.build import BUILD_INSTANCES, CreateInCells
from tests.fixtures.builds import ana, instance_of, launch, run_to_the_end
from tests.trouble import Trouble, trouble
from tests.waiting import WAIT_SECONDS

__all__ = ["ana", "trouble"]
VALUES = {"name": "renamed", "description": "words", "access_ip_v4": "10.0.0.1"}


def kept(uuid: str) -> dict[str, Any]:
    instance = instance_of(uuid)
    return {name: getattr(instance, name) for name in VALUES}


def test_a_request_that_waits_for_the_scheduler_takes_the_change(ana: Any) -> None:
    uuid = launch(ana)
    changed = updates.update(ana, uuid, VALUES)
    assert (changed.name, changed.description, changed.access_ip_v4) == ("renamed", "words", "10.0.0.1")
    run_to_the_end()
    assert (kept(uuid), instance_of(uuid).vm_state) == (VALUES, VmState.ACTIVE)


@pytest.mark.parametrize("step", BUILD_INSTANCES.steps, ids=lambda step: step.name)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_change_requested_around_any_step_is_kept_or_refused(
    step: Step, when: str, ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = type(step).execute
    outcome: list[bool] = []
    launched: list[str] = []

    def change() -> None:
        try:
            updates.update(ana, launched[0], VALUES)
        except Conflict:
            outcome.append(False)
        else:
            outcome.append(True)

    def with_change(self: Step, work: Any) -> Any:
        if when == "before":
            change()
        result = whole(self, work)
        if when == "after":
            change()
        return result

    monkeypatch.setattr(type(step), "execute", with_change)
    monkeypatch.setattr(updates, "COPYING_SECONDS", 0.0)
    launched.append(launch(ana))
    run_to_the_end()
    assert len(outcome) == 1
    assert (kept(launched[0]) == VALUES) is outcome[0]
    assert outcome[0] is (step.name != "CreateInCells")


def test_a_change_requested_during_the_copy_waits_for_it(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, waits, launched = CreateInCells.execute, threading.Event(), []
    monkeypatch.setattr(updates, "COPYING_SECONDS", 600.0)
    wait = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: waits.set() or threading.Event().wait(seconds))
    monkeypatch.setattr(updates, "time", wait)
    with ThreadPoolExecutor() as threads:

        def while_it_waits(self: Step, work: Any) -> Any:
            launched.append(threads.submit(change))
            assert waits.wait(WAIT_SECONDS)
            return whole(self, work)

        def change() -> None:
            try:
                updates.update(ana, uuid, VALUES)
            finally:
                connections.close_all()

        monkeypatch.setattr(CreateInCells, "execute", while_it_waits)
        uuid = launch(ana)
        run_to_the_end()
        launched[0].result(WAIT_SECONDS)
    assert kept(uuid) == VALUES


def test_a_failed_request_keeps_its_new_name_in_cell0(ana: Any, trouble: Trouble) -> None:
    trouble.strike(BUILD_INSTANCES.steps[0], "execute", times=10_000)
    uuid = launch(ana)
    updates.update(ana, uuid, VALUES)
    run_to_the_end()
    assert (kept(uuid), instance_of(uuid)._state.db) == (VALUES, "cell0")


def test_requests_that_are_deleted_or_of_other_projects_cannot_be_renamed(
    ana: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "COPYING_SECONDS", 0.0)
    uuid = launch(ana)
    with pytest.raises(NotFound):
        updates.update(people.chi.context(), uuid, VALUES)
    instances.delete(ana, uuid)
    with pytest.raises(Conflict):
        updates.update(ana, uuid, VALUES)
    assert BuildRequest.objects.get().instance["name"] == "web-1"
