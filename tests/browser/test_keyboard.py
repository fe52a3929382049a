"""The portal by keyboard alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests import factories
from tests.browser.conftest import OpenPage, go, wait_until_ready


def accessible(page: Page) -> list[tuple[str, str, bool | None]]:
    """Role, name and whether it is modal, of all that a screen reader finds."""
    session = page.context.new_cdp_session(page)
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    session.detach()
    modal = [
        {reported["name"]: reported["value"].get("value") for reported in node.get("properties", ())} for node in nodes
    ]
    found = [(node["role"]["value"], node["name"]["value"]) for node in nodes if "name" in node]
    assert len(found) == len(nodes)
    return [
        (*reported, known.get("modal"))
        for reported, known in zip(found, modal, strict=True)
        if reported[0] != "RootWebArea"
    ]


def test_every_page_has_a_keyboard_shortcut(open_page: OpenPage) -> None:
    page = open_page("admin")
    go(page, "/")
    for keys, path in (("gs", "/servers"), ("gw", "/workflows"), ("go", "/hosts"), ("gh", "/")):
        for key in keys:
            page.keyboard.press(key)
        expect(page).to_have_url(re.compile(rf":\d+{path}$"))
        wait_until_ready(page)
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile("/servers/launch$"))


def test_slash_searches_and_letters_in_a_field_are_letters(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/")
    page.keyboard.press("/")
    expect(page.get_by_label("Search everything by name or ID")).to_be_focused()
    page.keyboard.type("gs/?c")
    expect(page.get_by_label("Search everything by name or ID")).to_have_value("gs/?c")
    expect(page).to_have_url(re.compile(r":\d+/$"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q=gs"))


def test_question_mark_lists_the_keys_and_gives_the_focus_back(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/")
    page.get_by_role("link", name="Servers", exact=True).focus()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog.get_by_role("heading", name="Keyboard")).to_be_focused()  # what is read goes on with the list
    first = [("dialog", "Keyboard", True), ("heading", "Keyboard", None), ("DescriptionList", "", None)]
    assert accessible(page)[:3] == first
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("link", name="Servers", exact=True)).to_be_focused()


def test_rows_are_focused_selected_and_opened_by_keys(open_page: OpenPage, people: Any) -> None:
    for number in (3, 2, 1):
        factories.instance(people.ana.context(), f"web-{number}", age=number)
    page = open_page("ana")
    go(page, "/servers")
    for key in "jjkj":
        page.keyboard.press(key)
    page.keyboard.press("x")
    expect(page.get_by_label("Select web-2")).to_be_checked()
    expect(page.get_by_text("1 server selected")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="web-2")).to_be_visible()


def test_brackets_switch_tabs(open_page: OpenPage, people: Any) -> None:
    parent, _ = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, f"/workflows/{parent.uuid}")
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile("/graph$"))
    wait_until_ready(page)
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile(f"/{parent.uuid}$"))
    wait_until_ready(page)
    page.keyboard.press("4")
    expect(page).to_have_url(re.compile("/placement$"))


NO_WORD_IS_CUT = """() => {
  const edge = document.querySelector(".timeline-axis .track").getBoundingClientRect();
  const words = [...document.querySelectorAll(".timeline-axis text")].filter((one) => one.textContent);
  const seen = words.filter((one) => one.checkVisibility({ visibilityProperty: true }));
  const places = seen.map((one) => one.getBoundingClientRect());
  const isWhole = places.every(({ left, right }) => edge.left <= left && right <= edge.right);
  return isWhole && seen.length > 0 && seen.length < words.length; // some are out of sight, or in it by half
}"""


def test_a_workflow_is_zoomed_followed_linked_and_left_by_keys(open_page: OpenPage, people: Any) -> None:
    parent, _ = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, f"/workflows/{parent.uuid}")
    track = page.locator(".timeline-row .track svg").nth(1)
    whole = track.bounding_box()
    assert whole is not None
    for key in ("+", "+", "ArrowRight"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(r"zoom=2\.25&from=0\.3889$"))
    zoomed = track.bounding_box()
    assert zoomed is not None
    assert abs(zoomed["width"] - 2.25 * whole["width"]) < 2
    page.wait_for_function(NO_WORD_IS_CUT)  # at one moment: the page is drawn anew as time goes on
    page.keyboard.press("f")
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("c")
    copied = page.url
    expect(page.get_by_text("Link to this view copied")).to_be_attached()
    go(page, copied)  # a user who was given the link
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    assert abs((track.bounding_box() or zoomed)["width"] - zoomed["width"]) < 2
    page.keyboard.press("0")
    expect(page).to_have_url(re.compile(rf"{parent.uuid}\?follow=1$"))
    go(page, f"/workflows/{parent.uuid}/graph?zoom=2")
    svg = page.locator(".graph-scroll svg")
    large = svg.bounding_box()
    page.keyboard.press("-")
    assert (svg.bounding_box() or {"width": 0})["width"] < (large or {"width": 0})["width"]
    page.keyboard.press("?")
    page.keyboard.press("Escape")  # what is open goes first
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/workflows$"))


def test_keys_can_be_changed(open_page: OpenPage, people: Any) -> None:
    factories.instance(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, "/servers")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    dialog.get_by_text("Change a key in this browser").click()
    dialog.get_by_label("Key", exact=True).select_option("x")
    dialog.get_by_label("becomes").fill("p")
    dialog.get_by_role("button", name="Change", exact=True).click()
    go(page, "/servers")  # it is kept
    for key in ("j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_label("Select web-1")).not_to_be_checked()
    page.keyboard.press("p")
    expect(page.get_by_label("Select web-1")).to_be_checked()
    page.keyboard.press("?")
    dialog.get_by_text("Change a key in this browser").click()
    dialog.get_by_role("button", name="Reset all keys").click()
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    expect(page.get_by_label("Select web-1")).not_to_be_checked()


def test_the_first_tab_stop_skips_the_navigation(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/servers")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_deleting_by_keyboard_asks_and_can_be_cancelled(open_page: OpenPage, people: Any) -> None:
    made = factories.instance(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, f"/servers/{made.uuid}")
    page.get_by_role("link", name="Delete").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Delete web-1?")
    expect(dialog).to_be_visible()
    expect(dialog).to_have_accessible_description(re.compile("Deletes the server and its disk permanently"))
    assert [role for role, _, is_modal in accessible(page) if is_modal or role in ("main", "navigation")] == ["dialog"]
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("link", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Delete server").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".head .state-word")).to_have_text("deleting")


@pytest.mark.parametrize("path", ["/", "/servers", "/servers/launch", "/workflows"])
def test_every_stop_shows_that_it_has_the_focus(open_page: OpenPage, people: Any, path: str) -> None:
    factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, path)
    bare = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        bare |= set(
            page.evaluate(
                """() => {
                    const e = document.activeElement;
                    if (!e || e === document.body) return [];
                    const shown = [e, e.closest("label")].filter(Boolean).map((x) => getComputedStyle(x));
                    const has = shown.some((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2);
                    return has ? [] : [e.outerHTML.slice(0, 120)];
                }"""
            )
        )
    assert bare == set()
