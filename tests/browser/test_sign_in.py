"""Signing in and out in a browser; the theme; and what works without scripts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests import factories
from tests.browser.conftest import OpenPage, go, sign_in


def test_signing_in_opens_the_requested_page(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/workflows")
    expect(page).to_have_title("Sign in · Novella")
    sign_in(page, "ana", "/workflows")
    expect(page).to_have_title("Workflows · Novella")
    expect(page.get_by_role("link", name="Project shop")).to_be_visible()


def test_a_wrong_password_is_reported_and_the_name_is_kept(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/sign-in")
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Wrong user name or password")
    expect(page.get_by_label("User name")).to_have_value("ana")
    expect(page.get_by_label("Password")).to_be_focused()


def test_the_project_is_chosen_where_there_are_several(open_page: OpenPage) -> None:
    factories.user("ana", lab="reader")
    page = open_page()
    sign_in(page, "ana")
    expect(page.get_by_role("heading", name="Select a project")).to_be_visible()
    page.get_by_text("lab", exact=True).click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("link", name="Project lab")).to_be_visible()


def test_signing_out_from_the_menu(open_page: OpenPage) -> None:
    page = open_page()
    sign_in(page, "ana")
    page.get_by_label("Account of ana").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    page.goto("/servers")
    expect(page).to_have_url(re.compile("/sign-in"))


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(244, 245, 247)"), ("dark", "rgb(11, 14, 19)")])
def test_pages_follow_the_system(open_page: OpenPage, scheme: Any, ground: str) -> None:
    page = open_page("ana", color_scheme=scheme)
    page.goto("/")
    expect(page.locator("body")).to_have_css("background-color", ground)


def test_a_chosen_theme_holds_at_once_and_everywhere(open_page: OpenPage) -> None:
    page = open_page("ana", color_scheme="light")
    go(page, "/")
    page.get_by_label("Account of ana").click()
    with page.expect_response("**/theme") as answered:
        page.get_by_role("button", name="Dark").click()
    assert answered.value.status == 204
    expect(page.locator("body")).to_have_css("background-color", "rgb(11, 14, 19)")
    other = open_page("ana", color_scheme="light")
    # The server renders the theme, so the page never flashes in the other one.
    assert 'data-theme="dark"' in other.request.get("/").text()
    other.goto("/")
    expect(other.locator("body")).to_have_css("background-color", "rgb(11, 14, 19)")


def test_pages_can_be_read_and_used_without_scripts(open_page: OpenPage, people: Any) -> None:
    parent, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana", java_script_enabled=False)
    page.goto("/servers")
    expect(page.get_by_role("row", name="web-1")).to_contain_text("Spawn on host 3/4")
    page.goto(f"/workflows/{parent.uuid}")
    expect(page.get_by_text("Plug networks", exact=True)).to_be_visible()
    assert page.locator("rect.bar").count() >= 7
    page.goto(f"/servers/{child.instance_uuid}")
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_role("heading", name="Delete 1 server?")).to_be_visible()
    page.get_by_role("button", name="Delete 1 server").click()
    expect(page.locator(".head .state-word")).to_have_text("deleting")
