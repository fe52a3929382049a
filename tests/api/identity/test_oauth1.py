"""OAuth 1.0: a consumer asks, a user lets it, and it acts for the user with some of the roles, until that is ended."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qsl, quote
from uuid import uuid4

import pytest
from authlib.oauth1.rfc5849.signature import construct_base_string, hmac_sha1_signature

from conductor.identity.models import AccessToken, Consumer, Nonce, RequestToken, Token

ROOT = "/identity/v3/OS-OAUTH1"
TOKENS = "/identity/v3/auth/tokens"
LOG_IN = {"auth": {"identity": {"methods": ["oauth1"], "oauth1": {}}}}


class Program:
    """A consumer: signs what it asks."""

    def __init__(self, client: Any, consumer: dict[str, str]) -> None:
        self.client, self.key, self.secret = client, consumer["id"], consumer["secret"]

    def ask(self, path: str, *, token: str = "", secret: str = "", body: Any = None, **values: str) -> Any:
        header = self.signed(path, token, secret, values.pop("oauth", {}) or {}, values.pop("at", ""))  # type: ignore[arg-type]
        return self.client.post(path, body or {}, headers={"Authorization": header, **values})

    def signed(self, path: str, token: str, secret: str, more: dict[str, str], at: str = "") -> str:
        said = {
            "oauth_consumer_key": self.key,
            "oauth_nonce": uuid4().hex,
            "oauth_signature_method": "HMAC-SHA1",
            "oauth_timestamp": at or str(int(time.time())),
            "oauth_version": "1.0",
            **({"oauth_token": token} if token else {}),
            **more,
        }
        base = construct_base_string("POST", f"http://testserver{path}", list(said.items()))
        said["oauth_signature"] = hmac_sha1_signature(base, self.secret, secret)
        return "OAuth " + ", ".join(f'{name}="{quote(value, safe="")}"' for name, value in said.items())


def form(answer: Any) -> dict[str, str]:
    assert answer.status_code == 201, answer.content
    assert answer.headers["Content-Type"] == "application/x-www-form-urlencoded"
    return dict(parse_qsl(answer.content.decode()))


@pytest.fixture
def program(api_client: Any, people: Any) -> Program:
    made = api_client("admin").post(f"{ROOT}/consumers", {"consumer": {"description": "photos", "colour": "blue"}})
    assert made.status_code == 201
    client = api_client("ana")
    client.token = None
    return Program(client, made.json()["consumer"])


def requested(program: Program, people: Any) -> dict[str, str]:
    path = f"{ROOT}/request_token"
    headers = {"Requested-Project-Id": people.ana.project.id}
    return form(program.ask(path, oauth={"oauth_callback": "oob"}, **headers))  # type: ignore[arg-type]


def let(api_client: Any, request: dict[str, str], *roles: dict[str, str]) -> Any:
    return api_client("ana").put(f"{ROOT}/authorize/{request['oauth_token']}", {"roles": list(roles)})


def exchanged(program: Program, request: dict[str, str], verifier: str) -> Any:
    token, secret = request["oauth_token"], request["oauth_token_secret"]
    return program.ask(f"{ROOT}/access_token", token=token, secret=secret, oauth={"oauth_verifier": verifier})  # type: ignore[arg-type]


def access_of(program: Program, api_client: Any, people: Any) -> dict[str, str]:
    request = requested(program, people)
    verifier = let(api_client, request, {"name": "reader"}).json()["token"]["oauth_verifier"]
    return form(exchanged(program, request, verifier))


def log_in(program: Program, access: dict[str, str], body: Any = LOG_IN, **values: Any) -> Any:
    token, secret = access["oauth_token"], access["oauth_token_secret"]
    return program.ask(TOKENS, token=token, secret=secret, body=body, **values)


def test_a_consumer_acts_for_a_user_until_that_is_ended(program: Program, api_client: Any, people: Any) -> None:
    access = access_of(program, api_client, people)
    answer = log_in(program, access)
    assert answer.status_code == 201, answer.content
    token, text = answer.json()["token"], answer.headers["X-Subject-Token"]
    assert (token["methods"], token["user"]["id"], token["project"]["id"]) == (
        ["oauth1"],
        people.ana.user.id,
        people.ana.project.id,
    )
    assert [role["name"] for role in token["roles"]] == ["reader"]  # though ana is a member
    assert token["OS-OAUTH1"] == {"access_token_id": access["oauth_token"], "consumer_id": program.key}
    program.client.token = text
    assert program.client.get("/volume/v3/volumes").status_code == 200
    assert program.client.post("/volume/v3/volumes", {"volume": {"size": 1}}).status_code == 403
    again = {"auth": {"identity": {"methods": ["token"], "token": {"id": text}}}}
    assert program.client.post(TOKENS, again).status_code == 403
    mine = f"/identity/v3/users/{people.ana.user.id}/application_credentials"
    assert program.client.post(mine, {"application_credential": {"name": "ci"}}).status_code == 403
    ana, path = api_client("ana"), f"/identity/v3/users/{people.ana.user.id}/OS-OAUTH1/access_tokens"
    (listed,) = ana.get(path).json()["access_tokens"]
    assert (listed["id"], listed["consumer_id"]) == (access["oauth_token"], program.key)
    one = f"{path}/{listed['id']}"
    (role,) = ana.get(f"{one}/roles").json()["roles"]
    assert ana.get(f"{one}/roles/{role['id']}").json()["role"]["name"] == "reader"
    assert ana.get(f"{one}/roles/x").status_code == 404
    assert api_client("chi").get(one).status_code == 403
    assert ana.delete(one).status_code == 204
    assert program.client.get("/volume/v3/volumes").status_code == 401
    program.client.token = None
    assert log_in(program, access).status_code == 401
    assert not Token.objects.exclude(access=None).exists()


def test_a_signature_holds_for_one_request_at_one_time(program: Program, api_client: Any, people: Any) -> None:
    access = access_of(program, api_client, people)
    wrong = {**access, "oauth_token_secret": "wrong"}
    assert log_in(program, wrong).status_code == 401
    assert log_in(program, access, at="1").status_code == 401
    assert log_in(program, access, at="nan").status_code == 401
    twice = program.signed(TOKENS, access["oauth_token"], access["oauth_token_secret"], {})
    codes = [program.client.post(TOKENS, LOG_IN, headers={"Authorization": twice}).status_code for _ in range(2)]
    assert codes == [201, 401]
    elsewhere = program.signed(f"{ROOT}/access_token", access["oauth_token"], access["oauth_token_secret"], {})
    assert program.client.post(TOKENS, LOG_IN, headers={"Authorization": elsewhere}).status_code == 401
    for header in ("", "Basic x", "OAuth nothing", "OAuth " + "x" * 9000):
        assert program.client.post(TOKENS, LOG_IN, headers={"Authorization": header}).status_code == 400
    scoped = {"auth": {**LOG_IN["auth"], "scope": {"system": {"all": True}}}}
    assert log_in(program, access, body=scoped).status_code == 401
    assert Token.objects.exclude(access=None).count() == 1
    assert Nonce.objects.exists()


def test_nobody_lets_a_consumer_do_what_is_not_theirs(program: Program, api_client: Any, people: Any) -> None:
    request = requested(program, people)
    assert exchanged(program, request, "none").status_code == 401  # nobody has authorised it
    assert let(api_client, request, {"name": "admin"}).status_code == 403
    assert let(api_client, request).status_code == 400
    assert let(api_client, {"oauth_token": "nothing"}, {"name": "reader"}).status_code == 404
    chi = api_client("chi").put(f"{ROOT}/authorize/{request['oauth_token']}", {"roles": [{"name": "reader"}]})
    assert chi.status_code == 403  # who has no role on ana's project
    assert let(api_client, request, {"name": "reader"}).status_code == 200
    assert exchanged(program, request, "guess").status_code == 401
    assert not AccessToken.objects.exists()
    without = program.ask(f"{ROOT}/request_token", oauth={"oauth_callback": "oob"})  # type: ignore[arg-type]
    assert without.status_code == 400
    stranger = Program(program.client, {"id": "nobody", "secret": "x"})
    headers = {"Requested-Project-Id": people.ana.project.id}
    refused = stranger.ask(f"{ROOT}/request_token", oauth={"oauth_callback": "oob"}, **headers)  # type: ignore[arg-type]
    assert refused.status_code == 401
    assert RequestToken.objects.count() == 1


def test_consumers_are_kept_by_operators(program: Program, api_client: Any, people: Any) -> None:
    admin, one = api_client("admin"), f"{ROOT}/consumers/{program.key}"
    shown = admin.get(one).json()["consumer"]
    assert (shown["description"], shown["colour"], "secret" in shown) == ("photos", "blue", False)
    assert program.secret not in Consumer.objects.get().encrypted_secret
    assert admin.patch(one, {"consumer": {"description": "films"}}).json()["consumer"]["description"] == "films"
    assert admin.patch(one, {"consumer": {"secret": "x"}}).status_code == 400
    assert [row["id"] for row in admin.get(f"{ROOT}/consumers").json()["consumers"]] == [program.key]
    access = access_of(program, api_client, people)
    assert admin.delete(one).status_code == 204
    assert log_in(program, access).status_code == 401
    assert admin.get(one).status_code == 404
    assert not AccessToken.objects.exists()
