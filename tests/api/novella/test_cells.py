"""Cells over HTTP: asking one, closing it to new servers, and opening it again."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Q

from conductor.api_db.models import CellMapping
from conductor.cells import quarantine
from conductor.journal.models import AuditRecord, Event, WorkflowRun
from conductor.services.cells import actions as cell_actions
from conductor.workflows.engine import executor, leases
from tests import factories
from tests import fleet as made
from tests.compute_rows import make_cloud, make_instance
from tests.integration.page_clients import signed_in


def test_a_cell_is_checked_closed_and_opened_and_each_is_audited(api_client: Any) -> None:
    factories.cells()
    made.add_host("sim-1")
    made.add_host("sim-2")
    made.silence("sim-2")
    admin = api_client("admin")
    listed = admin.get("/api/cells").json()
    assert [one["name"] for one in listed["cells"]] == ["cell0", "cell1", "cell2"]
    cell = admin.get("/api/cells/cell1").json()["cell"]
    assert (cell["is_up"], cell["computes"], cell["computes_up"], cell["is_disabled"]) == (True, 2, 1, False)
    assert cell["answered_ms"] > 0
    assert "1 of 2 compute hosts are down." in cell["troubles"]

    closed = admin.post("/api/cells/cell1/close", {"reason": "new racks"}).json()["cell"]
    assert (closed["is_disabled"], closed["disabled_reason"]) == (True, "new racks")
    assert admin.post("/api/cells/cell1/close", {"reason": "again"}).status_code == 409
    assert admin.get("/api/cells/cell1").json()["cell"]["disabled_reason"] == "new racks"
    opened = admin.post("/api/cells/cell1/open", {"reason": "racks are in"}).json()["cell"]
    assert (opened["is_disabled"], opened["disabled_reason"]) == (False, "")

    kept = AuditRecord.objects.filter(action__startswith="cell.").order_by("pk")
    assert list(kept.values_list("action", "result", "reason")) == [
        ("cell.close", "done", "new racks"),
        ("cell.close", "refused", "again"),
        ("cell.open", "done", "racks are in"),
    ]
    rows = Event.objects.filter(topic="cell:cell1").order_by("pk")
    assert [one.data for one in rows] == [{"is_disabled": True}, {"is_disabled": False}]


def test_a_quarantined_cell_is_unreachable_until_the_quarantine_is_lifted(
    api_client: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read, changed or started there; waiting work continues afterwards."""
    make_cloud(people)
    ana, admin, mine = people.ana.context(), api_client("admin"), api_client("ana", version="2.90")
    there, lost = make_instance(ana, "cell1", "there"), make_instance(ana, "cell2", "lost")
    made.add_host("one", "cell1")
    assert admin.post("/api/cells/cell2/quarantine", {"reason": "it answers nonsense"}).status_code == 200
    cell = admin.get("/api/cells/cell2").json()["cell"]
    assert (cell["is_up"], cell["is_quarantined"], cell["quarantined_by"], cell["quarantine_reason"]) == (
        True,
        True,
        "admin",
        "it answers nonsense",
    )
    assert "Quarantined by admin: it answers nonsense." in cell["troubles"][0]

    servers = {one["id"]: one["status"] for one in mine.get("/compute/v2.1/servers/detail").json()["servers"]}
    assert servers == {str(there.uuid): "ACTIVE", str(lost.uuid): "UNKNOWN"}
    assert mine.post(f"/compute/v2.1/servers/{lost.uuid}/action", {"os-stop": None}).status_code == 503
    assert mine.put(f"/compute/v2.1/servers/{lost.uuid}", {"server": {"name": "new"}}).status_code == 503
    assert not WorkflowRun.objects.using("cell2").exists()
    assert mine.delete(f"/compute/v2.1/servers/{lost.uuid}").status_code == 204
    assert WorkflowRun.objects.using("default").filter(flow="delete_when_cell_is_back").count() == 1
    quarantine.forget()
    quarantine.look()
    assert quarantine.holds("cell2"), "another process sees it too"
    assert admin.post("/api/cells/cell2/quarantine", {"reason": "again"}).status_code == 409
    assert admin.post("/api/cells/cell2/lift", {"reason": "mended"}).status_code == 200
    assert admin.get("/api/hosts").json()["missing_cells"] == {}
    assert mine.put(f"/compute/v2.1/servers/{lost.uuid}", {"server": {"name": "new"}}).status_code == 200
    actions = AuditRecord.objects.filter(action__startswith="cell.").order_by("pk").values_list("action", "result")
    assert list(actions) == [("cell.quarantine", "done"), ("cell.quarantine", "refused"), ("cell.lift", "done")]


