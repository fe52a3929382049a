"""Cells and the audit log as operators see them, without a browser."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from conductor.api_db.models import CellMapping
from conductor.cell_db.models import Service
from conductor.core.errors import Conflict
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.cells import health
from tests import factories
from tests import fleet as made
from tests.fixtures.page_text import text
from tests.integration.page_clients import signed_in


@pytest.fixture
def admin(people: Any) -> Client:
    factories.cells()
    return signed_in("admin")


def record(caller: Any, action: str, alias: str = "default", *, age: float = 0, **values: Any) -> None:
    with write_tx(alias):
        audit.record(alias, caller, AuditEntry(action=action, project_id=caller.project_id, **values))
        if age:
            AuditRecord.objects.using(alias).filter(action=action).update(created_at=factories.ago(age))


def test_others_get_404(people: Any) -> None:
    ana = signed_in("ana")
    assert [ana.get(path).status_code for path in ("/cells", "/audit", "/audit.csv")] == [404, 404, 404]
    assert ana.post("/cells/cell1/do/close", {"reason": "new racks"}).status_code == 404
    assert not CellMapping.objects.filter(is_disabled=True).exists()


def test_cells_say_what_is_up_and_what_waits(admin: Client, people: Any) -> None:
    made.add_host("sim-1")
    made.add_host("sim-2")
    made.silence("sim-2")
    times = {"last_seen_at": factories.ago(0), "created_at": factories.ago(9)}
    Service.objects.using("cell1").create(binary="nova-conductor", host="conductor-1", version=1, **times)
    factories.run(people.ana.context(), "cell1", state="queued", age=90)
    factories.run(people.ana.context(), "cell1", state="needs operator")
    factories.instance(people.ana.context(), "web-1", vm_state="error")
    page = text(admin.get("/cells"))
    assert "3 cells; none down; 2 need attention." in page  # cell2 has no conductor
    assert "1 of 2 compute hosts are down." in page
    assert re.search("1 not started, oldest: 1 min [3-5][0-9] s", page)
    assert "1 workflow needs an operator." in page
    assert "1, 1 in error" in page
    assert "The cell has no running conductor" in page


def test_a_cell_whose_clock_is_off_is_named(admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = health.database_time
    late = {"cell1": timedelta(minutes=7)}
    monkeypatch.setattr(health, "database_time", lambda alias: real(alias) - late.get(alias, timedelta()))
    found = {one.name: one for one in health.survey(people.admin.context()).cells}
    assert round(found["cell1"].clock_seconds / 60) == -7
    assert not [one for one in found["cell0"].troubles if "clock" in one]
    assert "The clock of the cell&#x27;s database is off by -4" in admin.get("/cells").content.decode()


def test_a_cell_that_is_down_says_what_users_see(admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.add_host("sim-1")
    factories.instance(people.ana.context(), "web-1")
    look = health._look

    def unplugged(alias: str) -> Any:
        if alias == "cell1":
            raise DatabaseError("the line is cut")
        return look(alias)

    monkeypatch.setattr(health, "_look", unplugged)
    page = text(admin.get("/cells"))
    assert "3 cells; 1 down" in page
    assert "the line is cut" in page
    assert "1 servers are listed as UNKNOWN" in page


def test_a_cell_is_closed_with_a_reason_and_opened_again(admin: Client) -> None:
    form = text(admin.get("/cells/cell1/do/close"))
    assert "Disable?" in form
    assert "no server is placed there" in form
    assert admin.post("/cells/cell1/do/close", {"reason": " "}).status_code == 400
    page = text(admin.post("/cells/cell1/do/close", {"reason": "new racks"}, follow=True))
    assert '<div class="note" data-tone="good" role="status"><p>cell1 takes no new servers.' in page
    assert "new racks" in page
    assert 'href="/cells/cell1/do/open"' in page
    assert 'href="/cells/cell1/do/close"' not in page
    again = admin.post("/cells/cell1/do/close", {"reason": "new racks"})
    assert (again.status_code, "The cell is already closed." in text(again)) == (409, True)
    assert "cell1 takes new servers again." in text(
        admin.post("/cells/cell1/do/open", {"reason": "racks are in"}, follow=True)
    )
    assert "cell.open" in text(admin.get("/audit"))
    assert [admin.get(f"/cells/{path}").status_code for path in ("moon/do/close", "cell1/do/melt")] == [404, 404]


def test_a_test_call_says_what_the_cell_answered(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made.add_host("sim-1")
    page = text(admin.post("/cells/cell1/test", follow=True))
    assert re.search(r"The database of cell1 responded within [0-9.]+ ms. Up: 0 of 0 conductors, 1 of 1", page)

    def unplugged(alias: str) -> Any:
        raise DatabaseError("the line is cut")

    monkeypatch.setattr(health, "_look", unplugged)
    assert "The database of cell1 doesn&#x27;t respond: DatabaseError: the line is cut" in text(
        admin.post("/cells/cell1/test", follow=True)
    )


def test_the_audit_log_is_narrowed_by_its_address(admin: Client, people: Any) -> None:
    record(people.ana.context(), "workflow.cancel", "cell1", reason="too slow")
    record(
        people.chi.context(), "host.close", error=Conflict("Scheduling is already disabled."), details={"host": "sim-1"}
    )
    page = text(admin.get("/audit"))
    assert "workflow.cancel" in page
    assert "too slow" in page
    assert "Scheduling is already disabled." in page
    assert 'href="/hosts/sim-1"' in page
    refused = text(admin.get("/audit?result=refused"))
    assert "host.close" in refused
    assert "too slow" not in refused
    assert "No records match this filter." in text(admin.get("/audit?action=none"))
    for query, reported in (
        ("result=maybe", "one of done, refused"),
        ("span=year", "one of hour, day, week"),
        ("run_uuid=x", "is not a UUID"),
        ("marker=x", "could not be found"),
    ):
        answer = admin.get(f"/audit?{query}")
        assert (answer.status_code, reported in text(answer)) == (400, True), query
    assert admin.get("/audit.csv?result=maybe").status_code == 400


def test_the_file_has_every_record_and_no_formula(admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.pages.audit.audit_log.ROWS_PER_READ", 2)
    AuditRecord.objects.all().delete()  # of the sign-in
    for number in range(5):
        record(people.ana.context(), f"host.close{number}", age=number, reason="=1+1")
    answer = admin.get("/audit.csv")
    rows = list(csv.DictReader(StringIO(text(answer))))
    assert answer["Content-Type"].startswith("text/csv")
    assert [row["action"] for row in rows] == [f"host.close{number}" for number in range(5)]
    assert {row["reason"] for row in rows} == {"'=1+1"}
    assert [row.action for row in AuditRecord.objects.order_by("pk")][5:] == ["audit.export"]


def test_the_audit_log_is_read_page_by_page(admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.pages.audit.audit_log.ROWS_PER_PAGE", 2)
    for number in range(3):
        record(people.ana.context(), f"step-{number}", age=number)
    first = admin.get("/audit")
    assert "2 records on this page" in text(first)
    assert "step-2" not in text(first)
    assert "step-2" in text(admin.get(first.context["next_url"]))
