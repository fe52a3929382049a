"""Pages of workflows without a browser: facets, kept views, steps, logs, waits, and what tenants must not see."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from conductor.api_db.models import SavedView
from conductor.cell_db.models import Migration
from conductor.core.errors import StaleToken
from conductor.journal.models import Event, LockWait, WorkflowRun
from conductor.services import flow_lists, lock_views, migration_panels, usual_times
from conductor.services.flow_lists import ListQuery
from conductor.workflows import engine
from tests import factories
from tests.integration.page_clients import signed_in


@pytest.fixture
def asker(people: Any) -> Any:
    factories.cells()
    return people.ana.context()


def ended(asker: Any, seconds: float, **values: Any) -> WorkflowRun:
    """A build in a cell that ended well after so many seconds, an hour ago."""
    return factories.run(
        asker, "cell1", age=3600, state="done", finished_at=factories.ago(3600 - seconds), owner=None, **values
    )


# -- what is usual --------------------------------------------------------------------------------------------------


def test_what_is_usual_is_known_from_three_on(asker: Any) -> None:
    for seconds in (10, 30):
        ended(asker, seconds)
    assert usual_times.of_flows() == {}
    third = ended(asker, 20)
    factories.step(third, 2, 3500, 3492)
    usual_times.forget()
    known = usual_times.of_flows()["build_in_cell"]
    assert (round(known.p50), round(known.p95), known.count) == (20, 30, 3)
    assert usual_times.of_steps(["build_in_cell"]) == {"build_in_cell": {}}


def test_what_is_usual_is_read_once_for_many_rows(asker: Any) -> None:
    for number in range(3):
        done = ended(asker, 10 + number)
        factories.step(done, 2, 3500, 3492)
    for number in range(12):
        factories.run(asker, "cell1", instance_name=f"web-{number}")
    assert usual_times.of_steps(["build_in_cell"])["build_in_cell"]["SpawnOnHost"].count == 3
    with CaptureQueriesContext(connections["cell1"]) as seen:
        assert usual_times.of_flows()
        assert usual_times.of_steps(["build_in_cell"])
    assert len(seen) == 0
    page = signed_in("ana").get("/workflows").content.decode()
    assert "of ≈ 11 s" in page


# -- the list -------------------------------------------------------------------------------------------------------


def test_facets_narrow_and_count_as_if_they_were_not_narrowed(asker: Any) -> None:
    for number in range(3):
        ended(asker, 10, instance_name=f"done-{number}")
    factories.run(asker, "cell1", flow="stop_instance", action="stop", instance_name="busy-1")
    waits_for = {"cause": "lock", "detail": "instance:1"}
    factories.run(asker, "cell2", flow="stop_instance", state="waiting", waits_for=waits_for, instance_name="late-1")
    found = flow_lists.search(asker, ListQuery(chosen={"flow": ("stop_instance",)}))
    assert {run.instance_name for run in found.page.items} == {"busy-1", "late-1"}
    assert found.facets["flow"] == {"build_in_cell": 3, "stop_instance": 2}
    assert found.facets["state"] == {"running": 1, "waiting": 1}
    assert found.facets["cause"] == {"lock": 1}
    assert not found.facets.keys() & flow_lists.OPERATORS_FACETS
    page = signed_in("ana").get("/workflows?type=stop_instance&state=waiting").content.decode()
    assert "late-1" in page
    assert "busy-1" not in page
    assert "0 of 5 workflows fit" in signed_in("ana").get("/workflows?type=stop_instance&state=done").content.decode()


def test_the_slow_are_those_that_nineteen_of_twenty_outrun(asker: Any) -> None:
    for _ in range(20):
        ended(asker, 10)
    ended(asker, 40, instance_name="slow-1")
    factories.run(asker, "cell1", age=100, instance_name="stuck-1")
    factories.run(asker, "cell1", age=5, instance_name="quick-1")
    usual_times.forget()
    page = signed_in("ana").get("/workflows?view=slow").content.decode()
    assert "slow-1" in page
    assert "stuck-1" in page
    assert "quick-1" not in page


def test_operators_narrow_by_cell_owner_and_project(asker: Any, people: Any) -> None:
    factories.run(asker, "cell1", owner="worker-7", instance_name="one")
    factories.run(people.chi.context(), "cell2", instance_name="lab-guest-9")
    admin = signed_in("admin")
    assert "lab-guest-9" not in admin.get("/workflows?all=1&cell=cell1").content.decode()
    assert "one" in admin.get("/workflows?all=1&owner=worker-7").content.decode()
    lab = factories.project("lab").pk
    page = admin.get(f"/workflows?all=1&project={lab}").content.decode()
    assert "lab-guest-9" in page
    assert "worker-7" not in signed_in("ana").get("/workflows?cell=cell1").content.decode()


def test_the_list_asks_as_often_for_many_as_for_few(asker: Any) -> None:
    client = signed_in("ana")

    def asked() -> int:
        usual_times.forget()
        with CaptureQueriesContext(connections["cell1"]) as cell, CaptureQueriesContext(connections["default"]) as api:
            assert client.get("/workflows").status_code == 200
        return len(cell) + len(api)

    factories.run(asker, "cell1", instance_name="first")
    few = asked()
    for number in range(40):
        factories.run(asker, "cell1", instance_name=f"web-{number}", waits_for={"cause": "timer"}, state="waiting")
    assert asked() == few


def test_views_are_kept_replaced_and_forgotten_by_their_owner_alone(asker: Any) -> None:
    ana, bo = signed_in("ana"), signed_in("bo")
    answer = ana.post("/workflows/views", {"name": " Stuck  builds ", "query": "state=waiting&evil=1&marker=x"})
    assert answer["Location"] == "/workflows?state=waiting"
    kept = SavedView.objects.get()
    assert (kept.name, kept.query) == ("Stuck builds", "state=waiting")
    ana.post("/workflows/views", {"name": "Stuck builds", "query": "state=queued"})
    assert SavedView.objects.get().query == "state=queued"
    assert "Stuck builds" in ana.get("/workflows").content.decode()
    assert "Stuck builds" not in bo.get("/workflows").content.decode()
    assert bo.post(f"/workflows/views/{kept.uuid}/forget").status_code == 404
    ana.post("/workflows/views", {"name": "", "query": "state=done"})
    assert SavedView.objects.count() == 1
    assert ana.get(f"/workflows/views/{kept.uuid}/forget").status_code == 200
    assert SavedView.objects.count() == 1
    assert ana.post(f"/workflows/views/{kept.uuid}/forget").status_code == 302
    assert not SavedView.objects.exists()


# -- one workflow ---------------------------------------------------------------------------------------------------


def test_tenants_see_their_steps_and_logs_without_hosts(asker: Any) -> None:
    _, child = factories.build(asker, "web-1")
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(
        inputs={"selections": [{"host": "sim-1"}], "name": "web-1", "user_data": "c2VjcmV0"},
        variables={"ClaimDestination": {"host": "sim-1"}},
    )
    factories.tell(child, "step.started", step="SpawnOnHost", host="sim-1", attempt=1)
    factories.tell(child, "run.write_refused", token=3, newest=7, owner="worker-0")
    ana, admin = signed_in("ana"), signed_in("admin")
    key = f"{str(child.uuid)[:8]}-2"
    for tab in ("", "/graph", "/steps", "/logs", "/log", "/data", "/locks", "/why", f"/step/{key}"):
        mine, theirs = ana.get(f"/workflows/{child.uuid}{tab}"), admin.get(f"/workflows/{child.uuid}{tab}")
        assert (mine.status_code, theirs.status_code) == (200, 200), tab
        text = mine.content.decode()
        assert "sim-1" not in text, tab
        assert "worker-" not in text, tab
        assert "c2VjcmV0" not in text + theirs.content.decode(), tab
        assert signed_in("chi").get(f"/workflows/{child.uuid}{tab}").status_code == 404
    assert "sim-1" in admin.get(f"/workflows/{child.uuid}/data").content.decode()
    assert "write with" in admin.get(f"/workflows/{child.uuid}/locks").content.decode()
    assert ana.get(f"/workflows/{child.uuid}/step/{'0' * 8}-2").status_code == 404


# -- locks ----------------------------------------------------------------------------------------------------------


def test_who_waits_sees_the_holder_and_its_own_place(asker: Any, people: Any) -> None:
    _, child = factories.build(asker, "web-1")
    waiting = [
        factories.run(asker, "cell1", flow="stop_instance", action="stop", state="queued", plan=[], owner=None,
                      started_at=None, instance_name="web-1", waits_for={"cause": "lock", "detail": "instance"})
        for _ in range(2)
    ]  # fmt: skip
    for run in waiting:
        LockWait.objects.using("cell1").create(resource=f"instance:{child.instance_uuid}", run=run)
    ana = signed_in("ana")
    page = ana.get(f"/workflows/{waiting[1].uuid}/why").content.decode()
    assert "Create web-1 holds it; this one is number 2 in the queue" in page
    assert "worker-1" not in page
    held = ana.get(f"/workflows/{child.uuid}/locks").content.decode()
    assert 'data-name="Waiting behind">2<' in held
    admin = signed_in("admin").get(f"/workflows/{waiting[0].uuid}/locks").content.decode()
    assert "Who waits for whom" in admin


@pytest.mark.parametrize(
    ("pairs", "ring"),
    [
        ([("a", "b"), ("b", "c")], set()),
        ([("a", "b"), ("b", "a"), ("c", "a")], {"a", "b"}),
        ([("a", "a")], {"a"}),
        ([("a", "b"), ("b", "c"), ("c", "a")], {"a", "b", "c"}),
    ],
)
def test_rings_are_found(pairs: list[tuple[str, str]], ring: set[str]) -> None:
    assert lock_views.rings_in(pairs) == ring


def test_a_late_owners_write_leaves_a_trace(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = factories.run(asker, "cell1", owner=None, fencing_token=9)

    def too_late(*given: Any) -> None:
        raise StaleToken("too late", token=4)

    monkeypatch.setattr(engine, "_take_up", too_late)
    engine._work_on("cell1", run.uuid)
    told = Event.objects.using("cell1").get(kind="run.write_refused")
    assert (told.run_uuid, told.data["token"], told.data["newest"]) == (run.uuid, 4, 9)


# -- live migration -------------------------------------------------------------------------------------------------


@pytest.fixture
def moving(asker: Any, monkeypatch: pytest.MonkeyPatch) -> WorkflowRun:
    """A guest that moves, and whose source has reported five times, a second apart and just now."""
    uuid, begun = uuid4(), factories.ago(6)
    monkeypatch.setattr(migration_panels, "database_time", lambda alias: begun + timedelta(seconds=5))
    names = ("LookAtSource", "PickDestination", "PrepareAtDestination", "MoveLive", "FinishAtDestination")
    plan = [{"name": name, "title": name, "lane": "Cell conductor", "event": ""} for name in names]
    server = factories.instance(asker, "web-1", task_state="migrating")
    run = factories.run(
        asker, "cell1", flow="live_migrate_instance", action="live-migration", instance_uuid=server.uuid, plan=plan,
        instance_name="web-1", inputs={"migration_uuid": str(uuid)}, position=3, owner=None, state="waiting",
        waits_for={"cause": "host", "detail": "sim-1"}, age=30,
    )  # fmt: skip
    for index in range(3):
        factories.step(run, index, 29 - index, 28 - index)
    factories.step(run, 3, 26, None, host="sim-1", state="waiting")
    Migration.objects.using("cell1").create(
        uuid=uuid, instance_uuid=server.uuid, run_uuid=run.uuid, migration_type="live-migration", status="running",
        source_host="sim-1", destination_host="sim-2", project_id=asker.project_id, user_id=asker.user_id,
        created_at=factories.ago(30), updated_at=factories.ago(1),
    )  # fmt: skip
    for number in range(5):
        figures = {"memory_total": 1000, "memory_processed": 100 * number, "memory_remaining": 1000 - 100 * number}
        factories.tell(run, "step.progress", step="MoveLive", progress={"message": "copying"}, figures=figures)
    for number, told in enumerate(Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")):
        Event.objects.using("cell1").filter(pk=told.pk).update(created_at=begun + timedelta(seconds=number))
    return run


def test_a_migration_is_judged_and_stopped_from_its_page(moving: WorkflowRun) -> None:
    admin, ana = signed_in("admin"), signed_in("ana")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert re.search(r"Converging: about \d+–\d+ s", page)
    assert "sim-1 → sim-2" in page
    assert "Converging" in admin.get(f"/servers/{moving.instance_uuid}").content.decode()
    mine = ana.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Converging" in mine
    assert "sim-" not in mine
    assert "It takes the role manager." in mine
    refused = ana.post(f"/workflows/{moving.uuid}/migration/abort")
    assert refused.status_code == 200
    assert not WorkflowRun.objects.using("cell1").filter(flow="abort_live_migration").exists()
    assert admin.get(f"/workflows/{moving.uuid}/migration/explode").status_code == 404
    assert admin.post(f"/workflows/{moving.uuid}/migration/abort").status_code == 302
    assert WorkflowRun.objects.using("cell1").get(flow="abort_live_migration").inputs == {
        "live_run_uuid": str(moving.uuid)
    }


def test_it_is_said_what_takes_long_and_what_a_switch_by_post_copy_risks(moving: WorkflowRun) -> None:
    admin, said = signed_in("admin"), Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")
    assert "The guest pauses until the rest has arrived" in admin.get(f"/workflows/{moving.uuid}").content.decode()
    for number, told in enumerate(said):
        told.data["figures"] |= {"memory_remaining": 900, "memory_pass": number + 1, "is_post_copy_forced": 1}
        told.data["figures"] |= {"downtime_ms": 4000, "downtime_limit_ms": 500, "throttle_percent": 20 * number}
        told.save(using="cell1")
    page = admin.get(f"/workflows/{moving.uuid}").content.decode()
    assert "Not converging: the guest changes 75 B/s, the link moves 75 B/s." in page
    for words in ("4000 ms", "500 ms", "80 %", "it cannot be stopped then, and a broken connection loses it"):
        assert words in page
    assert "The guest pauses until" not in page


def test_what_is_over_offers_nothing(moving: WorkflowRun) -> None:
    Migration.objects.using("cell1").update(status="completed")
    WorkflowRun.objects.using("cell1").filter(pk=moving.pk).update(state="done", finished_at=factories.ago(0))
    page = signed_in("admin").get(f"/workflows/{moving.uuid}").content.decode()
    assert "The guest runs at its destination." in page
    assert "Finish now" not in page


# -- placement and comparing ----------------------------------------------------------------------------------------


def test_the_funnel_leads_to_the_hosts_that_it_lost(asker: Any, people: Any) -> None:
    parent, _ = factories.build(people.admin.context(), "web-1")
    made = factories.some_decision()
    factories.decision(parent, **{**made, "summary": {**made["summary"], "drawn_among": 3, "scheduler": "rack-1:7"}})
    admin = signed_in("admin")
    page = admin.get(f"/workflows/{parent.uuid}/placement").content.decode()
    assert (
        "Best by weight: sim-1, score 1.00; next sim-2 0.50 (50.0 %); drawn at random among the best 3;"
        " by scheduler rack-1:7." in page
    )
    assert "seed 7741" in page
    assert "?lost=compute_status#hosts-" in page
    lost = admin.get(f"/workflows/{parent.uuid}/placement?lost=compute_status").content.decode()
    assert re.findall(r'<td class="lead">(sim-\d)', lost) == ["sim-3"]
    assert re.findall(r'<td class="lead">(sim-\d)', page) == ["sim-1", "sim-2", "sim-3"]


def test_two_of_a_kind_are_compared(asker: Any) -> None:
    _, one = factories.build(asker, "web-1", age=20)
    _, other = factories.build(asker, "web-2", age=40)
    runs = WorkflowRun.objects.using("cell1")
    runs.filter(pk=one.pk).update(inputs={"flavor": {"vcpus": 1}, "disks": [{"size": 1}]})
    runs.filter(pk=other.pk).update(inputs={"flavor": {"vcpus": 4}, "disks": [{"size": 2}, {"size": 3}]})
    stranger = factories.run(asker, "cell1", flow="stop_instance")
    ana = signed_in("ana")
    offered = ana.get(f"/workflows/compare?a={one.uuid}").content.decode()
    assert str(other.uuid) in offered
    assert str(stranger.uuid) not in offered
    page = ana.get(f"/workflows/compare?a={one.uuid}&b={other.uuid}").content.decode()
    assert "Spawn on host" in page
    assert re.search(r"\+(1[5-9]|2[0-5]) s", page)
    assert "build_in_cell.flavor.vcpus" in page
    for place, sizes in (("0", ("1", "2")), ("1", ("–", "3"))):
        spans = ' <span class="faint">→</span> '.join(f'<span class="break">{size}</span>' for size in sizes)
        assert f"build_in_cell.disks.{place}.size</dt><dd>{spans}</dd>" in page
    part = ended(asker, 9)
    page = ana.get(f"/workflows/compare?a={one.uuid}&b={part.uuid}").content.decode()
    assert "not there" in page
    assert "sim-" not in page
    assert ana.get(f"/workflows/compare?a={one.uuid}&b={stranger.uuid}").status_code == 400
    assert signed_in("chi").get(f"/workflows/compare?a={one.uuid}&b={other.uuid}").status_code == 404
    assert ana.get("/workflows/compare").status_code == 404


def test_what_was_left_behind_is_named_also_where_no_cause_was_kept(asker: Any) -> None:
    broken = factories.run(asker, "cell1", state="failed (not clean)", leftovers=["a guest on sim-1"])
    page = signed_in("ana").get(f"/workflows/{broken.uuid}").content.decode()
    assert "Why it failed was not kept." in page
    assert "Not everything could be given back." in page
    assert "a guest on sim-1" in page
