"""Scheduled snapshots: taken once by any conductor, on behalf of a user; failures are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import SnapshotSchedule
from conductor.cell_db.models import Instance
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaExceeded
from conductor.db.transactions import database_now
from conductor.identity.models import RoleAssignment
from conductor.image.models import Image
from conductor.journal.models import AuditRecord, Event, PeriodicLease, WorkflowRun
from conductor.services.notifications import chats, notices, payloads
from conductor.services.servers import due_snapshots, snapshot_schedules
from conductor.services.servers.snapshot_schedules import SERVER, VOLUME, ScheduleView, SnapshotScheduleRequest
from conductor.services.volumes import creation, snapshots
from conductor.services.volumes.creation import VolumeAsk
from conductor.volume.models import Snapshot, Volume
from conductor.volume.snapshots import SnapshotCreate
from conductor.workflows.flows.server_images import CREATE_BACKUP
from tests.api_client import ApiClient
from tests.integration.flows.moving import CELL, run_to_the_end
from tests.integration.flows.storing import StorageHosts, part_of, times_of
from tests.integration.page_clients import signed_in, text

ERROR = "snapshot_schedule.error"


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def hosts(hosts: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path
    return StorageHosts()


@pytest.fixture
def volume(hosts: Any, ana: Any) -> str:
    return str(creation.create(ana, VolumeAsk(size_gb=1, name="data")).uuid)


def schedule(caller: Any, kind: str, subject: str, **values: Any) -> ScheduleView:
    defaults: dict[str, Any] = {"every": "day", "minute": 120, "keep": 2, "zone": "UTC"}
    return snapshot_schedules.schedule(
        caller, SnapshotScheduleRequest(kind=kind, subject_uuid=subject, **{**defaults, **values})
    )


def come_due(seconds_ago: float = 1.0) -> None:
    SnapshotSchedule.objects.update(due_at=database_now(-seconds_ago), look_at=database_now(-1))


def carry_out(owner: str) -> bool:
    PeriodicLease.objects.update(done_at=None)
    return due_snapshots.carry_out(owner)


def only() -> SnapshotSchedule:
    return SnapshotSchedule.objects.get()


def bell(person: Any) -> list[str]:
    return [one.title for one in notices.of(person.context())[0] if one.event_type == ERROR]


def test_scheduled_backups_of_a_server_rotate(hosts: StorageHosts, people: Any, launch: Any) -> None:
    uuid = launch()
    made = schedule(people.ana.context(), SERVER, uuid)
    assert carry_out("one")
    assert only().state == "planned"  # nothing is due
    for _ in range(3):
        come_due()
        assert carry_out("one")
        assert only().state == "running"
        run_to_the_end(hosts)
        carry_out("two")
        assert (only().state, only().words) == ("done", "")
    kept = Image.objects.filter(properties__backup_type=f"schedule-{made.uuid[:8]}", status="active")
    assert kept.count() == 2
    assert {one.properties["user_id"] for one in kept} == {people.ana.user.id}
    runs = WorkflowRun.objects.using(CELL).filter(action="createBackup")
    assert [run.user_name for run in runs] == ["ana"] * 3
    rows = AuditRecord.objects.filter(action="snapshot_schedule.run")
    assert [(one.user_name, one.on_behalf_of) for one in rows] == [("system", "ana")] * 3
    assert bell(people.ana) == []
    assert snapshot_schedules.get(people.ana.context(), made.uuid).next_at is not None


def test_scheduled_snapshots_of_a_volume_rotate_and_manual_ones_stay(
    hosts: StorageHosts, people: Any, volume: str
) -> None:
    ana = people.ana.context()
    by_hand = snapshots.create(ana, volume, SnapshotCreate("by hand"))
    run_to_the_end(hosts)
    schedule(ana, VOLUME, volume, keep=1)
    for _ in range(2):
        come_due()
        carry_out("one")
        run_to_the_end(hosts)
        carry_out("one")
    kept = list(Snapshot.objects.filter(volume__uuid=volume).order_by("pk"))
    assert kept[0].uuid == by_hand.uuid
    assert [(one.status, one.metadata.get("snapshot_schedule")) for one in kept[1:]] == [
        ("available", str(only().uuid))
    ]
    assert kept[1].name.startswith("data ")


@pytest.mark.parametrize("kind", [SERVER, VOLUME])
def test_one_conductor_starts_a_scheduled_snapshot_and_another_replaces_a_killed_one(
    hosts: StorageHosts, people: Any, launch: Any, volume: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(people.ana.context(), kind, launch() if kind == SERVER else volume)
    come_due()
    module, name = (due_snapshots, "_begun") if kind == SERVER else (snapshots, "begin")

    def die(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as last_words:
        last_words.setattr(module, name, die)
        with pytest.raises(Killed):
            carry_out("one")
    assert (only().state, carry_out("two")) == ("planned", False)  # it is the other's for as long as its lease
    PeriodicLease.objects.update(lease_expires_at=database_now(-1))
    assert carry_out("two")
    assert only().state == "running"
    run_to_the_end(hosts)
    carry_out("three")
    action, alias = ("createBackup", CELL) if kind == SERVER else ("create_snapshot", "default")
    assert WorkflowRun.objects.using(alias).filter(action=action).count() == 1
    assert only().state == "done"


def test_rows_in_use_are_waited_for_then_left_out_and_reported(hosts: StorageHosts, people: Any, volume: str) -> None:
    schedule(people.ana.context(), VOLUME, volume)
    Volume.objects.update(status="extending")
    come_due()
    carry_out("one")
    row = only()
    assert (row.state, "but is extending" in row.words, row.look_at > row.due_at) == ("waiting", True, True)
    assert bell(people.ana) == []
    come_due(due_snapshots.WAIT_SECONDS + 5)
    carry_out("one")
    assert (only().state, Snapshot.objects.count()) == ("skipped", 0)
    assert [title.startswith("A scheduled snapshot failed: data: ") for title in bell(people.ana)] == [True]
    assert bell(people.bo) == bell(people.ana)
    assert bell(people.chi) == bell(people.rea) == []
    Volume.objects.update(status="available")
    come_due()
    carry_out("one")
    run_to_the_end(hosts)
    carry_out("one")
    assert (only().state, len(bell(people.ana))) == ("done", 1)


def test_an_exhausted_quota_is_reported_at_once(
    hosts: StorageHosts, people: Any, volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*args: Any, **more: Any) -> None:
        raise QuotaExceeded("SnapshotLimitExceeded: no room.")

    schedule(people.ana.context(), VOLUME, volume)
    monkeypatch.setattr(snapshots, "require_room", no_room)
    come_due()
    carry_out("one")
    assert (only().state, only().words, only().run_uuid) == ("skipped", "SnapshotLimitExceeded: no room.", None)
    assert len(bell(people.ana)) == 1


def test_a_workflow_that_fails_reaches_the_bell_and_subscribers(
    hosts: StorageHosts, people: Any, launch: Any, trouble: Any
) -> None:
    step = CREATE_BACKUP.steps[1]
    uuid = launch()
    schedule(people.ana.context(), SERVER, uuid)
    trouble.strike(step, part_of(step), times=times_of(step))
    come_due()
    carry_out("one")
    run_to_the_end(hosts)
    carry_out("one")
    carry_out("two")
    assert only().state == "failed"
    assert len(bell(people.ana)) == len(bell(people.bo)) == 1
    (event,) = Event.objects.filter(kind=ERROR)
    assert (event.project_id, str(event.instance_uuid)) == (people.ana.project.id, uuid)
    message = payloads.compose("default", event)
    assert message is not None
    rows = payloads.for_tenants(message)
    assert (rows.event_type, rows.body["priority"], rows.body["payload"]["schema"]) == (ERROR, "ERROR", ERROR)
    assert rows.body["payload"]["data"]["server"] == uuid
    assert chats.as_chat(rows)["text"] == f"{bell(people.ana)[0]} ({ERROR})"


def _owner_leaves(people: Any, uuid: str) -> str:
    RoleAssignment.objects.filter(user=people.ana.user).delete()
    return "The owner of this schedule no longer has access to the project."


def _server_goes(people: Any, uuid: str) -> str:
    Instance.objects.using(CELL).filter(uuid=uuid).update(deleted_at=database_now())
    return "The server is gone."


@pytest.mark.parametrize("event", [_owner_leaves, _server_goes])
def test_a_schedule_ends_with_its_right_or_its_server_and_says_so(
    hosts: StorageHosts, people: Any, launch: Any, event: Any
) -> None:
    uuid = launch()
    made = schedule(people.ana.context(), SERVER, uuid)
    why = event(people, uuid)
    come_due()
    carry_out("one")
    seen = snapshot_schedules.get(people.bo.context(), made.uuid)
    assert (seen.state, seen.reason, seen.next_at) == ("ended", why, None)
    assert bell(people.bo) == [f"A scheduled snapshot failed: web-1: {why} The schedule has ended."]
    come_due()
    carry_out("two")
    assert len(bell(people.bo)) == 1
    assert not WorkflowRun.objects.using(CELL).filter(action="createBackup").exists()


def test_ended_schedules_are_deleted(
    hosts: StorageHosts, people: Any, volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_schedules, "MOST_ENDED", 2)
    caller = people.ana.context()
    made = [schedule(caller, VOLUME, volume).uuid for _ in range(4)]
    SnapshotSchedule.objects.update(ended_at=database_now())
    made.append(schedule(caller, VOLUME, volume).uuid)
    assert {str(row.uuid) for row in SnapshotSchedule.objects.all()} == set(made[2:])


def test_permissions_for_snapshot_schedules(hosts: StorageHosts, people: Any, launch: Any, volume: str) -> None:
    ana, uuid = people.ana.context(), launch()
    for who, error in ((people.rea, Forbidden), (people.chi, NotFound)):
        for kind, subject in ((SERVER, uuid), (VOLUME, volume)):
            with pytest.raises(error):
                schedule(who.context(), kind, subject)
    for values, field in (
        ({"every": "month"}, "every"), ({"every": "hours", "hours": 5}, "hours"), ({"every": "week"}, "weekday"),
        ({"minute": 1440}, "at"), ({"zone": "Mars/Base"}, "time_zone"), ({"keep": 0}, "keep"),
    ):  # fmt: skip
        with pytest.raises(Invalid) as caught:
            schedule(ana, VOLUME, volume, **values)
        assert caught.value.details["field"] == field
    Instance.objects.using(CELL).update(image={})
    with pytest.raises(Invalid, match="schedule snapshots of its volumes"):
        schedule(ana, SERVER, uuid)
    made = [schedule(ana, VOLUME, volume) for _ in range(snapshot_schedules.MOST_OF_ONE)]
    with pytest.raises(Conflict, match="delete one first"):
        schedule(ana, VOLUME, volume)
    for name, error in (("rea", Forbidden), ("chi", NotFound)):
        with pytest.raises(error):
            snapshot_schedules.delete(people[name].context(), made[0].uuid)
    snapshot_schedules.delete(people.bo.context(), made[0].uuid)
    assert SnapshotSchedule.objects.count() == snapshot_schedules.MOST_OF_ONE - 1


def test_the_api_and_the_pages_show_the_same(hosts: StorageHosts, people: Any, launch: Any, volume: str) -> None:
    uuid = launch()
    ana, page = ApiClient(people.ana.token()), signed_in("ana")
    requested = {
        "server": uuid,
        "every": "week",
        "weekday": "friday",
        "at": "02:30",
        "keep": 3,
        "time_zone": "Europe/Berlin",
    }
    made = ana.post("/api/snapshot-schedules", {"snapshot_schedule": requested})
    assert made.status_code == 201, made.content
    one = made.json()["snapshot_schedule"]
    assert ana.get(made["Location"]).json()["snapshot_schedule"] == one
    assert (
        ana.post("/api/snapshot-schedules", {"snapshot_schedule": {**requested, "volume": volume}}).status_code == 400
    )
    form = {"volume": volume, "every": "hours-6", "weekday": "monday", "at": "01:00", "keep": "4"}
    answer = page.post("/snapshot-schedules/do/of-volume", form)
    assert answer.status_code == 302, text(answer)
    wrong = page.post("/snapshot-schedules/do/of-volume", {**form, "at": "25:00"})
    assert (wrong.status_code, "It must be a time of day such as 02:30." in text(wrong)) == (400, True)
    assert [one["kind"] for one in ana.get("/api/snapshot-schedules").json()["snapshot_schedules"]] == [
        "volume",
        "server",
    ]
    assert len(ana.get(f"/api/snapshot-schedules?volume={volume}").json()["snapshot_schedules"]) == 1
    assert "Friday at 02:30 (Europe/Berlin)" in text(page.get(f"/servers/{uuid}/snapshots"))
    assert "Every 6 hours from 01:00 (UTC)" in text(page.get(f"/volumes/of/{volume}"))
    assert "Every 6 hours from 01:00 (UTC)" in text(page.get("/snapshot-schedules"))
    assert "Friday at 02:30" in text(page.get(f"/snapshot-schedules/of/{one['uuid']}"))
    gone = page.post("/snapshot-schedules/do/delete", {"item": one["uuid"]})
    assert gone.status_code == 302
    assert ana.get(made["Location"]).status_code == 404
    assert ana.delete("/api/snapshot-schedules/not-a-uuid").status_code == 404
