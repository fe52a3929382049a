"""Workflows, their steps and events, locks and hosts over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.journal.models import LockWait, ResourceLock, WorkflowRun
from tests import factories
from tests.compute_rows import make_cloud, make_host
from tests.counting import counted


@pytest.fixture
def builds(people: Any) -> Any:
    """Two builds of ana's and one of chi's, each at its third step in a cell."""
    factories.cells()
    ana, chi = people.ana.context(), people.chi.context()
    return [factories.build(caller, name, cell) for caller, name, cell in (
        (ana, "web", "cell1"), (ana, "db", "cell2"), (chi, "lab", "cell1"),
    )]  # fmt: skip


def listed(client: Any, query: str = "") -> list[str]:
    return [run["instance_name"] for run in client.get(f"/api/workflows{query}").json()["workflows"]]


def test_a_list_is_narrowed_and_says_what_each_choice_leaves(builds: Any, people: Any, api_client: Any) -> None:
    factories.run(people.ana.context(), "cell1", flow="delete_instance", action="delete", state="done")
    ana, admin = api_client("ana"), api_client("admin")
    body = ana.get("/api/workflows?state=running").json()  # parked, while a host works
    assert {run["instance_name"] for run in body["workflows"]} == {"web", "db"}
    assert body["facets"] == {
        "state": {"running": 2, "done": 1},  # what another state would leave
        "flow": {"build_in_cell": 2},
        "action": {"create": 2},
    }
    assert {run["state"] for run in body["workflows"]} == {"running"}
    assert listed(ana, "?state=waiting") == []
    assert listed(ana, "?flow=build_in_cell&cell=cell2") == ["db"]
    assert len(listed(admin)) == 4
    assert listed(admin, f"?project_id={people.chi.project.id}") == ["lab"]
    assert listed(ana, f"?project_id={people.chi.project.id}") == []
    assert listed(ana, f"?instance_uuid={builds[0][1].instance_uuid}") == ["web"]
    assert listed(ana, "?instance_uuid=no-uuid") == listed(ana, "?since=2999-01-01T00:00:00Z") == []
    assert len(listed(ana, "?until=2999-01-01T00:00:00%2B02:00")) == 3


def test_pages_of_a_narrowed_list_give_each_once(builds: Any, api_client: Any) -> None:
    admin, path, seen = api_client("admin"), "/api/workflows?state=running&limit=1", []
    while path:
        body = admin.get(path).json()
        seen += [run["instance_name"] for run in body["workflows"]]
        assert body["facets"]["state"]["running"] == 3
        path = body.get("workflows_links", [{"href": ""}])[0]["href"].removeprefix("http://testserver")
    assert sorted(seen) == ["db", "lab", "web"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/workflows?colour=red", "colour"),
        ("/api/workflows?state=asleep", "state"),
        ("/api/workflows?since=yesterday", "since"),
        ("/api/workflows?until=0001-01-01T00:00:00%2B14:00", "until"),
        ("/api/workflows?flow=" + "x" * 256, "flow"),
        ("/api/workflows?marker=nobody", "Marker"),
        ("/api/workflows?user_id=%00", "user_id"),
        ("/api/events?after=everything", "cursor"),
        ("/api/events?colour=red", "colour"),
        ("/api/events?after=&limit=-1", "limit"),
        ("/api/locks?colour=red", "colour"),
        ("/api/hosts?colour=red", "colour"),
    ],
)
def test_unknown_filters_are_named(databases: None, api_client: Any, path: str, named: str) -> None:
    factories.cells()
    answer = api_client("admin").get(path)
    assert (answer.status_code, named in answer.json()["error"]["message"]) == (400, True)


def test_steps_and_actions_of_a_workflow_have_routes_of_their_own(builds: Any, api_client: Any) -> None:
    parent, child = builds[0]
    ana = api_client("ana")
    whole = ana.get(f"/api/workflows/{parent.uuid}").json()["workflow"]
    steps = ana.get(f"/api/workflows/{parent.uuid}/steps").json()["steps"]
    assert [step["name"] for step in steps] == [
        "SelectDestinations", "CreateInCells", "HandOver", "ClaimDestination", "PlugNetworks", "SpawnOnHost",
        "MarkActive",
    ]  # fmt: skip
    assert {step["run_uuid"] for step in steps} == {str(parent.uuid), str(child.uuid)}
    assert all(step["host"] in ("", "host 1") for step in steps)
    assert (steps[-1]["name"], steps[-1]["state"]) == ("MarkActive", "planned")
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(state="failed (undone)", finished_at=factories.ago(0))
    assert ana.get(f"/api/workflows/{parent.uuid}/steps").json()["steps"][-1]["state"] == "not run"
    whole = ana.get(f"/api/workflows/{parent.uuid}").json()["workflow"]
    answer = ana.get(f"/api/workflows/{parent.uuid}/actions")
    assert answer.json() == {"revision": whole["revision"], "actions": whole["actions"]}
    assert answer.headers["ETag"] == f'"{whole["revision"]}"'
    for path in ("steps", "actions", "events"):
        codes = [api_client(who).get(f"/api/workflows/{parent.uuid}/{path}").status_code for who in (None, "chi")]
        assert codes == [401, 404]


def test_events_of_the_project_continue_after_a_cursor(builds: Any, api_client: Any) -> None:
    ana, chi, admin = (api_client(who) for who in ("ana", "chi", "admin"))
    here = ana.get("/api/events").json()
    assert here["events"] == []
    for (_, run), host in zip(builds, ("sim-1", "sim-2", "sim-3"), strict=True):
        factories.emit(run, "step.done", host=host, step="SpawnOnHost")
    path = f"/api/events?after={here['cursor']}"
    values = {who: client.get(path).json() for who, client in (("ana", ana), ("chi", chi), ("admin", admin))}
    assert {who: len(one["events"]) for who, one in values.items()} == {"ana": 2, "chi": 1, "admin": 3}
    assert [event["data"].get("host") for event in values["ana"]["events"]] == [None, None]  # hosts are the operator's
    assert {event["data"]["host"] for event in values["admin"]["events"]} == {"sim-1", "sim-2", "sim-3"}
    assert ana.get(f"/api/events?after={values['ana']['cursor']}").json()["events"] == []
    assert len(ana.get(f"{path}&topic=wf:{builds[1][1].uuid}").json()["events"]) == 1
    assert ana.get(f"{path}&kind=run.").json()["events"] == []


def test_locks_name_their_holders_and_waiters(builds: Any, people: Any, api_client: Any) -> None:
    run = builds[0][1]
    waiting = factories.run(people.bo.context(), "cell1", flow="delete_instance", action="delete", state="queued")
    foreign = factories.run(people.chi.context(), "cell1", flow="attach_volume", action="attach_volume")
    resource = f"instance:{run.instance_uuid}"
    LockWait.objects.using("cell1").create(resource=resource, run=waiting)
    LockWait.objects.using("cell1").create(resource=resource, run=foreign)
    factories.lock(run, "host:sim-1-01")
    ResourceLock.objects.create(
        resource=f"volume:{uuid4()}", holder_uuid=foreign.uuid, holder_alias="cell1", holder_action="attach_volume",
        granted_at=factories.ago(3),
    )  # fmt: skip
    own = api_client("ana").get("/api/locks").json()["locks"]
    assert {lock["kind"] for lock in own} == {"instance"}  # which host is whose is the operator's business
    assert len(own) == 2
    [lock] = api_client("ana").get(f"/api/locks?resource={resource}").json()["locks"]
    assert (lock["run_uuid"], lock["action"], lock["user_name"], lock["cell"]) == (
        str(run.uuid), "create", "ana", "cell1",
    )  # fmt: skip
    assert [(one["run_uuid"], one["action"]) for one in lock["waiters"]] == [(str(waiting.uuid), "delete"), ("", "")]
    [volume] = api_client("chi").get("/api/locks?kind=volume").json()["locks"]
    assert (volume["run_uuid"], volume["flow"], volume["cell"]) == (str(foreign.uuid), "attach_volume", "")
    everything, path = [], "/api/locks?limit=2"
    while path:
        body = api_client("admin").get(path).json()
        everything += [lock["resource"] for lock in body["locks"]]
        path = body.get("locks_links", [{"href": ""}])[0]["href"].removeprefix("http://testserver")
    assert everything == sorted(everything)
    assert len(set(everything)) == 5
    assert len(api_client("admin").get(f"/api/locks?run_uuid={run.uuid}").json()["locks"]) == 2


def test_hosts_are_the_operators(people: Any, api_client: Any) -> None:
    make_cloud(people)
    make_host("cell1", "sim-1-01")
    make_host("cell2", "sim-2-01", zone="az-2")
    body = api_client("admin").get("/api/hosts?limit=1").json()
    assert [host["service"]["host"] for host in body["hosts"]] == ["sim-1-01"]
    assert body["hosts"][0]["service"]["is_up"] is True
    second = api_client("admin").get(body["hosts_links"][0]["href"].removeprefix("http://testserver")).json()
    assert [(host["service"]["host"], host["service"]["cell"]) for host in second["hosts"]] == [("sim-2-01", "cell2")]
    assert [api_client(who).get("/api/hosts").status_code for who in (None, "ana")] == [401, 403]


def test_lists_cost_the_same_however_long_they_are(builds: Any, people: Any, api_client: Any) -> None:
    admin = api_client("admin")

    def cost(path: str) -> int:
        sums = 0
        with counted("default") as api, counted("cell1") as cell:
            assert admin.get(path).status_code == 200
            sums += len(api.statements) + len(cell.statements)
        return sums

    assert connections["cell1"].vendor
    paths = ("/api/workflows", "/api/locks", "/api/events?after=")
    before = [cost(path) for path in paths]
    factories.builds(people.ana.context(), [f"web-{number}" for number in range(5)])
    assert [cost(path) for path in paths] == before
