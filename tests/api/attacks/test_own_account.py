"""Attacks on a person's own account: around the second factor, and with passwords that are guessed at once."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.test import Client

from conductor.identity import second_factors
from conductor.identity.models import SecondFactor, Token, User
from tests import factories
from tests.api_client import ApiClient
from tests.people import PASSWORD

TOKENS = "/identity/v3/auth/tokens"
NEW = "a-new-and-longer-one"


class Authenticator:
    """The app in a person's pocket, set up for one user."""

    def __init__(self, user: User) -> None:
        self._totp = TOTP(base64.b32decode(second_factors.enrolment(user).key), 6, SHA1(), 30)
        second_factors.confirm(user.id, self.code())

    def code(self) -> str:
        """Return a code that was not used yet: tests do not wait half a minute."""
        SecondFactor.objects.update(last_step=0, failures=0)
        return self._totp.generate(int(time.time())).decode()


def log_in(
    user: User, *, methods: tuple[str, ...] = ("password", "totp"), code: str = "", of: User | None = None
) -> Any:
    shown = {
        "password": {"user": {"id": user.id, "password": PASSWORD}},
        "totp": {"user": {"id": (of or user).id, "passcode": code}},
    }
    identity = {"methods": list(methods), **{name: shown[name] for name in methods}}
    return ApiClient().post(TOKENS, {"auth": {"identity": identity}})


def change(user: User, original: str = PASSWORD, *, token: str | None = None) -> Any:
    body = {"user": {"original_password": original, "password": NEW}}
    return ApiClient(token).post(f"/identity/v3/users/{user.id}/password", body)


def stored(user: User) -> str:
    return str(User.objects.values_list("password", flat=True).get(id=user.id))


def test_a_token_needs_both_factors_of_one_person(people: Any) -> None:
    ana, bo = people.ana.user, people.bo.user
    app, other = Authenticator(ana), Authenticator(bo)
    refused = [
        log_in(ana, methods=("password",)),
        log_in(ana, methods=("totp",), code=app.code()),
        log_in(ana, code="000000"),
        log_in(ana, code=other.code(), of=bo),
        log_in(people.chi.user, code=app.code(), of=ana),
    ]
    assert {answer.status_code for answer in refused} == {401}
    assert len({answer.content for answer in refused}) == 1
    assert not Token.objects.exists()
    code = app.code()
    opened = log_in(ana, code=code)
    assert opened.status_code == 201
    assert opened.json()["token"]["methods"] == ["password", "totp"]
    assert log_in(ana, code=code).status_code == 401  # no code is taken twice


def test_a_stolen_password_cannot_be_changed_without_the_second_factor(people: Any, api_client: Any) -> None:
    ana = people.ana.user
    app, before = Authenticator(ana), stored(ana)
    refused = [
        change(ana),
        change(ana, "wrong"),
        change(ana, token=people.ana.token()),
        change(ana, token=people.bo.token()),
    ]
    assert {answer.status_code for answer in refused} == {401}
    assert len({answer.content for answer in refused}) == 1  # the response does not reveal that the password is right
    assert b"second factor" in refused[0].content
    assert stored(ana) == before
    token = log_in(ana, code=app.code()).headers["X-Subject-Token"]
    assert change(ana, token=token).status_code == 204
    assert stored(ana) != before
    assert ApiClient(token).get("/identity/v3/auth/projects").status_code == 401


def test_delegated_tokens_cannot_change_passwords(people: Any, api_client: Any) -> None:
    ana, before = people.ana.user, stored(people.ana.user)
    path = f"/identity/v3/users/{ana.id}/application_credentials"
    made = api_client("ana").post(path, {"application_credential": {"name": "robot"}}).json()["application_credential"]
    shown = {"id": made["id"], "secret": made["secret"]}
    identity = {"methods": ["application_credential"], "application_credential": shown}
    token = ApiClient().post(TOKENS, {"auth": {"identity": identity}}).headers["X-Subject-Token"]
    assert change(ana, token=token).status_code == 403
    assert stored(ana) == before
    assert change(ana).status_code == 204


def test_an_administrator_needs_the_own_second_factor_for_the_own_account(people: Any, api_client: Any) -> None:
    admin = people.admin.user
    app, before = Authenticator(admin), stored(admin)
    client, path = api_client("admin"), f"/identity/v3/users/{admin.id}"
    assert client.patch(path, {"user": {"password": NEW}}).status_code == 403
    assert client.delete(f"/api/users/{admin.id}/second-factor").status_code == 403
    assert stored(admin) == before
    assert second_factors.is_on(admin.id)
    token = log_in(admin, code=app.code()).headers["X-Subject-Token"]
    scoped = ApiClient().post(
        TOKENS,
        {
            "auth": {
                "identity": {"methods": ["token"], "token": {"id": token}},
                "scope": {"project": {"id": people.admin.project.id}},
            }
        },
    )
    assert scoped.json()["token"]["methods"] == ["password", "totp", "token"]
    assert ApiClient(scoped.headers["X-Subject-Token"]).patch(path, {"user": {"password": NEW}}).status_code == 200


def test_the_page_asks_for_a_code_too(people: Any) -> None:
    factories.cells()
    ana = people.ana.user
    app, before = Authenticator(ana), stored(ana)
    browser = Client()
    browser.cookies["novella_session"] = people.ana.session()
    page, form = "/profile/password", {"original": PASSWORD, "password": NEW, "again": NEW}
    assert b'name="code"' in browser.get(page).content
    for wrong in ({}, {"code": "000000"}, {"code": app.code(), "password": "short", "again": "short"}):
        assert browser.post(page, form | wrong).status_code == 400
        assert stored(ana) == before
    assert browser.post(page, form | {"code": app.code()}).status_code == 302
    assert stored(ana) != before


@pytest.mark.parametrize("weak", ["", "x", "short-7", "Ana-12345", "2026.a.n.a", "password123", "x" * 4097])
def test_no_interface_accepts_a_password_that_is_easy_to_guess(people: Any, api_client: Any, weak: str) -> None:
    factories.cells()
    ana, before, admin = people.ana.user, stored(people.ana.user), api_client("admin")
    path, own = f"/identity/v3/users/{ana.id}", {"original_password": PASSWORD, "password": weak}
    answers = [
        admin.patch(path, {"user": {"password": weak}}),
        admin.post("/identity/v3/users", {"user": {"name": "ana-2", "password": weak}}),
        ApiClient().post(f"{path}/password", {"user": own}),
    ]
    assert {answer.status_code for answer in answers} == {400}
    words = {answer.json()["error"]["message"] for answer in answers}
    assert len(words) == 1  # one policy, and it names the rule
    assert "password" in words.pop()
    browser = Client()
    browser.cookies["novella_session"] = people.ana.session()
    form = {"original": PASSWORD, "password": weak, "again": weak}
    assert browser.post("/profile/password", form).status_code == 400
    assert stored(ana) == before
    assert User.objects.count() == len(people)
