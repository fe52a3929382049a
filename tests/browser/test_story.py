"""A server is created, fails, is explained and tried again: by keyboard alone, on a phone and at twice the size."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import Service
from tests.browser.conftest import PHONE, OpenPage, go, wait_until_live, wait_until_ready
from tests.integration.flows.conftest import hosts
from tests.integration.flows.moving import Hosts, run_to_the_end

__all__ = ["hosts"]

MOST_STOPS = 80
TWICE_THE_SIZE = {"width": 720, "height": 450}  # what a desk of 1440 by 900 has room for then


def close(*, is_closed: bool) -> None:
    Service.objects.using("cell1").filter(binary="nova-compute").update(is_disabled=is_closed)


def walk_to(page: Page, wanted: Locator) -> None:
    """Reach an element with the Tab key; the focus must stay visible, not under a bar."""
    expect(wanted).to_be_visible()
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if wanted.evaluate("e => e === document.activeElement"):
            break
    expect(wanted).to_be_focused()
    expect(wanted).to_be_in_viewport()


def follow(page: Page, name: str) -> None:
    walk_to(page, page.get_by_role("main").get_by_role("link", name=name, exact=True))
    page.keyboard.press("Enter")


def test_a_server_fails_is_explained_and_tried_again(open_page: OpenPage, hosts: Hosts, settings: Any) -> None:
    """Every state is found by its word, for users that cannot see colours."""
    settings.NOVELLA_HOST_DOWN_SECONDS = 3600.0  # no heartbeats here, however long the browser takes
    page = open_page("ana", viewport=TWICE_THE_SIZE, color_scheme="dark")
    go(page, "/servers")
    page.keyboard.press("c")
    page.wait_for_url("**/servers/launch")
    wait_until_ready(page)
    walk_to(page, page.get_by_label("Name", exact=True))
    page.keyboard.type("web")
    expect(page.get_by_text("Fits now on 3 of 3 hosts")).to_be_visible()
    close(is_closed=True)  # meanwhile, as others may be faster
    page.keyboard.press("Enter")
    expect(page.get_by_text("No host is available now")).to_be_visible()
    expect(page.locator("#confirm-launch")).to_be_focused()
    assert not BuildRequest.objects.exists()
    walk_to(page, page.get_by_role("button", name="Launch anyway"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/workflows/*")
    wait_until_live(page)
    run_to_the_end(hosts)
    head = page.get_by_role("main").locator(".head-title .state-word")
    expect(head).to_contain_text("failed")
    follow(page, "Placement")
    expect(page.get_by_text("No host is eligible")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("3 of 3 hosts")
    page.set_viewport_size(PHONE)
    follow(page, "Open server")
    close(is_closed=False)
    wait_until_ready(page)
    follow(page, "Retry")
    again = page.get_by_role("main").get_by_role("button", name="Retry")
    walk_to(page, again)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Overview")).to_be_visible()
    wait_until_live(page)
    run_to_the_end(hosts)
    expect(head).to_have_text("active")
