"""Triage: ranking, advice, snoozing, and its page and API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import Finding, TriageSnooze
from conductor.cell_db.models import Service
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.journal.models import AuditRecord, LockWait, OutboxMessage, WorkflowRun
from conductor.placement import allocations
from conductor.placement.allocations import Claim
from conductor.placement.models import Allocation
from conductor.services.operations import triage
from conductor.services.operations.triage.values import HELD_UP, LEFT_BEHIND, UNTIDY, WAITED_FOR
from conductor.services.workflows import duration_statistics
from conductor.services.workflows.duration_statistics import DurationStatistics
from tests import factories
from tests import fleet as made
from tests.fixtures.triage import CELL, finding, not_clean
from tests.integration.page_clients import signed_in, text


@pytest.fixture
def caller(people: Any) -> Any:
    factories.cells()
    return people.admin.context()


@pytest.fixture
def admin(caller: Any) -> Client:
    return signed_in("admin")


def unresponsive_owner(people: Any, **values: Any) -> WorkflowRun:
    """Return a run whose owner's lease ran out ten minutes ago."""
    defaults = {"lease_expires_at": factories.ago(600), "instance_name": "web-2", "age": 900}
    return factories.run(people.bo.context(), CELL, **{**defaults, **values})


def kinds(caller: Any, **query: Any) -> list[tuple[str, int]]:
    return [(one.kind, one.level) for one in triage.survey(caller, **query).items]


def command(host: str, run: WorkflowRun, age: float) -> None:
    OutboxMessage.objects.using(CELL).create(
        step_key=f"{run.uuid}:{age}", run_uuid=run.uuid, queue=f"compute.{host}", host=host, body={},
        send_again_at=factories.ago(-60), created_at=factories.ago(age),
    )  # fmt: skip


def test_a_healthy_cloud_has_an_empty_triage(caller: Any, people: Any) -> None:
    made.add_host("sim-1")
    factories.build(people.ana.context(), "web-1")
    factories.run(people.ana.context(), CELL, state="done", finished_at=factories.ago(1), owner=None)
    found = triage.survey(caller)
    assert (found.items, found.total, found.snoozed, triage.count(caller)) == ([], 0, 0, 0)
    with pytest.raises(Forbidden):
        triage.survey(people.ana.context())


def test_the_most_harmful_comes_first(caller: Any, people: Any) -> None:
    made.add_host("sim-1")
    made.add_host("sim-2")
    made.silence("sim-1")
    made.silence("sim-2")
    factories.instance(people.ana.context(), "web-9", host="sim-1")
    finding()
    finding(kind="unmanaged_guest", subject="guest:1", severity="critical")
    holder = unresponsive_owner(people)
    factories.lock(holder, "instance:1")
    waiter = factories.run(people.ana.context(), CELL, state="queued", owner=None, waits_for={"cause": "lock"})
    LockWait.objects.using(CELL).create(resource="instance:1", run=waiter)
    not_clean(people)
    late = factories.run(people.ana.context(), CELL, state="waiting", owner=None, wake_at=factories.ago(300))
    found = triage.survey(caller)
    assert [(one.kind, one.level, one.hurt) for one in found.items] == [
        ("not_clean", LEFT_BEHIND, 1),
        ("unmanaged_guest", LEFT_BEHIND, 0),
        ("owner_unresponsive", HELD_UP, 2),
        ("host_unresponsive", HELD_UP, 1),
        ("not_taken_up", WAITED_FOR, 1),
        ("host_unresponsive", UNTIDY, 0),
        ("unowned_allocation", UNTIDY, 0),
    ]
    by_kind = {one.kind: one for one in found.items}
    assert "Not cleaned up: port 7f, guest web-1. Root cause, in step SpawnOnHost: no disk" in by_kind["not_clean"].why
    assert by_kind["owner_unresponsive"].hurts == "bo in shop, and 1 workflow waiting for its locks"
    assert by_kind["not_taken_up"].run_uuid == str(late.uuid)
    assert "no conductor of the queue conductor.cell1" in by_kind["not_taken_up"].why
    assert (found.total, found.counts[LEFT_BEHIND], triage.count(caller)) == (7, 2, 7)
    first = triage.survey(caller, limit=3)
    rest = triage.survey(caller, limit=30, marker=first.items[-1].key)
    assert (first.has_more, [*first.items, *rest.items]) == (True, found.items)
    with pytest.raises(Invalid, match="could not be found"):
        triage.survey(caller, marker="wf:none")


