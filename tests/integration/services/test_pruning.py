"""Pruning: rows that are deleted at a certain age, and rows that stay for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import OperationalError

from conductor.actors import periodic
from conductor.api_db.models import Finding, HostSnapshot, Notice, SchedulingDecision
from conductor.cell_db.models import ConsoleLog, Drain, GuestCount, Instance
from conductor.cells.lookup import journal_aliases
from conductor.core.states import RunState
from conductor.journal import periodic_leases
from conductor.journal.models import (
    AuditRecord,
    Event,
    ForeignFence,
    LeaseGrant,
    NotificationDelivery,
    NotificationPlace,
    OutboxMessage,
    PeriodicLease,
    StepRecord,
    WorkflowRun,
)
from conductor.services.audit import seals
from conductor.services.operations.pruning import kinds, needed, pruner
from tests import factories
from tests.counting import counted
from tests.factories import ago

CELL = "cell1"
DAY = 86_400.0
SETTINGS = {kind.setting for kind in kinds.KINDS}


@pytest.fixture(autouse=True)
def _kept_ten_days(settings: Any, databases: None) -> None:
    for name in SETTINGS:
        setattr(settings, name, 10)


@pytest.fixture
def ana(people: Any) -> Any:
    factories.cells()
    return people.ana.context()


def ended(ana: Any, alias: str = CELL, *, days: float = 11, **values: Any) -> WorkflowRun:
    """Return a run that ended so many days ago, with a step, a lease and an event."""
    defaults = {"state": RunState.DONE, "owner": None, "finished_at": ago(days * DAY)}
    run = factories.run(ana, alias, **{**defaults, **values})
    factories.step(run, 0, days * DAY, days * DAY)
    LeaseGrant.objects.using(alias).create(run=run, owner="worker-1", reason="claim", granted_at=ago(days * DAY))
    return run


def event(alias: str = CELL, *, days: float = 11, **values: Any) -> Event:
    return Event.objects.using(alias).create(topic="t", kind="run.ended", created_at=ago(days * DAY), **values)


def pruned(**options: Any) -> dict[str, dict[str, int]]:
    return pruner.prune(**options).counts


def nothing() -> dict[str, dict[str, int]]:
    return {alias: {} for alias in journal_aliases()}


# -- each kind: rows that are over, by the age in days


def workflow(ana: Any, days: float) -> Any:
    return ended(ana, days=days)


def command(ana: Any, days: float) -> Any:
    return OutboxMessage.objects.using(CELL).create(
        step_key=str(uuid4()), run_uuid=uuid4(), queue="q", host="h", body={}, send_again_at=ago(0),
        created_at=ago(days * DAY),
    )  # fmt: skip


def decision(ana: Any, days: float) -> Any:
    run = factories.run(ana, state=RunState.DONE, owner=None, finished_at=ago(0))
    return factories.decision(run, summary={}, details={}, created_at=ago(days * DAY))


def console(ana: Any, days: float) -> Any:
    instance = factories.instance(ana, "web-1", deleted_at=ago(days * DAY))
    return factories.console(instance, "login: ")


def audit(ana: Any, days: float) -> Any:
    row = AuditRecord.objects.using(CELL).create(
        action="server.reboot", result="done", user_id="u", created_at=ago(days * DAY)
    )
    seals.seal(CELL)
    return row


def delivery(ana: Any, days: float) -> Any:
    return NotificationDelivery.objects.using(CELL).create(
        sink="s", message_id=uuid4(), event_type="t", outcome="delivered", tried_at=ago(days * DAY)
    )


def finding(ana: Any, days: float) -> Any:
    return Finding.objects.create(
        kind="usage_miscounted", subject=str(uuid4()), severity="warning", detail="d", first_seen_at=ago(days * DAY),
        last_seen_at=ago(days * DAY), gone_at=ago(days * DAY),
    )  # fmt: skip


def notice(ana: Any, days: float) -> Any:
    return Notice.objects.create(
        user_id="u", project_id="p", subscription_uuid=uuid4(), message_id=uuid4(), event_type="t", title="t",
        created_at=ago(days * DAY),
    )  # fmt: skip


def snapshot(ana: Any, days: float) -> Any:
    return HostSnapshot.objects.create(digest=str(uuid4()), num_hosts=0, content=b"", created_at=ago(days * DAY))


def metrics(ana: Any, days: float) -> Any:
    return GuestCount.objects.using(CELL).create(host="h", counted_at=days, created_at=ago(days * DAY))


def emitted_event(ana: Any, days: float) -> Any:
    row = event(days=days)
    event(days=0)  # the last one stays in any case
    return row


ROWS: dict[str, Callable[[Any, float], Any]] = {
    "workflows": workflow, "commands": command, "decisions": decision, "consoles": console, "audit": audit,
    "deliveries": delivery, "findings": finding, "events": emitted_event, "snapshots": snapshot,
    "notices": notice, "metrics": metrics,
}  # fmt: skip
SETTING = {kind.name: kind.setting for kind in kinds.KINDS}


def test_every_kind_is_tried() -> None:
    assert ROWS.keys() | {"fences"} == {kind.name for kind in kinds.KINDS}


@pytest.mark.parametrize("name", ROWS)
def test_old_rows_are_pruned_and_newer_ones_stay(name: str, ana: Any, settings: Any) -> None:
    old, young = ROWS[name](ana, 11), ROWS[name](ana, 9)
    rows = type(old).objects.using(old._state.db)
    alias = "default" if old._state.db == "default" else CELL

    assert pruned(is_dry_run=True) == {**nothing(), alias: {name: 1}}
    assert rows.filter(pk__in=[old.pk, young.pk]).count() == 2
    setattr(settings, SETTING[name], 0)
    assert pruned()[alias] == {}
    setattr(settings, SETTING[name], 10)
    assert pruned()[alias] == {name: 1}
    assert list(rows.filter(pk__in=[old.pk, young.pk]).values_list("pk", flat=True)) == [young.pk]
    assert pruned()[alias] == {}


def test_a_workflow_takes_its_steps_and_leases_along(ana: Any) -> None:
    ended(ana)
    young = ended(ana, days=1)
    pruned()
    assert [row.run_id for row in StepRecord.objects.using(CELL)] == [young.pk]
    assert [row.run_id for row in LeaseGrant.objects.using(CELL)] == [young.pk]


# -- what stays


def test_work_without_an_end_stays_with_what_it_came_from(ana: Any) -> None:
    parent = ended(ana, "default", days=400)
    factories.decision(parent, summary={}, details={}, created_at=ago(400 * DAY))
    event("default", days=400, run_uuid=parent.uuid)
    event("default", days=400)
    event("default", days=0)
    live = factories.run(ana, CELL, age=400 * DAY, parent_uuid=parent.uuid)
    event(days=400, run_uuid=live.uuid)
    event(days=0)
    stuck = factories.run(ana, CELL, age=400 * DAY, state=RunState.NEEDS_OPERATOR, owner=None)
    assert pruned() == {**nothing(), "default": {"events": 1}}
    assert WorkflowRun.objects.using("default").filter(pk=parent.pk).exists()
    assert set(WorkflowRun.objects.using(CELL).values_list("pk", flat=True)) == {live.pk, stuck.pk}
    assert SchedulingDecision.objects.filter(run_uuid=parent.uuid).exists()
    WorkflowRun.objects.using(CELL).filter(pk=live.pk).update(state=RunState.DONE, finished_at=ago(20 * DAY))
    assert pruned()["default"] == {"workflows": 1, "events": 1, "decisions": 1}


def test_rows_with_a_lock_or_a_reference_stay(ana: Any) -> None:
    holder, drained, deferred = ended(ana), ended(ana), ended(ana)
    factories.lock(holder, "instance:1")
    now = ago(0)
    Drain.objects.using(CELL).create(run_uuid=drained.uuid, host="sim-1", created_at=now, updated_at=now)
    OutboxMessage.objects.using(CELL).create(
        step_key="k", run_uuid=deferred.uuid, queue="q", host="h", body={}, is_deferred=True, send_again_at=now,
        created_at=ago(11 * DAY),
    )  # fmt: skip
    assert pruned()[CELL] == {}


def test_events_wait_for_the_slowest_sink_and_the_last_one_stays(ana: Any) -> None:
    first, second, third = event(), event(), event()
    for name, reached in (("quick", third.pk), ("slow", first.pk)):
        NotificationPlace.objects.using(CELL).create(sink=name, reached=reached, retry_at=ago(0))
    assert pruned()[CELL] == {"events": 1}
    NotificationPlace.objects.using(CELL).update(reached=third.pk)
    assert pruned()[CELL] == {"events": 1}
    assert list(Event.objects.using(CELL).values_list("pk", flat=True)) == [third.pk]
    assert second.pk < event().pk
    assert third.pk < Event.objects.using(CELL).latest("pk").pk, "numbers go on where they were"


def test_a_fence_outlives_its_workflow(ana: Any) -> None:
    run, gone = ended(ana, days=9), uuid4()
    for uuid in (run.uuid, gone):
        ForeignFence.objects.using("default").create(run_uuid=uuid, fencing_token=7)
    assert pruned()["default"] == {"fences": 1}
    assert [row.run_uuid for row in ForeignFence.objects.using("default")] == [run.uuid]


def test_fences_are_deleted_with_their_workflows(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, the samples find none afterwards."""
    monkeypatch.setattr(needed, "MOST_FENCES", 0)
    old, young = [ended(ana).uuid for _ in range(5)], ended(ana, days=9).uuid
    for alias in ("default", "cell2"):
        fences = [ForeignFence(run_uuid=uuid, fencing_token=7) for uuid in (*old, young)]
        ForeignFence.objects.using(alias).bulk_create(fences)
    assert pruned()[CELL] == {"workflows": 5}
    for alias in ("default", "cell2"):
        assert [row.run_uuid for row in ForeignFence.objects.using(alias)] == [young]


