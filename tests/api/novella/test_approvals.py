"""Approvals over HTTP: listed for operators, approved or declined at the revision that was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from conductor.core.states import RunState
from conductor.identity.models import RoleAssignment
from conductor.journal.models import WorkflowRun
from tests import factories
from tests.api_client import ApiClient
from tests.fixtures.delegation import by_credential, credential_of, log_in

LIST = "/api/approvals"
ALIAS = "cell1"


@pytest.fixture
def run(people: Any, settings: Any) -> WorkflowRun:
    """A run that waits for an operator, where forced interventions need an approval; bo is the second operator."""
    settings.NOVELLA_SECOND_PERSON = True
    factories.cells()
    RoleAssignment.objects.create(user=people.bo.user, project=people.admin.project, role=people.admin.role)
    values = {"state": RunState.NEEDS_OPERATOR, "owner": None, "instance_name": "web-1"}
    return factories.run(people.ana.context(), ALIAS, **values)


def second(people: Any) -> ApiClient:
    """Return the other operator: bo in the admin project."""
    return ApiClient(replace(people.bo, project=people.admin.project).token())


def asked(run: WorkflowRun, client: Any) -> dict[str, Any]:
    body = {"reason": "its host is gone", "confirm": str(run.uuid)[:8]}
    answer = client.post(f"/api/workflows/{run.uuid}/force", body)
    assert answer.status_code == 202, answer.content
    (found,) = client.get(LIST).json()["approvals"]
    return dict(found)


def answer_of(found: dict[str, Any], word: str) -> str:
    return next(urlsplit(one["href"]).path for one in found["links"] if one["rel"] == word)


def test_a_second_operator_approves_the_seen_revision(run: WorkflowRun, people: Any, api_client: Any) -> None:
    admin, bo = api_client("admin"), second(people)
    assert admin.get(LIST).json()["approvals"] == []
    mine = asked(run, admin)
    assert (mine["run_uuid"], mine["instance_name"], mine["by"]) == (str(run.uuid), "web-1", "admin")
    assert (mine["intervention"], mine["title"], mine["reason"]) == ("force", "Force completion", "its host is gone")
    assert "Another operator must approve it" in mine["why_not"]
    own = admin.post(answer_of(mine, "agree"), {"reason": "sure"})
    assert own.status_code == 403
    (theirs,) = bo.get(LIST).json()["approvals"]
    assert theirs["why_not"] == ""
    stale = bo.post(answer_of(theirs, "agree"), {"reason": "I saw it"}, headers={"If-Match": '"0123456789abcdef"'})
    assert stale.status_code == 412
    seen = {"If-Match": f'"{theirs["revision"]}"'}
    assert bo.post(answer_of(theirs, "agree"), {"reason": "I saw it"}, headers=seen).status_code == 202
    assert bo.get(LIST).json()["approvals"] == []


def test_declined_and_expired_approvals_are_not_listed(run: WorkflowRun, people: Any, api_client: Any) -> None:
    admin, bo = api_client("admin"), second(people)
    found = asked(run, admin)
    assert bo.post(answer_of(found, "decline"), {"reason": "not yet"}).status_code == 202
    assert admin.get(LIST).json()["approvals"] == []
    asked(run, admin)
    rows = WorkflowRun.objects.using(ALIAS)
    kept = rows.get(pk=run.pk).approval
    rows.filter(pk=run.pk).update(approval={**(kept or {}), "until": "2020-01-31T12:00:00+00:00"})
    assert admin.get(LIST).json()["approvals"] == []


def handed_on(client: ApiClient, person: Any) -> ApiClient:
    """Return a client with an application credential of the person's, in the project of the client's token."""
    made = credential_of(client, person.user.id).json()["application_credential"]
    return ApiClient(log_in(by_credential(made)).headers["X-Subject-Token"])


def test_a_delegated_token_can_neither_request_nor_approve(run: WorkflowRun, people: Any, api_client: Any) -> None:
    """The holder of a delegated token could be the other operator."""
    admin, bo = api_client("admin"), second(people)
    robot = handed_on(bo, people.bo)
    body = {"reason": "its host is gone", "confirm": str(run.uuid)[:8]}
    refused = robot.post(f"/api/workflows/{run.uuid}/force", body)
    assert (refused.status_code, "needs two people" in refused.json()["error"]["message"]) == (403, True)
    found = asked(run, admin)
    (seen,) = robot.get(LIST).json()["approvals"]
    assert "needs two people" in seen["why_not"]
    assert robot.post(answer_of(found, "agree"), {"reason": "I saw it"}).status_code == 403
    assert admin.get(LIST).json()["approvals"] == [found]
    assert robot.post(answer_of(found, "decline"), {"reason": "not now"}).status_code == 202  # nothing happens then


def test_approvals_are_for_operators(run: WorkflowRun, api_client: Any) -> None:
    asked(run, api_client("admin"))
    assert {api_client(who).get(LIST).status_code for who in ("ana", "rea", "chi")} == {403}