def test_pending_approvals_are_shown_to_other_operators(caller: Any, people: Any) -> None:
    stopped = factories.run(people.ana.context(), CELL, state="needs operator", owner=None)
    waits = factories.run(people.ana.context(), CELL, state="waiting", owner=None, waits_for={"cause": "timer"})
    late = factories.run(people.ana.context(), CELL, state="waiting", owner=None, waits_for={"cause": "timer"})
    requested = {"reason": "it is gone", "step": "", "confirm": "", "mark": "", "result": {}}
    for run, by, until in ((stopped, "x", "2099"), (waits, caller.user_id, "2099"), (late, "x", "2020")):
        kept = {"intervention": "force", "by": "bo", "by_id": by, "request": requested}
        kept |= {"at": "2020-01-31T12:00:00+00:00", "until": f"{until}-01-31T12:00:00+00:00"}
        WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(approval=kept)
    found = {one.run_uuid: one for one in triage.survey(caller).items}
    assert {one.kind for one in found.values()} == {"approval"}
    assert set(found) == {str(stopped.uuid), str(waits.uuid)}, "an expired request waits for no approval"
    line, own = found[str(stopped.uuid)], found[str(waits.uuid)]
    assert line.why == "bo requests approval: Force completion. it is gone"
    assert (line.level, own.level) == (LEFT_BEHIND, WAITED_FOR)
    assert line.advice is not None
    assert (line.advice.action, line.advice.is_at_once) == ("agree", True)
    assert (own.advice, own.no_advice) == (None, "An operator other than the requester must approve.")
    triage.apply(caller, line.key, "agree", reason="so it is", revision=line.advice.revision)
    assert WorkflowRun.objects.using(CELL).get(pk=stopped.pk).state == "failed (undone)", "nothing was begun"


def test_triage_advises_only_permitted_interventions(caller: Any, people: Any) -> None:
    mended, unresponsive = not_clean(people), unresponsive_owner(people)
    hopeless = not_clean(people, "web-3", variables={})
    stopped = factories.run(people.ana.context(), CELL, state="needs operator", owner=None)
    found = {one.run_uuid: one for one in triage.survey(caller).items}
    advice = found[str(unresponsive.uuid)].advice
    assert advice is not None
    assert (advice.action, advice.confidence, advice.is_at_once) == ("take-over", "sure", True)
    resume = found[str(stopped.uuid)].advice
    assert resume is not None
    assert resume.action == "resume"
    assert found[str(hopeless.uuid)].advice is None
    assert "release them manually" in found[str(hopeless.uuid)].no_advice
    undo = found[str(mended.uuid)].advice
    assert undo is not None
    assert (undo.action, undo.is_at_once) == ("undo", True)


def test_slow_runs_are_compared_with_typical_durations(
    caller: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duration_statistics, "of_flows", lambda: {"build_in_cell": DurationStatistics(2.0, 20.0, 50)})
    factories.run(people.ana.context(), CELL, age=5)
    slow = factories.run(people.ana.context(), CELL, age=90, position=2, instance_name="web-7")
    (item,) = triage.survey(caller).items
    assert (item.kind, item.level, item.run_uuid) == ("slow", WAITED_FOR, str(slow.uuid))
    assert item.why == "In step “Spawn on host” for 2 minutes; p95: 20 seconds."


def test_hosts_that_do_not_answer(caller: Any, people: Any) -> None:
    for name in ("sim-1", "sim-2", "sim-3"):
        made.add_host(name)
    run = factories.run(people.ana.context(), CELL)
    command("sim-1", run, 90)
    command("sim-1", run, 10)
    made.silence("sim-2")
    Service.objects.using(CELL).filter(host="sim-2").update(is_forced_down=True)
    factories.instance(people.ana.context(), "web-1", host="sim-2")
    made.silence("sim-3")
    Service.objects.using(CELL).filter(host="sim-3").update(is_disabled=True)  # taken out, and empty
    off, late = triage.survey(caller).items
    assert (off.kind, off.host, off.level, off.hurts) == ("host_off", "sim-2", HELD_UP, "1 server on it")
    assert off.advice is not None
    assert (off.advice.action, off.advice.is_at_once) == ("evacuate", False)
    assert (late.kind, late.host, late.level) == ("host_unanswered", "sim-1", WAITED_FOR)
    assert late.why == "The host's agent is up, but 1 unanswered command after 60 seconds."
    with pytest.raises(Invalid, match="its own form"):
        triage.apply(caller, "host:sim-2", "evacuate", reason="dead")


