"""Attacks on hidden resources: they look the same as missing ones, and blobs are visible only to their owners."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.identity import tokens
from conductor.identity.models import Domain, Project
from conductor.identity.tokens import UNSCOPED, Origin
from tests.api.attacks.scopes import IDENTITY, client_for, give, group_of, home_of, role_id, user, with_role
from tests.api_client import ApiClient
from tests.people import People

MISSING = "9" * 32


def _callers(people: People) -> dict[str, ApiClient]:
    """Clients that see nothing of the domain `south`."""
    home = home_of(people)
    return {
        "unscoped": ApiClient(tokens.issue_for(people.bo.user, UNSCOPED, Origin(["password"]))[0]),
        "member": ApiClient(people.bo.token()),
        "manager": with_role("mia", "manager", home, home)[1],
        "project_admin": with_role("dora", "admin", people.ana.project, home)[1],
    }


def _requests(person: str, group: str, project: str, domain: str, own: str) -> list[tuple[Any, ...]]:
    """Requests about things that the callers do not see; `own` is a user that a manager sees."""
    member = role_id("member")
    return [
        *((method, f"users/{person}") for method in ("GET", "DELETE")),
        ("PATCH", f"users/{person}", {"user": {"email": "x@example.org"}}),
        *(("GET", f"users/{person}/{noun}") for noun in ("projects", "groups", "application_credentials")),
        ("GET", f"users/{person}/credentials/OS-EC2"),
        *((method, f"groups/{group}") for method in ("GET", "DELETE")),
        ("GET", f"groups/{group}/users"),
        ("PUT", f"groups/{group}/users/{own}"),
        *((method, f"projects/{project}") for method in ("GET", "DELETE")),
        ("GET", f"projects/{project}/tags"),
        ("GET", f"domains/{domain}"),
        ("PATCH", f"domains/{domain}", {"domain": {"name": "x"}}),
        *((method, f"projects/{project}/users/{own}/roles/{member}") for method in ("GET", "PUT", "DELETE")),
        *((method, f"projects/{project}/users/{person}/roles/{member}") for method in ("GET", "PUT", "DELETE")),
        ("GET", f"domains/{domain}/groups/{group}/roles"),
        ("GET", f"role_assignments?scope.project.id={project}"),
        ("GET", f"role_assignments?scope.project.id={project}&effective"),
        ("GET", f"role_assignments?scope.domain.id={domain}&user.id={person}"),
        ("GET", f"users?domain_id={domain}"),
        ("POST", "users", {"user": {"name": "x", "domain_id": domain}}),
        ("POST", "projects", {"project": {"name": "x", "parent_id": project}}),
    ]


def _answers(client: ApiClient, requests: list[tuple[Any, ...]], ids: tuple[str, ...]) -> list[tuple[int, str]]:
    found = []
    for method, path, *body in requests:
        answer = client.call(method, f"{IDENTITY}/{path}", *body)
        text = answer.content.decode()
        for one in ids:
            text = text.replace(one, MISSING)
        found.append((answer.status_code, text))
    return found


def test_hidden_resources_get_the_same_answer_as_missing_ones(people: People) -> None:
    south = Domain.objects.create(name="south")
    far = Project.objects.create(name="far", domain=south)
    eve = user("eve", south)
    staff = group_of("staff", south, eve)
    ids = (eve.pk, staff.pk, far.pk, south.pk)
    own = people.ana.user.pk
    for name, client in _callers(people).items():
        hidden = _requests(eve.pk, staff.pk, far.pk, south.pk, own)
        missing = _requests(MISSING, MISSING, MISSING, MISSING, own)
        for request, seen, unseen in zip(
            missing, _answers(client, hidden, ids), _answers(client, missing, ids), strict=True
        ):
            assert seen == unseen, (name, request)
            assert seen[0] in (403, 404), (name, request)
    assert list(Project.objects.filter(domain=south)) == [far]


def test_the_own_assignments_on_a_hidden_project_look_like_those_on_a_missing_one(people: People) -> None:
    far = Project.objects.create(name="far", domain=Domain.objects.create(name="south"))
    bo = ApiClient(people.bo.token())
    for flag in ("", "&effective"):
        requested = f"{IDENTITY}/role_assignments?user.id={people.bo.user.pk}{flag}&scope.project.id="
        found: list[Any] = [bo.get(f"{requested}{one}") for one in (far.pk, MISSING)]
        assert [(one.status_code, one.json()["role_assignments"]) for one in found] == [(200, []), (200, [])]


@pytest.mark.parametrize("scope", ["system_reader", "system_admin", "admin_project"])
def test_a_blob_is_for_its_owner_alone(scope: str, people: People) -> None:
    ana = ApiClient(people.ana.token())
    body = {"credential": {"type": "cert", "blob": "a-secret-of-ana", "user_id": people.ana.user.pk}}
    made: Any = ana.post(f"{IDENTITY}/credentials", body)
    pair: Any = ana.post(
        f"{IDENTITY}/users/{people.ana.user.pk}/credentials/OS-EC2", {"tenant_id": people.ana.project.pk}
    )
    assert (made.status_code, pair.status_code) == (201, 201)
    secret = pair.json()["credential"]["secret"]
    path = f"{IDENTITY}/credentials/{made.json()['credential']['id']}"
    pairs = f"{IDENTITY}/users/{people.ana.user.pk}/credentials/OS-EC2"
    attacker = people.admin.user
    if scope != "admin_project":
        attacker = user("eve", home_of(people))
        give(attacker, scope.partition("_")[2], None)
    client = client_for(attacker, people.admin.project if scope == "admin_project" else None)
    paths = (path, f"{IDENTITY}/credentials", pairs, f"{pairs}/{pair.json()['credential']['access']}")
    for one in paths:
        answer = client.get(one)
        assert answer.status_code == 200
        assert b"a-secret-of-ana" not in answer.content
        assert secret not in answer.content.decode()
        theirs = ana.get(one).content.decode()
        assert "a-secret-of-ana" in theirs or secret in theirs
    shown: Any = client.get(path)
    assert shown.json()["credential"]["blob"] is None


def test_an_administrator_sees_the_blob_that_they_give(people: People) -> None:
    """Clients that create or change a credential for a user read it back from that answer."""
    admin = client_for(people.admin.user, people.admin.project)
    body = {"credential": {"type": "cert", "blob": json.dumps({"a": 1}), "user_id": people.bo.user.pk}}
    made: Any = admin.post(f"{IDENTITY}/credentials", body)
    assert json.loads(made.json()["credential"]["blob"]) == {"a": 1}
    path = f"{IDENTITY}/credentials/{made.json()['credential']['id']}"
    changed: Any = admin.patch(path, {"credential": {"blob": "new"}})
    assert changed.json()["credential"]["blob"] == "new"
    shown: Any = admin.get(path)
    assert shown.json()["credential"]["blob"] is None
