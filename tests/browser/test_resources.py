"""Resources in a browser: every page fits, is named and readable; the drawer, the forms and values shown once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, expect

from conductor.services.servers import flavors
from conductor.volume.models import Volume
from tests import factories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, go
from tests.waiting import wait_until

CHECKS = (Path(__file__).parent / "checks.js").read_text()
FORMS = ("/volumes/do/create", "/security-rules/do/create", "/credentials/do/create", "/images/do/create")
LISTS = ("/volumes", "/images", "/flavors", "/networks", "/security-groups", "/key-pairs", "/server-groups")
OTHERS = ("/networks/topology", "/security-groups/reach", "/quotas", "/usage", "/activity", "/profile")
TABS = ("volumes", "network", "metadata", "placement", "topology", "danger")


def fill(page: Page, path: str, **values: str) -> None:
    go(page, path)
    for name, value in values.items():
        page.locator(f"main [name={name}]").fill(value)
    page.locator("main form button.primary").click()


def test_a_volume_by_keyboard_beside_its_list(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/volumes/do/create")
    page.get_by_label("Name", exact=True).fill("data")
    page.get_by_text("CLI and API").click()
    expect(page.get_by_text("openstack volume create --size 10 data")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Name", exact=True).press("Enter")
    page.wait_for_url("**/volumes/of/*")
    go(page, "/volumes/do/create")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")  # the draft went with what was made
    go(page, "/volumes")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name="Volume")
    expect(drawer.get_by_role("heading", name="data", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    page.get_by_label("Select data").check()
    expect(page.get_by_text("1 volume selected")).to_be_visible()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete volume").click()
    expect(page.get_by_text("Delete completed: data.")).to_be_visible()
    assert not Volume.objects.exists()


def test_values_shown_once_can_be_saved(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page, "/key-pairs/do/generate", name="laptop")
    with page.expect_download() as found:
        page.get_by_role("button", name="Save as file").click()
    assert "PRIVATE KEY" in Path(found.value.path()).read_text()
    assert found.value.suggested_filename.startswith("laptop")


def test_resource_pages_fit_and_are_readable(open_page: OpenPage, people: Any) -> None:
    caller = people.ana.context()
    flavors.seed()
    factories.host("sim-1")
    factories.image("simulated-linux", people.admin.context(), is_simulated=True)
    factories.network("private", caller)
    factories.instance(caller, "a-server-with-a-long-name-that-does-not-fit-into-one-line-1", tags=["blue"])
    server = factories.instance(caller, "web", metadata={"team": "shop"})
    page = open_page("ana", viewport=DESKTOP, reduced_motion="reduce")
    fill(page, "/volumes/do/create", name="data", size="3")
    volume = page.url
    paths = [*LISTS, *FORMS, *OTHERS, volume, "/servers", *(f"/servers/{server.uuid}/{tab}" for tab in TABS)]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in paths:
            page.goto(path)
            assert page.evaluate(f"({CHECKS}).all()") == [], (path, scheme)
    page.set_viewport_size(PHONE)
    for path in paths:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path


def test_slow_parts_are_drawn_as_skeletons_and_failures_are_shown(open_page: OpenPage, people: Any) -> None:
    factories.instance(people.ana.context(), "web-1")
    page = open_page("ana")
    go(page, "/servers")
    requests: list[Route] = []
    page.route(re.compile("/servers[?]"), lambda route: requests.append(route))  # answered when the test says so
    page.locator("#name-filter").fill("web")
    expect(page.locator("#servers-live")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#servers-live .name")).to_have_css("opacity", "0")
    # It was sent; this side notices while it talks to the page.
    wait_until("the list is requested", lambda: page.evaluate("true") and requests)
    requests.pop().fulfill(status=500, headers={"x-openstack-request-id": "req-7"}, body="")
    reported = page.get_by_role("alert").filter(has_text="error 500")
    expect(reported).to_contain_text("req-7")
    expect(page.locator("#servers-live")).not_to_have_attribute("aria-busy", "true")
    page.unroute_all()
    reported.get_by_role("button", name="Retry").click()
    expect(page).to_have_url(re.compile("name=web"))
    expect(reported).to_have_count(0)
