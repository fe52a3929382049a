"""Cells over HTTP: asking one, closing it to new servers, and opening it again."""

from __future__ import annotations

from typing import Any

from conductor.api_db.models import CellMapping
from conductor.journal.models import AuditRecord, Event
from tests import factories
from tests import fleet as made


def test_a_cell_is_asked_closed_and_opened_on_record(api_client: Any) -> None:
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
    assert "1 of 2 compute hosts are not heard." in cell["troubles"]

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
    told = Event.objects.filter(topic="cell:cell1").order_by("pk")
    assert [one.data for one in told] == [{"is_disabled": True}, {"is_disabled": False}]


def test_what_is_refused_closes_nothing(api_client: Any) -> None:
    factories.cells()
    for who, path, body, status in (
        ("ana", "cell1/close", {"reason": "new racks"}, 403),
        ("admin", "cell1/close", {"reason": " "}, 400),
        ("admin", "cell1/close", {}, 400),
        ("admin", "cell1/open", {"reason": "new racks"}, 409),
        ("admin", "cell0/close", {"reason": "new racks"}, 409),
        ("admin", "moon/close", {"reason": "new racks"}, 404),
    ):
        answer = api_client(who).post(f"/api/cells/{path}", body)
        assert answer.status_code == status, (who, path, answer.content)
    assert api_client("admin").get("/api/cells/moon").status_code == 404
    assert not CellMapping.objects.filter(is_disabled=True).exists()
