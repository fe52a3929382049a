"""Interventions over HTTP: bodies, policies, revisions, and the permitted ones in GET."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.interventions import ANSWERS, INTERVENTIONS
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.rpc import outbox
from tests import factories
from tests.integration.interventions import snapshot

ALIAS = "cell1"
BODY = {"reason": "a test", "step": "x", "confirm": "x", "mark": "forced"}


@pytest.fixture
def run(people: Any) -> WorkflowRun:
    factories.cells()
    with write_tx(ALIAS):
        wanted = outbox.NewRun(
            flow="build_in_cell", action="create", context=people.ana.context(), resources=["thing:1"]
        )
        return outbox.open_run(ALIAS, wanted)


def path(run: WorkflowRun, name: str = "") -> str:
    return f"/api/workflows/{run.uuid}" + (f"/{name}" if name else "")


def body_of(name: str) -> dict[str, str]:
    needs = next(one.needs for one in INTERVENTIONS if one.id == name)
    return {field: BODY[field] for field in needs}


def test_a_member_cancels_and_it_is_on_record(run: WorkflowRun, api_client: Any) -> None:
    answer = api_client("bo").post(path(run, "cancel"), {"reason": "not wanted"})
    assert answer.status_code == 202
    workflow = answer.json()["workflow"]
    assert workflow["is_cancel_requested"] is True
    assert workflow["uuid"] == str(run.uuid)
    (record,) = api_client("ana").get(f"/api/audit?run_uuid={run.uuid}").json()["records"]
    assert (record["action"], record["result"], record["user_name"]) == ("workflow.cancel", "done", "bo")
    assert (record["on_behalf_of"], record["reason"]) == ("ana", "not wanted")
    assert AuditRecord.objects.using(ALIAS).get().remote_address == "127.0.0.1"


def test_permitted_actions_are_listed_with_reasons(run: WorkflowRun, api_client: Any) -> None:
    shown = {who: api_client(who).get(path(run)).json()["workflow"] for who in ("ana", "admin", "rea")}
    offered = [one.id for one in INTERVENTIONS if one.id not in ANSWERS]  # no approval is pending
    assert [action["id"] for action in shown["ana"]["actions"]] == offered
    enabled = {who: {a["id"] for a in one["actions"] if a["enabled"]} for who, one in shown.items()}
    assert enabled == {"ana": {"cancel"}, "admin": {"cancel"}, "rea": set()}
    assert all(action["enabled"] or action["why_not"] for one in shown.values() for action in one["actions"])
    assert shown["ana"]["revision"] == shown["admin"]["revision"]


@pytest.mark.parametrize("name", [one.id for one in INTERVENTIONS])
def test_anonymous_users_readers_and_other_projects_change_nothing(
    run: WorkflowRun, api_client: Any, name: str
) -> None:
    before = snapshot()
    codes = [api_client(who).post(path(run, name), body_of(name)).status_code for who in (None, "rea", "chi")]
    assert codes == [401, 403, 404]
    assert snapshot() == before


@pytest.mark.parametrize("name", [one.id for one in INTERVENTIONS if one.role != "member"])
def test_interventions_of_administrators_are_refused_to_members(run: WorkflowRun, api_client: Any, name: str) -> None:
    before = snapshot()
    answer = api_client("ana").post(path(run, name), body_of(name))
    assert answer.status_code == 403
    assert snapshot() == before
    assert AuditRecord.objects.using(ALIAS).get().result == "refused"


@pytest.mark.parametrize("name", [one.id for one in INTERVENTIONS if one.id != "cancel"])
def test_unavailable_interventions_give_the_reason(run: WorkflowRun, api_client: Any, name: str) -> None:
    before = snapshot()
    answer = api_client("admin").post(path(run, name), body_of(name))
    assert answer.status_code == 409
    message = answer.json()["error"]["message"]
    assert str(run.uuid) in message
    assert message.endswith(".")
    assert snapshot() == before


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "reason"),
        ({"reason": ""}, "reason"),
        ({"reason": "   "}, "reason"),
        ({"reason": 7}, "reason"),
        ({"reason": "x" * 256}, "reason"),
        ({"reason": "x", "colour": "red"}, "colour"),
        ([], "object"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_by_name(run: WorkflowRun, api_client: Any, body: Any, named: str) -> None:
    before = snapshot()
    answer = api_client("ana").post(path(run, "cancel"), body)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]
    assert snapshot() == before


def test_a_revision_that_was_left_behind_is_refused(run: WorkflowRun, api_client: Any) -> None:
    ana = api_client("ana")
    seen = ana.get(path(run)).headers["ETag"]
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(attempt=2)
    before = snapshot()
    assert ana.post(path(run, "cancel"), {"reason": "x"}, headers={"If-Match": seen}).status_code == 412
    assert ana.post(path(run, "cancel"), {"reason": "x"}, headers={"If-Match": "seven"}).status_code == 400
    assert snapshot() == before
    now = ana.get(path(run)).headers["ETag"]
    assert ana.post(path(run, "cancel"), {"reason": "x"}, headers={"If-Match": now}).status_code == 202


def test_a_portal_session_does_not_authenticate_the_api(run: WorkflowRun) -> None:
    from django.test import Client

    from tests.people import PASSWORD

    browser = Client()
    browser.post("/sign-in", {"username": "ana", "password": PASSWORD})
    answer = browser.post(path(run, "cancel"), {"reason": "x"}, content_type="application/json")
    assert answer.status_code == 401
