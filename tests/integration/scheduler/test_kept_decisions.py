"""Stored decisions: the request, and the hosts at that time, shared and bounded."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from conductor.api_db.models import HostSnapshot, SchedulingDecision
from conductor.core.context import system_context
from conductor.core.errors import NotFound, NoValidHost
from conductor.core.request_spec import RequestSpec
from conductor.scheduler import decision_log, manager
from conductor.scheduler.decision_log import SnapshotStore
from conductor.scheduler.host_manager import host_manager
from tests.fleet import add_host, requested

pytestmark = pytest.mark.usefixtures("databases")


def decided(spec: RequestSpec, count: int = 1) -> SchedulingDecision:
    key = str(uuid4())
    uuids = [str(uuid4()) for _ in range(count)]
    with suppress(NoValidHost):
        manager.select_destinations(system_context(), spec, uuids, step_key=key, run_uuid=str(uuid4()))
    return SchedulingDecision.objects.get(step_key=key)


@pytest.fixture(autouse=True)
def _fresh_store(monkeypatch: Any) -> None:
    monkeypatch.setattr(manager, "snapshot_store", SnapshotStore())


def test_the_request_and_the_hosts_are_kept_as_they_were() -> None:
    for number in range(5):
        add_host(f"host-{number}")
    before = host_manager.snapshot().table.states
    spec = requested(memory_mb=1024)
    first, second = decided(spec), decided(spec)
    assert RequestSpec.from_json(first.request or {}) == spec
    assert HostSnapshot.objects.count() == 1
    assert first.snapshot_digest == second.snapshot_digest != ""
    assert first.snapshot_rows is None
    assert list(decision_log.seen(first).table.states) == list(before)
    later = decision_log.seen(second)
    assert sum(state.num_instances for state in later.table.states) == 1
    assert not later.is_partial


def test_a_batch_that_failed_is_kept_as_its_last_instance_saw_it() -> None:
    add_host("one", size=(2, 2048, 10))
    row = decided(requested(memory_mb=1024), count=3)
    assert not row.is_successful
    [state] = decision_log.seen(row).table.states
    assert state.num_instances == 2


def test_another_fleet_begins_a_new_copy() -> None:
    add_host("one")
    decided(requested())
    add_host("two")
    row = decided(requested())
    assert HostSnapshot.objects.count() == 2
    assert len(decision_log.seen(row).table) == 2


def test_only_named_hosts_of_a_very_large_fleet_are_stored(settings: Any) -> None:
    settings.NOVELLA_SNAPSHOT_HOSTS = 2
    for number in range(3):
        add_host(f"host-{number}")
    row = decided(requested(memory_mb=10**6))
    assert not HostSnapshot.objects.exists()
    seen = decision_log.seen(row)
    assert seen.is_partial
    assert {state.host for state in seen.table.states} == {"host-0", "host-1", "host-2"}


def test_all_failures_and_a_share_of_successes_are_stored_in_full(settings: Any) -> None:
    settings.NOVELLA_DECISION_SAMPLE = 0.0
    for number in range(6):
        add_host(f"host-{number}")
    row = decided(requested())
    assert (row.request, row.snapshot_digest, row.snapshot_rows) == (None, "", None)
    assert row.summary["is_detailed"] is False
    named = {selection["host"] for chosen in row.selections for selection in chosen}
    assert len(named) == 3
    assert {host["host"] for host in row.details["hosts"]} == named
    assert {weight["host"] for weight in row.details["weights"]} == named
    assert row.summary["num_hosts"] == 6
    with pytest.raises(NotFound, match="is not stored"):
        decision_log.seen(row)
    failed = decided(requested(memory_mb=10**6))
    assert failed.summary["is_detailed"] is True
    assert len(failed.details["hosts"]) == 6
    assert len(decision_log.seen(failed).table) == 6


def test_a_copy_that_was_pruned_is_shown_as_gone() -> None:
    add_host("one")
    row = decided(requested())
    HostSnapshot.objects.all().delete()
    with pytest.raises(NotFound, match="is no longer stored: it is kept for 7 days"):
        decision_log.seen(row)


def test_a_decision_is_made_although_its_hosts_cannot_be_stored(monkeypatch: Any, caplog: Any) -> None:
    add_host("one")

    def refuse(*args: Any) -> bytes:
        raise TypeError("object cannot be kept in a snapshot")

    monkeypatch.setattr("conductor.core.scheduling.snapshots.pack", refuse)
    row = decided(requested())
    assert row.is_successful
    assert "hosts not kept with the decision: hosts=1" in caplog.text
    with pytest.raises(NotFound, match="is not stored"):
        decision_log.seen(row)
