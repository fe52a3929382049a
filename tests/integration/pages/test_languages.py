"""The language of pages: the user's, else the browser's, else English; the APIs use English."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from conductor.services.accounts import preferences
from tests import factories
from tests.integration.page_clients import signed_in

GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de-DE,de;q=0.9"}
SCRIPT_WORDS = r"Aktualisierung l\u00e4uft wieder"  # the catalogue for scripts is ASCII


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    return signed_in("ana")


def text(answer: Any) -> str:
    return answer.content.decode()


def test_the_language_follows_the_browser(ana: Client) -> None:
    german = text(ana.get("/servers", **GERMAN))
    assert '<html lang="de"' in german
    assert "Noch keine Server" in german
    assert 'src="/words/de.js"' in german
    english = text(ana.get("/servers", HTTP_ACCEPT_LANGUAGE="fr,en;q=0.5"))
    assert '<html lang="en"' in english
    assert "No servers yet" in english
    assert "/words/" not in english


def test_the_language_of_the_profile_has_precedence(ana: Client, people: Any) -> None:
    form = {"theme": "light", "density": "compact", "time_zone": "Europe/Berlin", "language": "de"}
    answer = ana.post("/profile", form)
    assert answer.status_code == 302
    assert answer.cookies["novella_language"].value == "de"
    assert preferences.of(str(people.ana.user.pk)).language == "de"
    assert "Gespeichert." in text(ana.get("/profile", HTTP_ACCEPT_LANGUAGE="en"))
    other_browser = signed_in("ana")
    assert "Noch keine Server" in text(other_browser.get("/servers", HTTP_ACCEPT_LANGUAGE="en"))


def test_back_to_what_the_browser_asks(ana: Client, people: Any) -> None:
    form = {"theme": "light", "density": "compact", "time_zone": "UTC", "language": "de"}
    ana.post("/profile", form)
    assert ana.post("/profile", {**form, "language": ""}).cookies["novella_language"].value == ""
    assert preferences.of(str(people.ana.user.pk)).language == ""
    assert "No servers yet" in text(ana.get("/servers", HTTP_ACCEPT_LANGUAGE="en"))


def test_an_unknown_language_changes_nothing(ana: Client, people: Any) -> None:
    answer = ana.post("/profile", {"language": "xx", "theme": "dark", "density": "compact", "time_zone": "UTC"})
    assert answer.status_code == 400
    assert "Select a language: en, de." in text(answer)
    assert preferences.of(str(people.ana.user.pk)).language == ""
    assert "novella_language" not in answer.cookies


def test_an_error_with_values_is_translated(ana: Client) -> None:
    form = {"language": "xx", "theme": "dark", "density": "compact", "time_zone": "UTC"}
    assert "Wählen Sie eine Sprache: en, de." in text(ana.post("/profile", form, **GERMAN))


def test_the_note_after_a_redirect_is_translated(ana: Client) -> None:
    page = text(ana.post("/servers/views", {"view": " ", "query": ""}, follow=True, **GERMAN))
    assert "Geben Sie der Ansicht einen Namen von 1 bis 60 Zeichen." in page


def test_pages_before_the_sign_in_use_the_language_of_the_browser(ana: Client) -> None:
    page = text(Client().get("/sign-in", **GERMAN))
    assert "<h1>Anmelden</h1>" in page
    refused = Client().post("/sign-in", {"username": "ana", "password": "wrong"}, **GERMAN)
    assert refused.status_code == 401
    assert "Benutzername oder Passwort falsch" in text(refused)


def test_the_apis_answer_in_english_after_a_page_in_another_language(ana: Client, people: Any) -> None:
    ana.get("/servers", **GERMAN)
    assert translation.get_language() in (None, "en")
    answer = Client().get("/compute/v2.1/servers/nothing", **GERMAN, HTTP_X_AUTH_TOKEN=people.ana.token())
    assert answer.status_code == 404
    assert "could not be found" in text(answer) or "not found" in text(answer).lower()


def test_scripts_get_their_words(ana: Client) -> None:
    answer = Client().get("/words/de.js")
    assert answer["Content-Type"].startswith("text/javascript")
    assert "max-age=" in answer["Cache-Control"]
    assert SCRIPT_WORDS in text(answer)
    assert SCRIPT_WORDS not in text(Client().get("/words/en.js"))


def test_numbers_that_browsers_read_keep_their_point(ana: Client, people: Any) -> None:
    run, _ = factories.build(people.ana.context(), "web-1")
    page = text(ana.get(f"/workflows/{run.uuid}", **GERMAN))
    assert "Schritte" in page
    span = page.split('data-span="')[1].split('"')[0]
    assert float(span) > 0
