"""Proposals of plugin changes over HTTP: created, shown, applied to the seen versions, declined; and policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conductor.identity.models import RoleAssignment
from conductor.services.plugins import plugins
from conductor.services.plugins.plugins import PluginSettingsChange
from tests import factories
from tests.api_client import ApiClient
from tests.fixtures.delegation import by_credential, credential_of, log_in

PATH = "/api/what-if/proposals"
OFF = {"enabled": False}
REQUEST = {
    "plugins": {"filter": {"IoOpsFilter": OFF}, "weigher": {"RAMWeigher": {"multiplier": 3.0}}},
    "reason": "larger",
}


@pytest.fixture
def admin(people: Any, api_client: Any) -> Any:
    factories.cells()
    return api_client("admin")


def proposed(admin: Any, **body: Any) -> tuple[str, Any]:
    answer = admin.post(PATH, {**REQUEST, **body})
    assert answer.status_code == 201, answer.content
    made = answer.json()["proposal"]
    assert answer["Location"].endswith(f"{PATH}/{made['uuid']}")
    return f"{PATH}/{made['uuid']}", answer


def test_a_proposal_is_shown_and_applied_at_the_seen_version(admin: Any, people: Any) -> None:
    place, _ = proposed(admin, question="/what-if?flavor=1&off=filter%3AIoOpsFilter")
    seen = admin.get(place)
    found = seen.json()["proposal"]
    assert (found["state"], found["by"], found["question"][:9]) == ("open", "admin", "/what-if?")
    assert [(one["kind"], one["name"]) for one in found["differences"]] == [
        ("filter", "IoOpsFilter"),
        ("weigher", "RAMWeigher"),
    ]
    assert seen["ETag"] == '"filter:0,weigher:0"'
    assert admin.post(f"{place}/apply", {"reason": "yes"}).status_code == 428
    for text, status in (("seven", 400), ('"filter:0"', 412), ('"filter:7,weigher:0"', 412)):
        refused = admin.post(f"{place}/apply", {"reason": "yes"}, headers={"If-Match": text})
        assert refused.status_code == status, refused.content
    name = next(iter(admin.get("/api/plugins/filter").json()["plugins"]))["name"]
    requested = {name: PluginSettingsChange(mode="shadow", keys=frozenset({"mode"}))}
    plugins.change(people.admin.context(), "filter", plugins=requested)
    stale = admin.post(f"{place}/apply", {"reason": "yes"}, headers={"If-Match": seen["ETag"]})
    assert stale.status_code == 412, "the filters have changed since it was read"
    now = admin.get(place)["ETag"]
    done = admin.post(f"{place}/apply", {"reason": "yes"}, headers={"If-Match": now})
    assert (done.status_code, done.json()["proposal"]["state"], done.json()["proposal"]["answer"]) == (
        200,
        "applied",
        "yes",
    )
    chosen = {one["name"]: one["enabled"] for one in admin.get("/api/plugins/filter").json()["plugins"]}
    assert not chosen["IoOpsFilter"]
    again = admin.post(f"{place}/apply", {"reason": "yes"}, headers={"If-Match": "*"})
    assert (again.status_code, "applied by admin" in again.content.decode()) == (409, True)


def test_no_operator_applies_an_own_proposal_under_four_eyes(admin: Any, settings: Any) -> None:
    settings.NOVELLA_SECOND_PERSON = True
    place, answer = proposed(admin)
    assert "Another operator" in answer.json()["proposal"]["why_not"]
    assert admin.post(f"{place}/apply", {"reason": "yes"}, headers={"If-Match": "*"}).status_code == 409
    declined = admin.post(f"{place}/decline", {"reason": "not now"}).json()["proposal"]
    assert (declined["state"], declined["decided_by"], declined["differences"]) == ("declined", "admin", [])


def test_lists_are_by_state_and_for_operators(admin: Any, api_client: Any) -> None:
    place, _ = proposed(admin, reason="first")
    proposed(admin, reason="second")
    admin.post(f"{place}/decline", {"reason": "no"})
    assert [one["reason"] for one in admin.get(PATH).json()["proposals"]] == ["second", "first"]
    assert [one["reason"] for one in admin.get(f"{PATH}?state=declined").json()["proposals"]] == ["first"]
    assert admin.get(f"{PATH}?state=odd").status_code == 400
    for who in ("ana", "rea"):
        client = api_client(who)
        assert {client.get(PATH).status_code, client.get(place).status_code} == {403}
        assert client.post(PATH, REQUEST).status_code == 403


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"plugins": {}}, "nothing to propose"),
        ({"plugins": {"filter": {"Moon": OFF}}}, "Moon"),
        ({"plugins": {"driver": {"fake": OFF}}}, "plugins"),
        ({"reason": " "}, "reason"),
        ({"question": "javascript:alert(1)"}, "question"),
        ({"question": "//evil.example/what-if"}, "question"),
    ],
)
def test_invalid_proposals_are_refused_by_name(admin: Any, body: dict[str, Any], named: str) -> None:
    answer = admin.post(PATH, {**REQUEST, **body})
    assert (answer.status_code, named in answer.json()["error"]["message"]) == (400, True), answer.content
    assert admin.get(PATH).json()["proposals"] == []


def test_a_delegated_token_can_neither_propose_nor_apply(admin: Any, people: Any, settings: Any) -> None:
    place, _ = proposed(admin)
    settings.NOVELLA_SECOND_PERSON = True
    RoleAssignment.objects.create(user=people.bo.user, project=people.admin.project, role=people.admin.role)
    bo = ApiClient(replace(people.bo, project=people.admin.project).token())
    made = credential_of(bo, people.bo.user.id).json()["application_credential"]
    robot = ApiClient(log_in(by_credential(made)).headers["X-Subject-Token"])
    assert robot.post(PATH, REQUEST).status_code == 403
    seen = {"If-Match": robot.get(place)["ETag"]}
    assert robot.post(f"{place}/apply", {"reason": "yes"}, headers=seen).status_code == 409
    assert bo.post(f"{place}/apply", {"reason": "yes"}, headers=seen).status_code == 200
