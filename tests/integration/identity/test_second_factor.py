"""Signing in with an authenticator: setting it up, its codes, recovery codes, and what a password alone still opens."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from conductor.core.errors import NotAuthenticated
from conductor.identity import second_factors
from conductor.identity.models import RecoveryCode, SecondFactor
from conductor.journal.models import AuditRecord
from tests import factories
from tests.fixtures import second_factor as authenticators
from tests.fixtures.second_factor import code_of
from tests.integration.page_clients import text
from tests.people import PASSWORD

PAGE = "/profile/second-factor"
NOW = time.time()


def password(client: Client) -> Any:
    return client.post("/sign-in?next=/servers", {"username": "ana", "password": PASSWORD})


def forget_steps() -> None:
    """Make current codes count as unused, so that tests need not wait half a minute."""
    SecondFactor.objects.update(last_step=0)


@pytest.fixture(autouse=True)
def _clock_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that no step of half a minute ends between a code and its use."""
    monkeypatch.setattr(second_factors, "database_time", lambda: datetime.fromtimestamp(NOW, UTC))
    monkeypatch.setattr(authenticators, "time", SimpleNamespace(time=lambda: NOW))


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    client = Client()
    assert password(client).status_code == 302
    return client


@pytest.fixture
def key(ana: Client) -> str:
    found = re.search(r'id="the-key">([A-Z2-7]+)<', ana.get(PAGE).content.decode())
    assert found
    return found[1]


@pytest.fixture
def codes(ana: Client, key: str) -> list[str]:
    """Set up an authenticator; returns the recovery codes."""
    answer = ana.post(PAGE, {"do": "confirm", "code": code_of(key)})
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    forget_steps()
    return re.findall(r"[\w-]+", text(answer).partition('aria-label="Recovery codes">')[2].partition("</pre>")[0])


def half_in(next_page: str = "/servers") -> Client:
    client = Client()
    answer = password(client)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in/code")
    return client


def test_an_unconfirmed_authenticator_is_not_asked_for(ana: Client, key: str) -> None:
    assert "<svg" in ana.get(PAGE).content.decode()
    answer = ana.post(PAGE, {"do": "confirm", "code": "000000" if code_of(key) != "000000" else "111111"})
    assert answer.status_code == 400
    assert "Couldn't save" in text(answer)
    assert SecondFactor.objects.get().confirmed_at is None
    assert password(Client()).headers["Location"] == "/servers"


def test_a_code_works_once(codes: list[str], key: str) -> None:
    first, second = half_in(), half_in()
    assert first.get("/servers").headers["Location"].startswith("/sign-in?")  # half of the way opens nothing
    code = code_of(key)
    answer = first.post("/sign-in/code", {"code": f" {code[:3]} {code[3:]}"})
    assert answer.headers["Location"] == "/servers"
    assert first.get("/servers").status_code == 200
    assert second.post("/sign-in/code", {"code": code}).status_code == 401
    assert second.get("/servers").status_code == 302


def test_a_clock_may_be_one_step_off_and_not_two(codes: list[str], key: str, people: Any) -> None:
    for steps in (-3, 3):
        with pytest.raises(NotAuthenticated):
            second_factors.prove(people.ana.user.id, code_of(key, steps))
    second_factors.prove(people.ana.user.id, code_of(key, -1))


def test_a_recovery_code_works_once(codes: list[str]) -> None:
    assert len(set(codes)) == 10
    assert half_in().post("/sign-in/code", {"code": codes[3].upper()}).headers["Location"] == "/servers"
    assert half_in().post("/sign-in/code", {"code": codes[3]}).status_code == 401
    assert RecoveryCode.objects.count() == 9


def test_five_wrong_codes_lock_even_a_right_one_out(codes: list[str], key: str) -> None:
    client = half_in()
    for _ in range(5):
        assert client.post("/sign-in/code", {"code": "nonsense"}).status_code == 401
    assert half_in().post("/sign-in/code", {"code": code_of(key)}).status_code == 401
    SecondFactor.objects.update(failed_at=factories.ago(second_factors.LOCKED_SECONDS + 1))
    assert half_in().post("/sign-in/code", {"code": code_of(key)}).status_code == 302


def test_the_api_refuses_the_password_alone(codes: list[str], people: Any) -> None:
    user = {"id": people.ana.user.id, "password": PASSWORD}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    refused = Client().post("/identity/v3/auth/tokens", body, content_type="application/json")
    assert refused.status_code == 401
    assert "factor" not in text(refused)
    people.ana.user.second_factor.delete()
    granted = Client().post("/identity/v3/auth/tokens", body, content_type="application/json")
    assert granted.status_code == 201


