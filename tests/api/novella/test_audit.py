"""The audit log over HTTP: visibility, filters, pages, and refusals."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from conductor.core.errors import Conflict
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord
from conductor.services.audit import audit, operator_audit
from conductor.services.audit import seals as audit_seals
from tests import factories


@pytest.fixture(autouse=True)
def _cells(people: Any) -> None:
    factories.cells()


def refuse(person: Any, action: str = "reboot", instance_uuid: str = "") -> None:
    audit.record_refusal(person.context(), action, instance_uuid or str(uuid4()), Conflict("It is locked."))


def test_a_refused_action_is_on_record(people: Any, api_client: Any) -> None:
    instance_uuid = str(uuid4())
    refuse(people.ana, "reboot", instance_uuid)
    (record,) = api_client("ana").get("/api/audit").json()["records"]
    assert record["action"] == "server.reboot"
    assert record["result"] == "refused"
    assert record["error"] == {"class": "Conflict", "message": "It is locked."}
    assert (record["user_name"], record["instance_uuid"]) == ("ana", instance_uuid)
    assert record["request_id"].startswith("req-")


def test_members_see_their_own_project_and_administrators_all(people: Any, api_client: Any) -> None:
    refuse(people.ana)
    refuse(people.chi, "stop")
    names = {
        who: [record["user_name"] for record in api_client(who).get("/api/audit?result=refused").json()["records"]]
        for who in people
    }
    assert names == {"admin": ["chi", "ana"], "ana": ["ana"], "bo": ["ana"], "rea": ["ana"], "chi": ["chi"]}


def test_the_audit_log_needs_a_token(api_client: Any) -> None:
    assert api_client(None).get("/api/audit").status_code == 401


def test_filters_narrow(people: Any, api_client: Any) -> None:
    refuse(people.ana, "reboot")
    refuse(people.bo, "stop")
    admin = api_client("admin")

    def actions(query: str) -> list[str]:
        return [record["action"] for record in admin.get(f"/api/audit?{query}").json()["records"]]

    assert actions("action=server.stop") == ["server.stop"]
    assert actions(f"user_id={people.ana.user.id}") == ["server.reboot"]
    assert actions("result=done") == ["audit.read"], "that the administrator looked"
    assert actions("since=2999-01-01T00:00:00Z") == []
    assert len(actions("since=2001-01-01")) == 3


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("colour=red", "colour"),
        ("result=maybe", "maybe"),
        ("run_uuid=seven", "seven"),
        ("since=yesterday", "yesterday"),
        ("marker=seven", "seven"),
        ("limit=-1", "limit"),
    ],
)
def test_an_unknown_query_parameter_is_refused_by_name(api_client: Any, query: str, named: str) -> None:
    answer = api_client("admin").get(f"/api/audit?{query}")
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


def test_pages_hold_every_record_once_across_databases(people: Any, api_client: Any) -> None:
    for number in range(3):
        refuse(people.ana, f"a{number}")
        with write_tx("cell1"):
            audit.record("cell1", people.ana.context(), audit.AuditEntry(action=f"b{number}", project_id=""))
    client, path, seen = api_client("admin"), "/api/audit?limit=2", []
    while path:
        body = client.get(path).json()
        seen += [record["action"] for record in body["records"]]
        link = urlsplit(body["records_links"][0]["href"]) if "records_links" in body else None
        path = f"{link.path}?{link.query}" if link else ""
        assert len(seen) <= 6
    assert sorted(seen) == ["b0", "b1", "b2", "server.a0", "server.a1", "server.a2"]


def test_reading_the_audit_log_is_audited_once_in_a_while_with_its_filters(people: Any, api_client: Any) -> None:
    refuse(people.ana)
    for _ in range(2):
        api_client("bo").get("/api/audit?result=refused")
    (read,) = api_client("ana").get("/api/audit?action=audit.read").json()["records"]
    assert (read["user_name"], read["project_id"]) == ("bo", people.bo.context().project_id)
    (mine,) = AuditRecord.objects.filter(action="audit.read", user_name="bo")
    assert mine.details == {"via": "api", "narrowed": {"result": "refused"}}
    AuditRecord.objects.filter(pk=mine.pk).update(created_at=factories.ago(operator_audit.ONCE_IN_SECONDS + 1))
    api_client("bo").get("/api/audit")
    assert AuditRecord.objects.filter(action="audit.read", user_name="bo").count() == 2


def test_seals_are_for_operators_and_name_each_database(people: Any, api_client: Any) -> None:
    refuse(people.ana)
    audit_seals.seal("default")
    assert api_client("ana").get("/api/audit/seals").status_code == 403
    seals = api_client("admin").get("/api/audit/seals").json()["seals"]
    assert [one["database"] for one in seals] == ["default", "cell0", "cell1", "cell2"]
    (record,) = api_client("ana").get("/api/audit?result=refused").json()["records"]
    assert (seals[0]["sealed"], seals[0]["digest"]) == (1, record["digest"])
    assert (record["database"], record["seal"], seals[1]["begun_at"]) == ("default", 1, None)


def test_the_marker_of_another_project_is_unknown(people: Any, api_client: Any) -> None:
    refuse(people.chi)
    marker = AuditRecord.objects.get().uuid
    assert api_client("ana").get(f"/api/audit?marker={marker}").status_code == 400


def test_an_error_that_is_not_ours_says_only_its_class(people: Any, api_client: Any) -> None:
    with write_tx("default"):
        entry = audit.AuditEntry(action="x", project_id="", error=RuntimeError("/secret/path"))
        audit.record("default", people.admin.context(), entry)
    assert "/secret/path" not in api_client("admin").get("/api/audit").content.decode()