def test_a_snoozed_item_returns_when_it_gets_worse(caller: Any, people: Any) -> None:
    run = unresponsive_owner(people)
    factories.lock(run, "instance:1")
    key, tomorrow = f"wf:{run.uuid}", datetime.now(UTC) + timedelta(days=1)
    for reason, until, field in (
        (" ", tomorrow, "reason"),
        ("x" * 300, tomorrow, "reason"),
        ("later", datetime.now(UTC) - timedelta(seconds=1), "until"),
        ("later", tomorrow + timedelta(days=90), "until"),
    ):
        with pytest.raises(Invalid) as caught:
            triage.snooze(caller, key, reason=reason, until=until)
        assert caught.value.details["field"] == field
    with pytest.raises(NotFound):
        triage.snooze(caller, "wf:none", reason="later", until=tomorrow)
    assert not TriageSnooze.objects.exists()
    triage.snooze(caller, key, reason="the rack is being moved", until=tomorrow)
    assert kinds(caller) == []
    assert kinds(caller, is_snoozed=True) == [("owner_unresponsive", HELD_UP)]
    assert triage.count(caller) == 0
    waiter = factories.run(people.ana.context(), CELL, state="queued", owner=None, waits_for={"cause": "lock"})
    LockWait.objects.using(CELL).create(resource="instance:1", run=waiter)
    (item,) = triage.survey(caller).items
    assert item.snooze is not None
    assert (item.snooze.ended, item.is_snoozed) == ("Affects more users than when it was snoozed.", False)


def test_a_snoozed_item_returns_when_it_happens_again(caller: Any, people: Any) -> None:
    run = unresponsive_owner(people)
    key, tomorrow = f"wf:{run.uuid}", datetime.now(UTC) + timedelta(days=1)
    triage.snooze(caller, key, reason="the rack is being moved", until=tomorrow)
    WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(state="needs operator", finished_at=factories.ago(99))
    assert kinds(caller) == [("needs_operator", LEFT_BEHIND)]
    triage.snooze(caller, key, reason="still", until=tomorrow)
    WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(finished_at=factories.ago(-1))
    (item,) = triage.survey(caller).items
    assert item.snooze is not None
    assert "Happened again" in item.snooze.ended
    TriageSnooze.objects.update(created_at=factories.ago(-5))
    assert kinds(caller) == []
    triage.wake(caller, key)
    assert kinds(caller) == [("needs_operator", LEFT_BEHIND)]
    with pytest.raises(NotFound):
        triage.wake(caller, key)
    triage.snooze(caller, key, reason="once more", until=tomorrow)
    TriageSnooze.objects.update(until=factories.ago(1))
    assert kinds(caller) == [("needs_operator", LEFT_BEHIND)]
    kept = AuditRecord.objects.order_by("pk").values_list("action", "reason")
    assert next(row for row in kept if row[0] == "triage.snooze") == ("triage.snooze", "the rack is being moved")
    assert [row[0] for row in kept].count("triage.wake") == 1


def test_a_finding_is_repaired_from_the_list(caller: Any, people: Any) -> None:
    provider = made.add_host("sim-1")
    uuid = "00000000-0000-4000-8000-00000000000a"
    allocations.claim(Claim(uuid, provider, {"VCPU": 2}, people.ana.project.id, people.ana.user.pk))
    row = finding(subject=f"allocation:{uuid}")
    (item,) = triage.survey(caller).items
    assert item.advice is not None
    assert (item.key, item.advice.action) == (f"finding:{row.uuid}", "repair")
    with pytest.raises(Invalid):
        triage.apply(caller, item.key, "repair", reason="")
    assert Allocation.objects.exists()
    assert triage.apply(caller, item.key, "repair", reason="it is unused")
    assert not Allocation.objects.exists()
    assert Finding.objects.get().repaired_at is not None
    results = AuditRecord.objects.filter(action="finding.repair").order_by("pk").values_list("result", "reason")
    assert list(results) == [("refused", ""), ("done", "it is unused")]
    young = finding(subject="allocation:gone", first_seen_at=factories.ago(1))
    with pytest.raises(Conflict, match="no longer exists"):
        triage.apply(caller, f"finding:{young.uuid}", "repair", reason="x")


