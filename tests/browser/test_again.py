"""A session that ends under an open page: countdown, renewal, or sign-in on top of the page."""

from __future__ import annotations

import re
import time
from typing import Any

from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from portal import sessions
from portal.live import channels
from tests import factories
from tests.browser.conftest import OpenPage, go, wait_until_live
from tests.people import PASSWORD


def end_session(page: Page) -> None:
    """End the session on the server; the page learns it from its socket."""
    Session.objects.all().delete()


def put(page: Page, left: float) -> None:
    """Set the time that is left, which the page learns as after a sign-in on top of it."""
    cookie = next(one for one in page.context.cookies() if one["name"] == "novella_session")
    session = SessionStore(cookie["value"])
    session[sessions.ENDS_KEY] = time.time() + left
    session.save()
    page.evaluate("document.dispatchEvent(new CustomEvent('novella:returned'))")


def test_an_open_page_continues_after_the_sign_in(open_page: OpenPage, people: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "HEAL_SECONDS", 0.3)
    page = open_page("ana")
    go(page, "/servers")
    wait_until_live(page)
    page.evaluate("window.isTheSamePage = true")
    end_session(page)
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog.get_by_label("Password")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("Wrong user name or password")
    expect(dialog.get_by_label("Password")).to_have_accessible_description("Wrong user name or password")
    expect(dialog.get_by_label("Password")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    wait_until_live(page)
    made = factories.instance(people.ana.context(), "web-9")
    factories.emit_instance_event(made, "cell1", "instance.created")
    expect(page.get_by_role("row", name="web-9")).to_be_visible()
    assert page.evaluate("window.isTheSamePage")


def test_a_form_is_sent_once_after_the_sign_in(open_page: OpenPage, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "HEAL_SECONDS", 0.3)
    page = open_page("ana")
    go(page, "/security-groups/do/create")
    page.get_by_label("Name", exact=True).fill("typed before")
    end_session(page)
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_role("button", name="Cancel").click()
    page.locator("main form [type=submit], main form button.primary").first.click()
    expect(dialog).to_be_visible()  # it would have been answered with the sign-in page
    dialog.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed before")
    page.locator("main form [type=submit], main form button.primary").first.click()
    expect(page.get_by_role("heading", name="typed before")).to_be_visible()
    go(page, "/security-groups")
    expect(page.get_by_role("link", name="typed before")).to_have_count(1)


def test_a_page_is_not_continued_for_another_user(open_page: OpenPage, people: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "HEAL_SECONDS", 0.3)
    factories.instance(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, "/servers")
    end_session(page)
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_label("User name").fill("chi")
    dialog.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/project")
    expect(page.get_by_text("web-1")).to_have_count(0)


def test_the_end_of_a_session_is_counted_down_and_can_be_postponed(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/profile")
    other = page.context.new_page()
    go(other, "/profile")
    note = page.get_by_role("form", name="Your session expires in")
    expect(note).to_be_hidden()
    put(page, 250)
    put(other, 250)
    expect(note.get_by_role("timer")).to_have_text(re.compile(r"^[0-4]:[0-5]\d$"))
    expect(page.locator("[data-announce]")).to_have_text("Your session is about to expire. You can stay signed in.")
    note.get_by_role("button", name="Stay signed in").click()
    expect(note).to_be_hidden()
    expect(other.get_by_role("form", name="Your session expires in")).to_be_hidden()  # it was notified
    put(page, 1.5)
    expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible()
