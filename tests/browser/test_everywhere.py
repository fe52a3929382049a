"""Requirements of every page: it fits a phone, has accessible names, is readable in both themes, and does not shift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import DESKTOP, PHONE, OpenPage, go
from tests.fixtures.every_page import PAGES, a_little_of_everything

CHECKS = (Path(__file__).parent / "checks.js").read_text()
AXE = (Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js").read_text()
# Light shows whatever is wrong with a page; dark can only differ in its colours, a phone in what scrolls.
ASKED_OF_AXE = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
    "phone": {"type": "rule", "values": ["scrollable-region-focusable"]},
}
PAPER = {"width": 794, "height": 1123}  # A4 at 96 dots per inch
CUT_OFF = """[...document.querySelectorAll(".table-box")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => "cut off: " + box.innerText.slice(0, 80))"""
MOST_SHIFT = 0.1


@pytest.fixture
def ids(people: Any, settings: Any) -> dict[str, str]:
    return a_little_of_everything(people, settings)


@pytest.mark.timeout(900)  # more than fifty pages, and no faster than the machine
def test_every_page_is_accessible(open_page: OpenPage, ids: dict[str, str]) -> None:
    """Request each page once, and check it in the light theme, in the dark theme and on a phone."""
    page = open_page("admin", viewport=DESKTOP, has_touch=True, reduced_motion="reduce")
    wrong: dict[str, list[str]] = {}
    complaints, requests = heard_of(page)
    for name, address in PAGES.items():
        page.set_viewport_size(DESKTOP)
        page.emulate_media(color_scheme="light")
        complaints.clear()
        page.goto(address(ids))
        found = [*moved(page), *([] if name == "not found" else complaints), *elsewhere(page, requests)]
        page.evaluate(AXE)
        found += [*page.evaluate(f"({CHECKS}).all()"), *asked_of_axe(page, "light"), *too_wide(page, DESKTOP)]
        page.emulate_media(color_scheme="dark")
        found += asked_of_axe(page, "dark")
        page.set_viewport_size(PHONE)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found += [*asked_of_axe(page, "phone"), *too_wide(page, PHONE)]
        wrong[name] = [*found, *page.evaluate(f"({CHECKS}).smallTargets()")]
    assert_nothing(wrong)


def heard_of(page: Page) -> tuple[list[str], list[str]]:
    """Return the browser's errors, and all requested addresses; both lists keep growing."""
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda line: complaints.append(f"console: {line.text}") if line.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    return complaints, requests


def elsewhere(page: Page, requests: Iterable[str]) -> list[str]:
    """Return the hosts that a page requests besides its own."""
    here = ("", urlsplit(page.url).netloc)  # data that are in the address have no host
    return [f"asks elsewhere: {url}" for url in requests if urlsplit(url).netloc not in here]


def moved(page: Page) -> list[str]:
    """Return how far drawn elements moved while the page loaded, as the browser measures it."""
    shift = page.evaluate(f"({CHECKS}).shift()")
    return [f"moved by {shift:.3f} while it came"] if shift > MOST_SHIFT else []


def too_wide(page: Any, size: Mapping[str, int]) -> list[str]:
    """Return the elements and dialogs that make a page scroll sideways."""
    is_wide = page.evaluate("document.documentElement.scrollWidth") > size["width"]
    found = page.evaluate(f"({CHECKS}).wide()") or ["something of it"] if is_wide else []
    return [f"too wide: {one}" for one in [*found, *page.evaluate(f"({CHECKS}).wideDialogs()")]]


def assert_nothing(wrong: dict[str, list[str]]) -> None:
    """Report every finding, page by page."""
    assert not any(wrong.values()), "\n".join(f"{name}: {one}" for name, found in wrong.items() for one in found)


def asked_of_axe(page: Any, look: str) -> list[str]:
    """Return axe's findings on a page, as "rule: element"."""
    options = {"runOnly": ASKED_OF_AXE[look], "resultTypes": ["violations"]}
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]


def test_the_sign_in_page_too(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE, reduced_motion="reduce")  # colours change at once with the scheme
    page.goto("/sign-in")
    page.evaluate(AXE)
    found = [*too_wide(page, PHONE), *page.evaluate(f"({CHECKS}).all()")]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += asked_of_axe(page, scheme)
    assert_nothing({"sign-in": found})


def test_pages_fit_at_twice_the_text_size(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", viewport={"width": 720, "height": 450})
    for name in ("servers", "timeline", "launch"):
        page.goto(PAGES[name](ids))
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_tables_are_printed_completely(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", viewport=PAPER)
    wrong: dict[str, list[str]] = {}
    for name in ("audit", "hosts", "servers", "workflows", "settings", "plugins", "project quotas"):
        page.goto(PAGES[name](ids))
        page.emulate_media(media="print")
        assert page.locator("table").count(), name
        wrong[name] = [*too_wide(page, PAPER), *page.evaluate(CUT_OFF)]
        page.emulate_media(media="screen")
    assert_nothing(wrong)


def test_pages_have_no_motion_for_users_that_prefer_reduced_motion(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", reduced_motion="reduce")
    page.goto(PAGES["timeline"](ids))
    # Long enough to be seen: what ends at once is no motion.
    seen = "document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime > 100).length"
    assert page.evaluate(seen) == 0


def test_the_menu_of_the_rest_opens_within_a_phones_screen(open_page: OpenPage) -> None:
    page = open_page("admin", viewport=PHONE)
    go(page, "/")
    page.locator(".nav-more > summary").click()
    menu = page.locator(".nav-more > .menu-body")
    expect(menu).to_be_visible()
    box = menu.bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= PHONE["height"]
    assert box["height"] > PHONE["height"] / 3
    menu.get_by_role("link", name="Routers").click()
    expect(page.get_by_role("heading", name="Routers", exact=True)).to_be_visible()
