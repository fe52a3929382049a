"""Attacks with delegated authority: it never gains a wider scope or a longer life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conductor.core.errors import Forbidden
from conductor.identity import delegation, tokens, trusts
from conductor.identity.delegation import POWERS, Power, TokenKind
from conductor.identity.models import (
    ApplicationCredential,
    Credential,
    Role,
    Token,
    Trust,
    User,
)
from tests.api_client import ApiClient
from tests.fixtures.delegation import V3, by_credential, by_password, credential_of, log_in, trusted, with_credential

KEPT = (ApplicationCredential, Credential, Trust)


def by_trust(people: Any, api_client: Any) -> Any:
    return trusted(people, api_client)[1]


def restricted(people: Any, api_client: Any) -> Any:
    return with_credential(people, api_client)


def stored(people: Any, api_client: Any) -> str:
    blob = {"user_id": people.ana.user.id, "type": "cert", "blob": "shiny-secret"}
    return str(api_client("ana").post(f"{V3}/credentials", {"credential": blob}).json()["credential"]["id"])


@pytest.mark.parametrize("handed_on", [by_trust, restricted])
def test_delegated_tokens_create_and_read_no_lasting_secrets(
    people: Any, api_client: Any, handed_on: Callable[..., Any]
) -> None:
    secret_id, ana = stored(people, api_client), people.ana.user.id
    pair = api_client("ana").post(f"{V3}/users/{ana}/credentials/OS-EC2", {"tenant_id": people.ana.project.id}).json()
    access = pair["credential"]["access"]
    client = handed_on(people, api_client)
    before = {kind: set(kind._default_manager.values_list("pk", flat=True)) for kind in KEPT}
    hashes = set(User.objects.values_list("id", "password"))
    trust = {"trustor_user_id": ana, "trustee_user_id": people.bo.user.id, "impersonation": True}
    trust |= {"project_id": people.ana.project.id, "roles": [{"name": "member"}]}
    mine = {"application_credential": {"name": "mine", "unrestricted": True}}
    attacks = (
        ("POST", f"users/{ana}/application_credentials", mine),
        ("POST", f"users/{ana}/credentials/OS-EC2", {"tenant_id": people.ana.project.id}),
        ("GET", f"users/{ana}/credentials/OS-EC2", None),
        ("GET", f"users/{ana}/credentials/OS-EC2/{access}", None),
        ("DELETE", f"users/{ana}/credentials/OS-EC2/{access}", None),
        ("POST", "credentials", {"credential": {"user_id": ana, "type": "cert", "blob": "mine"}}),
        ("GET", "credentials", None),
        ("GET", f"credentials/{secret_id}", None),
        ("PATCH", f"credentials/{secret_id}", {"credential": {"blob": "mine"}}),
        ("DELETE", f"credentials/{secret_id}", None),
        ("POST", "OS-TRUST/trusts", {"trust": trust}),
    )  # fmt: skip
    for method, path, body in attacks:
        answer = client.call(method, f"{V3}/{path}", body) if body else client.call(method, f"{V3}/{path}")
        assert answer.status_code == 403, (method, path, answer.content)
        assert b"Use a token of your own" in answer.content
        assert b"shiny-secret" not in answer.content
    exchange = {"methods": ["token"], "token": {"id": client.token}}
    for scope in ({}, {"project": {"id": people.ana.project.id}}):
        assert log_in(exchange, **scope).status_code == 403
    assert {kind: set(kind._default_manager.values_list("pk", flat=True)) for kind in KEPT} == before
    assert set(User.objects.values_list("id", "password")) == hashes


def test_deleting_a_used_up_trust_ends_its_tokens(people: Any, api_client: Any) -> None:
    trust_id, chi = trusted(people, api_client, remaining_uses=1)
    again = log_in(by_password(people.chi), **{"OS-TRUST:trust": {"id": trust_id}})
    assert again.status_code == 401
    ana, path = api_client("ana"), f"{V3}/OS-TRUST/trusts/{trust_id}"
    assert ana.get(path).json()["trust"]["remaining_uses"] == 0
    listed = ana.get(f"{V3}/OS-TRUST/trusts?trustor_user_id={people.ana.user.id}").json()["trusts"]
    assert [one["id"] for one in listed] == [trust_id]
    assert chi.get(f"{V3}/auth/projects").status_code == 200
    assert ana.delete(path).status_code == 204
    assert chi.get(f"{V3}/auth/projects").status_code == 401
    assert not Trust.objects.exists()
    assert not Token.objects.exclude(trust=None).exists()


def test_a_token_of_a_trust_ends_that_trust_and_no_other(people: Any, api_client: Any) -> None:
    first, chi = trusted(people, api_client)
    second, _ = trusted(people, api_client)
    assert chi.delete(f"{V3}/OS-TRUST/trusts/{second}").status_code == 403
    assert chi.delete(f"{V3}/OS-TRUST/trusts/{first}").status_code == 204
    assert list(Trust.objects.values_list("id", flat=True)) == [second]


def test_credentials_created_by_a_credential_have_no_longer_life_or_wider_rights(people: Any, api_client: Any) -> None:
    ana, end = people.ana.user.id, "2100-01-01T00:00:00Z"
    rules = [{"service": "identity", "method": method, "path": "/v3/**"} for method in ("POST", "GET", "DELETE")]
    client = with_credential(
        people, api_client, unrestricted=True, expires_at=end, access_rules=rules, roles=[{"name": "reader"}]
    )

    def made(name: str, **more: Any) -> Any:
        path = f"{V3}/users/{ana}/application_credentials"
        return client.post(path, {"application_credential": {"name": name, **more}})

    wider = {"service": "compute", "method": "POST", "path": "/v2.1/servers"}
    assert made("late", expires_at="2100-01-02T00:00:00Z").status_code == 403
    assert made("wide", access_rules=[wider]).status_code == 403
    assert made("king", roles=[{"name": "member"}]).status_code == 400
    assert not ApplicationCredential.objects.exclude(name="robot").exists()
    child = made("child").json()["application_credential"]
    assert child["expires_at"] == "2100-01-01T00:00:00.000000"
    assert {rule["method"] for rule in child["access_rules"]} == {"POST", "GET", "DELETE"}
    narrow = made("narrow", access_rules=rules[:1], expires_at="2099-01-01T00:00:00Z").json()["application_credential"]
    assert [rule["method"] for rule in narrow["access_rules"]] == ["POST"]
    assert client.get(f"{V3}/credentials").status_code == 403  # a stored secret has neither rules nor an end
    trust = {"trustor_user_id": ana, "trustee_user_id": people.bo.user.id, "impersonation": True}
    trust |= {"project_id": people.ana.project.id, "roles": [{"name": "reader"}]}
    assert client.post(f"{V3}/OS-TRUST/trusts", {"trust": trust}).status_code == 403  # nor has a trust rules
    assert not Trust.objects.exists()


def test_a_trust_of_an_unrestricted_credential_ends_with_it(people: Any, api_client: Any) -> None:
    client = with_credential(people, api_client, unrestricted=True, expires_at="2100-01-01T00:00:00Z")
    trust = {"trustor_user_id": people.ana.user.id, "trustee_user_id": people.bo.user.id, "impersonation": False}
    trust |= {"project_id": people.ana.project.id, "roles": [{"name": "member"}]}
    made = client.post(f"{V3}/OS-TRUST/trusts", {"trust": trust})
    assert made.json()["trust"]["expires_at"] == "2100-01-01T00:00:00.000000Z"
    later = client.post(f"{V3}/OS-TRUST/trusts", {"trust": {**trust, "expires_at": "2100-01-01T00:00:01Z"}})
    assert later.status_code == 403
    assert Trust.objects.count() == 1


def test_an_administrator_s_credential_does_not_set_its_own_password(people: Any, api_client: Any) -> None:
    admin = people.admin.user.id
    made = credential_of(api_client("admin"), admin).json()["application_credential"]
    client = ApiClient(log_in(by_credential(made)).headers["X-Subject-Token"])
    before = User.objects.get(id=admin).password
    answer = client.patch(f"{V3}/users/{admin}", {"user": {"password": "a-new-word-of-mine"}})
    assert answer.status_code == 403
    assert User.objects.get(id=admin).password == before


def test_every_kind_of_token_has_its_row(people: Any, api_client: Any) -> None:
    assert set(POWERS) == set(TokenKind)
    assert POWERS[TokenKind.OWN] == set(Power)
    for kind in (TokenKind.RESTRICTED, TokenKind.TRUST):
        assert not POWERS[kind]
    own = tokens.validate(people.ana.token())
    assert delegation.bounded_end(own, None) is None
    assert delegation.bounded_rules(own, ()) == ()
    trust_id, chi = trusted(people, api_client)
    with pytest.raises(Forbidden):
        trusts.delete(tokens.validate(chi.token), "another")
    assert trusts.get(trust_id).expires_at is None
    assert timedelta() < tokens.validate(chi.token).expires_at - own.issued_at


@pytest.mark.parametrize("secret", ["", "a", "seven-7"])
def test_a_credential_refuses_a_secret_that_is_easy_to_guess(people: Any, api_client: Any, secret: str) -> None:
    refused = credential_of(api_client("ana"), people.ana.user.id, secret=secret)
    assert refused.status_code == 400
    assert "secret" in refused.json()["error"]["message"]
    assert "at least 8 characters" in refused.json()["error"]["message"]
    assert not ApplicationCredential.objects.exists()
    made = credential_of(api_client("ana"), people.ana.user.id, secret=None).json()["application_credential"]
    assert len(made["secret"]) > 60


def by_group(client: Any, people: Any) -> tuple[str, str]:
    group = client.post(f"{V3}/groups", {"group": {"name": "robots"}}).json()["group"]["id"]
    member = f"{V3}/groups/{group}/users/{people.ana.user.id}"
    assert client.put(member).status_code == 204
    return member, f"{V3}/projects/{people.ana.project.id}/groups/{group}/roles"


@pytest.mark.parametrize("way", ["user", "group", "membership"])
def test_a_role_taken_away_ends_a_credential_for_good(people: Any, api_client: Any, way: str) -> None:
    admin, ana = api_client("admin"), people.ana
    role = Role.objects.get(name="manager").id
    membership, of_group = by_group(admin, people)
    of_user = f"{V3}/projects/{ana.project.id}/users/{ana.user.id}/roles"
    given = f"{of_user if way == 'user' else of_group}/{role}"
    assert admin.put(given).status_code == 204
    token = log_in(by_password(ana), project={"id": ana.project.id}).headers["X-Subject-Token"]
    made = [
        credential_of(ApiClient(token), ana.user.id, name=name, roles=[{"name": name}])
        for name in ("manager", "reader")
    ]
    lost, kept = (answer.json()["application_credential"] for answer in made)
    assert log_in(by_credential(lost)).status_code == log_in(by_credential(kept)).status_code == 201
    taken = membership if way == "membership" else given
    assert admin.delete(taken).status_code == 204
    assert log_in(by_credential(lost)).status_code == 401
    assert admin.put(taken).status_code == 204
    assert log_in(by_credential(lost)).status_code == 401
    assert log_in(by_credential(kept)).status_code == 201
    assert list(ApplicationCredential.objects.values_list("id", flat=True)) == [kept["id"]]