def test_samples_of_fences_reach_each_of_them(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needed, "MOST_FENCES", 2)
    ForeignFence.objects.bulk_create([ForeignFence(run_uuid=uuid4(), fencing_token=7) for _ in range(7)])
    assert [pruned()["default"]["fences"] for _ in range(3)] == [2, 2, 2]
    assert pruned()["default"] == {"fences": 1}


@pytest.mark.parametrize("count_of_old", [0, 1, 7, 40])
def test_young_events_are_not_read(count_of_old: int, ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from those that are met while the first of them is looked for."""
    for _ in range(count_of_old):
        event()
    rows = Event.objects.using(CELL)
    rows.bulk_create(Event(topic="t", kind="run.ended", created_at=ago(DAY)) for _ in range(40 - count_of_old))
    event(days=0)
    end = kinds.first_young(rows, 10 * DAY)
    assert rows.filter(pk__lt=end).count() == count_of_old
    with counted(CELL) as seen:
        assert kinds.first_young(rows, 10 * DAY) == end
    assert len(seen.statements) <= 8
    assert pruned()[CELL] == ({"events": count_of_old} if count_of_old else {})


def test_while_a_database_is_unresponsive_nothing_that_it_might_need_is_pruned(
    ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = ended(ana, "default")
    ended(ana, CELL)
    audit(ana, 11)
    ask = needed._in

    def down(alias: str) -> Any:
        if alias == "cell2":
            raise OperationalError("away")
        return ask(alias)

    monkeypatch.setattr(needed, "_in", down)
    done = pruner.prune()
    assert done.down == ["cell2"]
    assert done.counts == {"default": {}, "cell0": {}, CELL: {"audit": 1}}
    assert WorkflowRun.objects.using("default").filter(pk=parent.pk).exists()
    with pytest.raises(SystemExit) as refused:
        call_command("prune", stdout=StringIO())
    assert refused.value.code == 1


def test_pages_work_without_pruned_rows(ana: Any, api_client: Any) -> None:
    """A server whose build is forgotten is still shown, with the history that is left."""
    parent, child = factories.build(ana, "web-1")
    values = {"state": RunState.DONE, "finished_at": ago(11 * DAY), "owner": None}
    for run in (parent, child):
        WorkflowRun.objects.using(run._state.db).filter(pk=run.pk).update(**values)
        run.locks.using(run._state.db).all().delete()
    server = Instance.objects.using(CELL).get()
    assert pruned()[CELL]["workflows"] == 1
    client = api_client("ana", version="2.90")
    path = f"/compute/v2.1/servers/{server.uuid}"
    assert client.get(path).status_code == 200
    assert client.get(f"{path}/os-instance-actions").json() == {"instanceActions": []}
    assert client.get(f"/api/workflows/{child.uuid}").status_code == 404


# -- how


def test_pruning_works_in_batches_and_stops_when_another_process_takes_over(
    ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "BATCH", 2)
    for _ in range(5):
        audit(ana, 11)
    requested: list[str] = []

    def goes_on(alias: str) -> bool:
        requested.append(alias)
        return AuditRecord.objects.using(CELL).count() > 3

    assert pruned(goes_on=goes_on)[CELL] == {"audit": 2}
    assert AuditRecord.objects.using(CELL).count() == 3
    assert pruned()[CELL] == {"audit": 3}


def test_one_process_prunes_a_database(ana: Any, settings: Any) -> None:
    settings.NOVELLA_LEASE_SECONDS = 600  # the other process sends no heartbeat here
    audit(ana, 11)
    with periodic_leases.hold(CELL, pruner.NAME, "other", every_seconds=60) as lease:
        assert lease is not None
        periodic.run_periodic_work(["default", CELL], "mine")
        assert AuditRecord.objects.using(CELL).exists()
        assert PeriodicLease.objects.using("default").get(name=pruner.NAME).done_at is not None
        lease.is_done = False
    periodic.run_periodic_work(["default", CELL], "mine")
    assert not AuditRecord.objects.using(CELL).exists()
    audit(ana, 11)
    periodic.run_periodic_work(["default", CELL], "mine")
    assert AuditRecord.objects.using(CELL).exists(), "not more often than once an hour"


def test_the_command_counts_first(ana: Any) -> None:
    def run_prune(*words: str) -> str:
        out = StringIO()
        call_command("prune", *words, stdout=out)
        return out.getvalue()

    assert run_prune() == "Nothing is old enough.\n"
    console(ana, 11)
    assert run_prune("--dry-run") == "cell1: 1 consoles\n"
    assert ConsoleLog.objects.using(CELL).exists()
    assert json.loads(run_prune("--json"))["rows"][CELL] == {"consoles": 1}
    assert not ConsoleLog.objects.using(CELL).exists()
