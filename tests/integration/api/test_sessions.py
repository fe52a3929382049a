"""Lifetime of browser sessions: renewed by use, not by a page's own requests, and over for all entry points at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from portal import sessions
from tests.integration.page_clients import signed_in, text

pytestmark = pytest.mark.django_db(databases="__all__")
WHOLE = 1000.0
NOW = 2_000_000_000.0


@pytest.fixture
def ana(people: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(sessions, "time", SimpleNamespace(time=lambda: NOW))
    settings.NOVELLA_SESSION_SECONDS = WHOLE
    return signed_in("ana")


def put(client: Client, left: float) -> None:
    """Set the remaining lifetime of the session."""
    session = client.session
    session[sessions.ENDS_KEY] = NOW + left
    session.save()


def left_of(client: Client) -> float:
    return float(client.session[sessions.ENDS_KEY]) - NOW


def test_signing_in_begins_it_and_pages_say_how_much_is_left(ana: Client) -> None:
    assert left_of(ana) == pytest.approx(WHOLE)
    put(ana, 700)
    assert 'data-warning="300"' in ana.get("/servers").content.decode()
    assert ana.get("/session").json()["left"] == pytest.approx(700)
    assert left_of(ana) == 700  # more than half was left: nothing is written


def test_use_renews_it_and_what_a_page_asks_by_itself_does_not(ana: Client) -> None:
    put(ana, 200)
    ana.get("/notifications", headers={"HX-Request": "true"})
    ana.get("/session")
    assert left_of(ana) == 200
    ana.get("/servers")
    assert left_of(ana) == pytest.approx(WHOLE)


def test_renewing_a_session_restarts_its_whole_lifetime(ana: Client) -> None:
    put(ana, 20)
    assert ana.post("/session", headers={"HX-Request": "true"}).json()["left"] == pytest.approx(WHOLE)
    put(ana, 20)
    answer = ana.post("/session", {"next": "https://evil.example/"})  # without scripts
    assert (answer.status_code, answer["Location"]) == (302, "/")


@pytest.mark.parametrize("path", ["/servers", "/project"])
def test_when_it_is_over_no_page_opens(ana: Client, path: str) -> None:
    put(ana, -1)
    assert ana.get(path)["Location"].startswith("/sign-in")
    assert "web-" not in text(ana.get("/sign-in"))


def test_when_it_is_over_no_api_answers_and_nothing_renews_it(ana: Client) -> None:
    put(ana, -1)
    assert ana.get("/api/workflows").status_code == 401
    assert ana.get("/session").status_code == 401
    answer = ana.post("/session")
    assert (answer.status_code, answer.json()) == (401, {"left": 0})
    assert left_of(ana) < 0


def test_anonymous_users_get_nothing(databases: None) -> None:
    assert Client().get("/session").json() == {"left": 0}


def test_a_short_session_warns_in_its_second_half(people: Any, settings: Any) -> None:
    settings.NOVELLA_SESSION_SECONDS = 60.0
    assert 'data-warning="30"' in signed_in("ana").get("/servers").content.decode()


def test_the_band_stands_on_every_kind_of_page(ana: Client, settings: Any) -> None:
    assert 'class="band"' not in ana.get("/servers").content.decode()
    settings.NOVELLA_BAND, settings.NOVELLA_BAND_COLOUR = "Production <1>", "red"
    for client, path in ((ana, "/servers"), (ana, "/project"), (Client(), "/sign-in")):
        assert '<div class="band" data-band="red">Production &lt;1&gt;</div>' in client.get(path).content.decode()
