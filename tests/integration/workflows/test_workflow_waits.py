"""Pages of waiting workflows: for a lock, for a conductor, for each other; and fenced writes."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.core.errors import StaleToken
from conductor.journal.models import Event, LockWait, ResourceLock
from conductor.services.workflows import lock_waits
from conductor.workflows.engine import executor
from tests import factories
from tests.integration.page_clients import signed_in


@pytest.fixture
def caller(people: Any) -> Any:
    factories.cells()
    return people.ana.context()


def test_a_waiting_workflow_shows_the_holder_and_its_position(caller: Any, people: Any) -> None:
    _, child = factories.build(caller, "web-1")
    waiting = [
        factories.run(caller, "cell1", flow="stop_instance", action="stop", state="queued", plan=[], owner=None,
                      started_at=None, instance_name="web-1", waits_for={"cause": "lock", "detail": "instance"})
        for _ in range(2)
    ]  # fmt: skip
    port = f"port:{uuid4()}"
    for run in waiting:
        LockWait.objects.using("cell1").create(resource=f"instance:{child.instance_uuid}", run=run)
        LockWait.objects.using("cell1").create(resource=port, run=run)
    # In the database of ports the first has its own already: it waits for no one there, least of all for itself.
    volume = f"volume:{uuid4()}"
    for resource, holder in ((port, waiting[0]), (volume, child)):
        ResourceLock.objects.create(
            resource=resource, holder_uuid=holder.uuid, holder_alias="cell1", granted_at=factories.ago(1)
        )
    backup = factories.run(caller, flow="backup_volume", action="backup", state="queued", plan=[], owner=None)
    LockWait.objects.create(resource=volume, run=backup)
    ana = signed_in("ana")
    page = ana.get(f"/workflows/{waiting[1].uuid}/why").content.decode()
    assert "Create web-1 holds the lock; this workflow is number 2 in the queue" in page
    assert "worker-1" not in page
    held = ana.get(f"/workflows/{child.uuid}/locks").content.decode()
    assert 'data-name="Waiters">2<' in held
    admin = signed_in("admin").get(f"/workflows/{waiting[0].uuid}/locks").content.decode()
    assert "Wait graph" in admin
    assert "Deadlock" not in admin
    assert "The lock was just released" not in admin
    assert f"Stop web-1 ({str(waiting[0].uuid)[:4]})" in admin
    assert "Create web-1</a>" in signed_in("admin").get(f"/workflows/{backup.uuid}/locks").content.decode()


def test_a_queued_workflow_shows_how_many_runs_are_before_it(caller: Any, people: Any) -> None:
    queued = {"state": "queued", "plan": [], "owner": None, "started_at": None}
    factories.run(people.chi.context(), age=9, **queued)
    runs = [factories.run(caller, age=8 - number, **queued) for number in range(3)]
    factories.run(caller, age=9, **queued | {"waits_for": {"cause": "lock", "detail": "instance"}})
    ana = signed_in("ana")
    for run, count in zip(runs, ("1 workflow is", "2 workflows are", "3 workflows are"), strict=True):
        for path in ("", "/why"):
            assert (
                f"waiting for a conductor. {count} ahead in the queue."
                in ana.get(f"/workflows/{run.uuid}{path}").content.decode()
            )


@pytest.mark.parametrize(
    ("pairs", "cycle"),
    [
        ([("a", "b"), ("b", "c")], set()),
        ([("a", "b"), ("b", "a"), ("c", "a")], {"a", "b"}),
        ([("a", "a")], {"a"}),
        ([("a", "b"), ("b", "c"), ("c", "a")], {"a", "b", "c"}),
    ],
)
def test_cycles_are_found(pairs: list[tuple[str, str]], cycle: set[str]) -> None:
    assert lock_waits.cycles_in(pairs) == cycle


def test_a_late_owners_write_leaves_a_trace(caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = factories.run(caller, "cell1", owner=None, fencing_token=9)

    def too_late(*given: Any) -> None:
        raise StaleToken("too late", token=4)

    monkeypatch.setattr(executor, "_take_up", too_late)
    executor._work_on("cell1", run.uuid)
    rows = Event.objects.using("cell1").get(kind="run.write_refused")
    assert (rows.run_uuid, rows.data["token"], rows.data["newest"]) == (run.uuid, 4, 9)