def test_lists_name_a_quarantined_cell_as_missing(api_client: Any, people: Any) -> None:
    cloud, admin = make_cloud(people), api_client("admin")
    made.add_host("one", "cell1")
    made.add_host("two", "cell2", size=(64, 65536, 1000))
    cell_actions.execute(people.admin.context(), "cell2", "quarantine", reason="it answers nonsense")
    listed = admin.get("/api/hosts").json()
    assert ([one["node"] for one in listed["hosts"]], listed["missing_cells"]) == (
        ["one"],
        {"cell2": "it is in quarantine"},
    )
    image = {"flavor": "1", "image": str(cloud.image.uuid)}
    fit = admin.post("/api/what-if/launch", image).json()["fit"]
    assert (fit["hosts"], fit["advice"][-1]) == (
        ["one"],
        "Cell cell2 is in quarantine: its hosts were not considered.",
    )
    words = signed_in("admin").get("/hosts").content.decode(), signed_in("ana").get("/servers").content.decode()
    assert "cell2 quarantined by admin because: it answers nonsense" in words[0]
    assert "cell2 is in quarantine; everything else is shown." in words[1]
    assert "nonsense" not in words[1], "the operator's words are not for tenants"


def test_workflows_in_a_quarantined_cell_continue_and_none_begins(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    factories.cells()
    ana = people.ana.context()
    cell_actions.execute(people.admin.context(), "cell2", "quarantine", reason="it answers nonsense")
    begun, fresh = (factories.run(ana, "cell2", flow="start_instance", flow_version=n) for n in (1, 0))
    worked: list[str] = []
    monkeypatch.setattr(executor, "_work_on", lambda alias, run_uuid: worked.append(str(run_uuid)))
    places = {run.uuid: leases.NextStep(run.flow, run.flow_version, 0, is_ordinary=True) for run in (begun, fresh)}
    monkeypatch.setattr(leases, "next_step_if_due", lambda alias, run_uuid: places[run_uuid])
    for run in (begun, fresh):
        executor.run("cell2", run.uuid)
    assert worked == [str(begun.uuid)]
    cell_actions.execute(people.admin.context(), "cell2", "lift", reason="mended")
    executor.run("cell2", fresh.uuid)
    assert worked[-1] == str(fresh.uuid)


def test_the_quarantine_of_a_cell_is_read_again_regularly(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
    factories.cells()
    monkeypatch.setattr(quarantine, "LOOK_EVERY_SECONDS", 0.0)
    quarantine.look()
    CellMapping.objects.filter(name="cell1").update(quarantined_at=factories.ago(0))
    assert (quarantine.holds("cell1"), quarantine.holds("cell2")) == (True, False)
    CellMapping.objects.update(quarantined_at=None)
    assert not quarantine.holds("cell1")


def test_refused_requests_close_no_cell(api_client: Any) -> None:
    factories.cells()
    for who, path, body, status in (
        ("ana", "cell1/close", {"reason": "new racks"}, 403),
        ("admin", "cell1/close", {"reason": " "}, 400),
        ("admin", "cell1/close", {}, 400),
        ("admin", "cell1/open", {"reason": "new racks"}, 409),
        ("admin", "cell0/close", {"reason": "new racks"}, 409),
        ("admin", "moon/close", {"reason": "new racks"}, 404),
        ("ana", "cell1/quarantine", {"reason": "new racks"}, 403),
        ("admin", "cell1/quarantine", {"reason": " "}, 400),
        ("admin", "cell0/quarantine", {"reason": "new racks"}, 409),
        ("admin", "cell1/lift", {"reason": "new racks"}, 409),
    ):
        answer = api_client(who).post(f"/api/cells/{path}", body)
        assert answer.status_code == status, (who, path, answer.content)
    assert api_client("admin").get("/api/cells/moon").status_code == 404
    assert not CellMapping.objects.filter(Q(is_disabled=True) | Q(quarantined_at__isnull=False)).exists()