def test_the_page_does_what_it_advises_with_a_reason(admin: Client, people: Any) -> None:
    run = unresponsive_owner(people)
    key, page = f"wf:{run.uuid}", text(admin.get("/triage"))
    assert "Create web-2" in page
    assert "The lease of worker-1 expired 10 minutes ago" in page
    assert "Take over…" in page
    assert "bo in shop" in page
    assert admin.get("/triage/count").json()["count"] == 1
    for form, status, reported in (
        ({"key": key, "action": "take-over", "reason": " "}, 400, "Enter a reason"),
        ({"key": key, "action": "force", "reason": "x"}, 409, "The recommended action is now “Take over”"),
        ({"key": "wf:none", "action": "take-over", "reason": "x"}, 404, "needs no attention now"),
        ({"key": key, "action": "take-over", "reason": "x", "revision": "0" * 16}, 409, "The workflow has changed"),
    ):
        answer = admin.post("/triage/do/apply", form)
        assert (answer.status_code, reported in text(answer)) == (status, True), form
    assert WorkflowRun.objects.using(CELL).get(pk=run.pk).owner == "worker-1"
    form = {"key": key, "action": "take-over", "reason": "its machine is dead"}
    assert "Take over requested: Create web-" in text(admin.post("/triage/do/apply", form, follow=True))
    assert WorkflowRun.objects.using(CELL).get(pk=run.pk).owner is None
    kept = AuditRecord.objects.using(CELL).get(action="workflow.take-over", result="done")
    assert kept.reason == "its machine is dead"


def test_the_page_snoozes_an_item_and_brings_it_back(admin: Client, people: Any) -> None:
    key = f"wf:{not_clean(people).uuid}"
    refused = admin.post("/triage/do/snooze", {"key": key, "hours": "5", "reason": "x"})
    assert (refused.status_code, "Select a snooze time" in text(refused)) == (400, True)
    admin.post("/triage/do/snooze", {"key": key, "hours": "24", "reason": "<b>parts</b> come on Monday"})
    assert "All clear" in text(admin.get("/triage"))
    off = admin.get("/triage?snoozed=1").content.decode()
    assert "&lt;b&gt;parts&lt;/b&gt; come on Monday" in off
    assert "Restore" in off
    admin.post("/triage/do/wake", {"key": key})
    assert "Create web-1" in text(admin.get("/triage"))
    assert admin.post("/triage/do/dance", {"key": key}).status_code == 404
    assert admin.get("/triage?marker=moon").status_code == 400


def test_others_get_404(caller: Any) -> None:
    ana = signed_in("ana")
    assert [ana.get(path).status_code for path in ("/triage", "/triage/count")] == [404, 404]
    assert ana.post("/triage/do/apply", {"key": "wf:1"}).status_code == 404
    assert "/triage" not in text(ana.get("/"))


def test_the_api_shows_and_does_the_same_as_the_page(api_client: Any, caller: Any, people: Any) -> None:
    run = unresponsive_owner(people)
    admin, key = api_client("admin"), f"wf:{run.uuid}"
    body = admin.get("/api/triage").json()
    assert (body["total"], body["snoozed"], body["triage"][0]["key"]) == (1, 0, key)
    assert body["triage"][0]["advice"]["action"] == "take-over"
    off = {"key": key, "reason": "later", "until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    assert admin.post("/api/triage/snooze", {**off, "until": "soon"}).status_code == 400
    assert admin.post("/api/triage/snooze", {**off, "key": "wf:none"}).status_code == 404
    assert admin.post("/api/triage/snooze", off).json()["item"]["snooze"]["reason"] == "later"
    assert admin.get("/api/triage").json()["triage"] == []
    assert len(admin.get("/api/triage?snoozed=true").json()["triage"]) == 1
    assert admin.get("/api/triage?snoozed=maybe").status_code == 400
    assert admin.post("/api/triage/wake", {"key": key}).status_code == 200
    wrong = {"key": key, "action": "undo", "reason": "x"}
    assert admin.post("/api/triage/apply", wrong).status_code == 409
    done = admin.post("/api/triage/apply", {**wrong, "action": "take-over"})
    assert (done.status_code, done.json()["done"]) == (202, "Take over requested: Create web-2.")
    assert api_client("ana").get("/api/triage").status_code == 403