def test_a_session_that_waits_for_its_code_expires(codes: list[str], key: str, people: Any) -> None:
    late = half_in()
    session = late.session
    session["half_signed_in"] = {**session["half_signed_in"], "at": time.time() - 301}
    session.save()
    assert late.post("/sign-in/code", {"code": code_of(key)}).headers["Location"] == "/sign-in"
    changed = half_in()
    people.ana.user.set_password("another-password-1")
    people.ana.user.save()
    assert changed.post("/sign-in/code", {"code": code_of(key)}).headers["Location"] == "/sign-in"
    assert Client().get("/sign-in/code").headers["Location"] == "/sign-in"


def over_a_page(client: Client, path: str, caller: str, **given: str) -> Any:
    return client.post(path, {"caller": caller, **given}, headers={"HX-Request": "true"})


def test_signing_in_on_top_of_a_page_also_asks_for_the_code(codes: list[str], key: str, people: Any) -> None:
    client, caller = Client(), f"{people.ana.user.id}:{people.ana.project.id}"
    answer = over_a_page(client, "/sign-in", caller, username="ana", password=PASSWORD)
    assert answer.json()["code"] == "/sign-in/code"
    assert client.get("/servers").status_code == 302
    assert over_a_page(client, "/sign-in/code", caller, code="nonsense").status_code == 401
    answer = over_a_page(client, "/sign-in/code", caller, code=code_of(key))
    assert set(answer.json()) == {"csrf"}
    assert client.get("/servers").status_code == 200


def test_a_page_of_another_user_does_not_continue_the_sign_in(people: Any) -> None:
    factories.cells()
    theirs = f"{people.bo.user.id}:{people.bo.project.id}"
    answer = over_a_page(Client(), "/sign-in", theirs, username="ana", password=PASSWORD)
    assert answer.json() == {"away": "/project"}
    elsewhere = f"{people.ana.user.id}:{people.chi.project.id}"
    assert over_a_page(Client(), "/sign-in", elsewhere, username="ana", password=PASSWORD).json() == {
        "away": "/project"
    }


def test_turning_off_and_new_codes_need_a_code(ana: Client, codes: list[str], key: str) -> None:
    for action in ("renew", "turn-off"):
        assert ana.post(PAGE, {"do": action, "code": "nonsense"}).status_code == 400
    assert second_factors.codes_left(SecondFactor.objects.get().user_id) == 10
    fresh = ana.post(PAGE, {"do": "renew", "code": code_of(key)})
    assert fresh.status_code == 200
    assert codes[0] not in text(fresh)
    forget_steps()
    assert ana.post(PAGE, {"do": "turn-off", "code": codes[0]}).status_code == 400  # of the codes before
    assert ana.post(PAGE, {"do": "turn-off", "code": code_of(key)}).status_code == 302
    assert not SecondFactor.objects.exists()
    assert not RecoveryCode.objects.exists()
    assert password(Client()).headers["Location"] == "/servers"


def test_a_key_in_use_is_neither_shown_nor_replaced(ana: Client, codes: list[str], key: str) -> None:
    kept = SecondFactor.objects.get().encrypted_key
    assert key not in text(ana.get(PAGE))
    assert key.encode() not in kept.encode()
    answer = ana.post(PAGE, {"do": "another-key"})
    assert answer.status_code == 400
    assert SecondFactor.objects.get().encrypted_key == kept
    assert ana.post(PAGE, {"do": "something"}).status_code == 400


def test_an_administrator_gives_up_a_lost_one_with_a_reason(codes: list[str], people: Any, api_client: Any) -> None:
    path, why = f"/api/users/{people.ana.user.pk}/second-factor", {"Novella-Reason": "her phone is lost"}
    for caller in ("ana", "chi"):
        assert api_client(caller).delete(path, headers=why).status_code == 403
    requested = api_client("admin")
    assert requested.get(path).json() == {"second_factor": {"is_on": True, "recovery_codes": len(codes)}}
    assert half_in()
    assert requested.delete(path, headers=why).json() == {"second_factor": {"is_on": False, "recovery_codes": 0}}
    assert password(Client()).headers["Location"] == "/servers"
    record = AuditRecord.objects.filter(result="done").exclude(action="session.sign_in").latest("pk")
    assert (record.user_name, record.reason) == ("admin", "her phone is lost")
    assert requested.delete(path, headers=why).status_code == 409
