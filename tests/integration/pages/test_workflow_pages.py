"""Pages of workflows without a browser: facets, kept views, steps, logs, and what tenants must not see."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import uuid4

from django.db import connections

from conductor.api_db.models import SavedView
from conductor.journal.models import WorkflowRun
from conductor.services.workflows import duration_statistics, lists
from conductor.services.workflows.lists import WorkflowListQuery
from tests import factories
from tests.counting import Captured
from tests.fixtures.workflow_callers import caller
from tests.integration.page_clients import signed_in

__all__ = ["caller"]


def ended(caller: Any, seconds: float, **values: Any) -> WorkflowRun:
    """Return a build in a cell that ended well after so many seconds, an hour ago."""
    return factories.run(
        caller, "cell1", age=3600, state="done", finished_at=factories.ago(3600 - seconds), owner=None, **values
    )


# -- typical durations ----------------------------------------------------------------------------------------------


def test_typical_durations_are_known_from_three_runs_on(caller: Any) -> None:
    for seconds in (10, 30):
        ended(caller, seconds)
    assert duration_statistics.of_flows() == {}
    third = ended(caller, 20)
    factories.step(third, 2, 3500, 3492)
    duration_statistics.forget()
    known = duration_statistics.of_flows()["build_in_cell"]
    assert (round(known.p50), round(known.p95), known.count) == (20, 30, 3)
    assert duration_statistics.of_steps(["build_in_cell"]) == {"build_in_cell": {}}


def test_typical_durations_are_read_once_for_many_rows(caller: Any) -> None:
    for number in range(3):
        done = ended(caller, 10 + number)
        factories.step(done, 2, 3500, 3492)
    for number in range(12):
        factories.run(caller, "cell1", instance_name=f"web-{number}")
    assert duration_statistics.of_steps(["build_in_cell"])["build_in_cell"]["SpawnOnHost"].count == 3
    with Captured(connections["cell1"]) as seen:
        assert duration_statistics.of_flows()
        assert duration_statistics.of_steps(["build_in_cell"])
    assert len(seen) == 0
    page = signed_in("ana").get("/workflows").content.decode()
    assert "(typical 11 s)" in page


# -- the list -------------------------------------------------------------------------------------------------------


def test_facets_narrow_and_count_as_if_they_were_not_narrowed(caller: Any) -> None:
    for number in range(3):
        ended(caller, 10, instance_name=f"done-{number}")
    factories.run(caller, "cell1", flow="stop_instance", action="stop", instance_name="busy-1")
    waits_for = {"cause": "lock", "detail": "instance:1"}
    factories.run(caller, "cell2", flow="stop_instance", state="waiting", waits_for=waits_for, instance_name="late-1")
    found = lists.search(caller, WorkflowListQuery(chosen={"flow": ("stop_instance",)}))
    assert {run.instance_name for run in found.page.items} == {"busy-1", "late-1"}
    assert found.facets["flow"] == {"build_in_cell": 3, "stop_instance": 2}
    assert found.facets["state"] == {"running": 1, "waiting": 1}
    assert found.facets["cause"] == {"lock": 1}
    assert not found.facets.keys() & lists.OPERATORS_FACETS
    page = signed_in("ana").get("/workflows?type=stop_instance&state=waiting").content.decode()
    assert "late-1" in page
    assert "busy-1" not in page
    page = signed_in("ana").get("/workflows?type=stop_instance&state=done").content.decode()
    assert "No workflows match the selected filters." in page


def test_a_run_that_waits_for_a_host_is_found_by_the_state_that_pages_show(caller: Any) -> None:
    on_a_host, on_a_timer = {"cause": "host", "detail": "sim-1"}, {"cause": "timer", "detail": "next try"}
    for name, direction, waits_for in (
        ("there", "do", on_a_host), ("back", "undo", on_a_host), ("late", "undo", on_a_timer), ("lost", "do", None),
    ):  # fmt: skip
        factories.run(caller, "cell1", state="waiting", direction=direction, waits_for=waits_for, instance_name=name)
    wanted = {"running": {"there"}, "undoing": {"back"}, "waiting": {"late", "lost"}}
    for state, names in wanted.items():
        for query in (WorkflowListQuery(chosen={"state": (state,)}), WorkflowListQuery(states=(state,))):
            found = lists.search(caller, query)
            assert {(run.instance_name, run.state) for run in found.page.items} == {(name, state) for name in names}
    assert found.facets["state"] == {"waiting": 2}
    found = lists.search(caller, WorkflowListQuery(states=("running", "waiting")))
    assert found.facets["state"] == {"waiting": 2, "running": 1}
    assert found.facets["cause"] == {"timer": 1}
    assert not lists.search(caller, WorkflowListQuery(chosen={"cause": ("host",)})).page.items


def test_slow_workflows_are_those_above_the_95th_percentile(caller: Any) -> None:
    for _ in range(20):
        ended(caller, 10)
    ended(caller, 40, instance_name="slow-1")
    factories.run(caller, "cell1", age=100, instance_name="stuck-1")
    factories.run(caller, "cell1", age=5, instance_name="quick-1")
    duration_statistics.forget()
    page = signed_in("ana").get("/workflows?view=slow").content.decode()
    assert "slow-1" in page
    assert "stuck-1" in page
    assert "quick-1" not in page


def test_operators_narrow_by_cell_owner_and_project(caller: Any, people: Any) -> None:
    factories.run(caller, "cell1", owner="worker-7", instance_name="one")
    factories.run(people.chi.context(), "cell2", instance_name="lab-guest-9")
    admin = signed_in("admin")
    assert "lab-guest-9" not in admin.get("/workflows?all=1&cell=cell1").content.decode()
    assert "one" in admin.get("/workflows?all=1&owner=worker-7").content.decode()
    lab = factories.project("lab").pk
    page = admin.get(f"/workflows?all=1&project={lab}").content.decode()
    assert "lab-guest-9" in page
    assert "worker-7" not in signed_in("ana").get("/workflows?cell=cell1").content.decode()


def test_the_list_takes_as_many_queries_for_many_rows_as_for_few(caller: Any) -> None:
    client = signed_in("ana")

    def requested() -> int:
        duration_statistics.forget()
        with Captured(connections["cell1"]) as cell, Captured(connections["default"]) as api:
            assert client.get("/workflows").status_code == 200
        return len(cell) + len(api)

    factories.run(caller, "cell1", instance_name="first")
    few = requested()
    for number in range(40):
        factories.run(caller, "cell1", instance_name=f"web-{number}", waits_for={"cause": "timer"}, state="waiting")
    assert requested() == few


def test_views_are_kept_replaced_and_forgotten_by_their_owner_alone(caller: Any) -> None:
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


def test_tenants_see_their_steps_and_logs_without_hosts(caller: Any) -> None:
    _, child = factories.build(caller, "web-1")
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(
        inputs={"selections": [{"host": "sim-1"}], "name": "web-1", "user_data": "c2VjcmV0"},
        variables={"ClaimDestination": {"host": "sim-1"}},
    )
    factories.emit(child, "step.started", step="SpawnOnHost", host="sim-1", attempt=1)
    factories.emit(child, "run.write_refused", token=3, newest=7, owner="worker-0")
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
    assert "Rejected write" in admin.get(f"/workflows/{child.uuid}/locks").content.decode()
    assert ana.get(f"/workflows/{child.uuid}/step/{'0' * 8}-2").status_code == 404


# -- placement and comparing ----------------------------------------------------------------------------------------


def test_each_stage_of_the_funnel_links_to_the_hosts_that_it_rejected(caller: Any, people: Any) -> None:
    parent, _ = factories.build(people.admin.context(), "web-1")
    made, place = factories.some_decision(), f"/workflows/{parent.uuid}/placement"
    assert ("The scheduling decision for this server is no longer stored.") in signed_in("admin").get(
        place
    ).content.decode()
    fault = {"kind": "filter", "plugin": "compute_status", "count": 2, "error": "x", "consequence": "rejected"}
    more = {"drawn_among": 3, "scheduler": "rack-1:7", "faults": [fault]}
    factories.decision(parent, **{**made, "summary": {**made["summary"], **more}})
    admin = signed_in("admin")
    page = admin.get(f"/workflows/{parent.uuid}/placement").content.decode()
    assert (
        "Highest weight: sim-1, score 1.00; next sim-2 0.50 (50.0 %); selected at random from the best 3;"
        " by scheduler rack-1:7." in page
    )
    assert "seed 7741" in page
    assert "?lost=compute_status#hosts-" in page
    assert "errored on 2 hosts: rejected" in page
    assert page.count('class="errored"') == 1
    lost = admin.get(f"/workflows/{parent.uuid}/placement?lost=compute_status").content.decode()
    assert re.findall(r'<td class="lead">(sim-\d)', lost) == ["sim-3"]
    assert re.findall(r'<td class="lead">(sim-\d)', page) == ["sim-1", "sim-2", "sim-3"]


def test_two_workflows_of_one_kind_are_compared(caller: Any) -> None:
    _, one = factories.build(caller, "web-1", age=20)
    _, other = factories.build(caller, "web-2", age=40)
    runs = WorkflowRun.objects.using("cell1")
    runs.filter(pk=one.pk).update(inputs={"flavor": {"vcpus": 1}, "disks": [{"size": 1}]})
    runs.filter(pk=other.pk).update(inputs={"flavor": {"vcpus": 4}, "disks": [{"size": 2}, {"size": 3}]})
    unrelated = factories.run(caller, "cell1", flow="stop_instance")
    ana = signed_in("ana")
    offered = ana.get(f"/workflows/compare?a={one.uuid}").content.decode()
    assert str(other.uuid) in offered
    assert str(unrelated.uuid) not in offered
    page = ana.get(f"/workflows/compare?a={one.uuid}&b={other.uuid}").content.decode()
    assert "Spawn on host" in page
    assert re.search(r"\+(1[5-9]|2[0-5]) s", page)
    assert "build_in_cell.flavor.vcpus" in page
    for place, sizes in (("0", ("1", "2")), ("1", ("–", "3"))):
        spans = ' <span class="faint">→</span> '.join(f'<span class="break">{size}</span>' for size in sizes)
        assert f"build_in_cell.disks.{place}.size</dt><dd>{spans}</dd>" in page
    part = ended(caller, 9)
    page = ana.get(f"/workflows/compare?a={one.uuid}&b={part.uuid}").content.decode()
    assert ">missing<" in page
    assert "sim-" not in page
    assert ana.get(f"/workflows/compare?a={one.uuid}&b={unrelated.uuid}").status_code == 400
    assert signed_in("chi").get(f"/workflows/compare?a={one.uuid}&b={other.uuid}").status_code == 404
    assert ana.get("/workflows/compare").status_code == 404


def test_uncompensated_effects_are_named_even_without_a_stored_cause(caller: Any) -> None:
    broken = factories.run(caller, "cell1", state="failed (not clean)", uncompensated=["a guest on sim-1"])
    page = unescape(signed_in("ana").get(f"/workflows/{broken.uuid}").content.decode())
    assert "The cause of the failure isn't stored." in page
    assert "Some resources couldn't be released." in page
    assert "a guest on sim-1" in page


def test_a_server_that_its_workflow_has_deleted_is_not_to_be_opened(caller: Any) -> None:
    ana, uuid = signed_in("ana"), uuid4()
    for state, is_there in (("running", True), ("done", False)):
        run = factories.run(caller, "cell1", flow="delete_instance", action="delete", instance_uuid=uuid, state=state)
        page = ana.get(f"/workflows/{run.uuid}").content.decode()
        assert (f'<a href="/servers/{uuid}">Open server</a>' in page) is is_there
