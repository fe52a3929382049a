"""Consoles in a browser: the page of a server, and the page behind a link, on a host of this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from compute_drivers.fake.driver import FakeDriver
from conductor.api_db.models import ConsoleToken
from conductor.cell_db.models import Instance
from conductor.compute.console_relay import ConsoleRelay, RelayAddress
from conductor.conformance.driver import RecordedProgress
from conductor.core.consoles import ConsoleKind
from conductor.core.request_spec import ImageSpec
from conductor.rpc.messages import ConsolesOffered
from conductor.services.consoles import connections, consoles
from tests import factories
from tests.browser.conftest import PHONE, OpenPage, go
from tests.guests import ImageShelf, guest_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def server(people: Any, tmp_path: Path, settings: Any) -> Iterator[Instance]:
    """Ana's server on a simulated host whose consoles can be reached."""
    settings.NOVELLA_HOST_DOWN_SECONDS = 1800.0  # no heartbeats here, however long the browser takes
    driver = FakeDriver("sim-1", {"state_file": str(tmp_path / "guests.json")}, ImageShelf().open)
    driver.start()
    relay = ConsoleRelay(
        RelayAddress("127.0.0.1", 0, "127.0.0.1"), lambda host, uuid, kind: driver.open_console(uuid, kind)
    )
    relay.start()
    factories.cells()
    factories.host("sim-1")
    made = factories.instance(people.ana.context(), "web")
    driver.spawn(guest_of(str(made.uuid), ImageSpec(image_id="i", name="linux")), RecordedProgress())
    assert relay.announcement is not None
    connections.record("cell1", ConsolesOffered(host="sim-1", **asdict(relay.announcement)))
    yield made
    relay.stop()
    driver.stop()


def connected(page: Page, words: str) -> None:
    expect(page.locator("[data-pane-state]")).to_have_text(words)


def colours(page: Page) -> int:
    """Return the number of pixels of the screen that are ink."""
    script = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let ink = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at] > 100) ink += 1;
      return ink;
    }"""
    return int(page.locator("[data-pane-stage] canvas").first.evaluate(script))


def still(page: Page) -> int:
    """Pixels of ink once the screen has stopped changing."""
    seen = [-1]

    def is_still() -> bool:
        seen.append(colours(page))
        return seen[-1] == seen[-2]

    wait_until("the screen stands still", is_still, pause=0.3)
    return seen[-1]


def test_a_user_types_on_the_serial_console_and_sees_the_answer(open_page: OpenPage, server: Instance) -> None:
    page = open_page("ana")
    refused: list[str] = []
    page.on(
        "console",
        lambda reported: refused.append(reported.text) if "Content Security Policy" in reported.text else None,
    )
    go(page, f"/servers/{server.uuid}/console")
    page.get_by_role("button", name="Serial", exact=True).click()
    connected(page, "Serial console connected")
    expect(page.locator("[data-pane-timer]")).to_contain_text("left")
    stage = page.locator("[data-pane-stage]")
    expect(stage).to_contain_text("login:")
    page.keyboard.type("uptime\n")
    expect(stage).to_contain_text("you typed uptime")
    page.get_by_role("button", name="Type text…").click()
    page.get_by_label("Text", exact=True).fill("echo a; echo B")
    page.get_by_role("button", name="Type", exact=True).click()
    expect(stage).to_contain_text("echo a; echo B")
    page.get_by_role("button", name="Reconnect").click()
    connected(page, "Serial console connected")
    page.get_by_role("button", name="Log").click()
    expect(page.get_by_label("Serial console")).to_be_visible()
    assert refused == [], "styles of the terminal, such as that of its scroll bar"


def test_a_user_types_on_the_screen(open_page: OpenPage, server: Instance) -> None:
    page = open_page("ana", viewport=PHONE)
    go(page, f"/servers/{server.uuid}/console#vnc")
    connected(page, "Screen connected")
    page.wait_for_function("() => document.querySelector('[data-pane-stage] canvas')?.width > 300")
    wait_until("the screen is drawn", lambda: colours(page) > 1000)
    before = still(page)
    page.keyboard.type("hello")
    wait_until("what was typed is drawn", lambda: colours(page) > before + 100)
    typed = still(page)
    page.get_by_role("button", name="Type text…").click()
    page.get_by_label("Text", exact=True).fill("AB (c)")
    page.get_by_role("button", name="Type", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    wait_until("what was typed is drawn", lambda: colours(page) > typed + 100)
    page.locator(".pane-tools summary").click()
    page.get_by_role("button", name="Ctrl-Alt-Delete").click()
    Instance.objects.using("cell1").update(task_state="deleting")
    expect(page.locator("[data-pane-state]")).to_contain_text("no console while it is deleting")


def test_a_link_opens_the_screen_once_for_its_holder(open_page: OpenPage, server: Instance, people: Any) -> None:
    token = consoles.grant(people.ana.context(), str(server.uuid), ConsoleKind.VNC).token
    page = open_page()
    page.goto(f"/console?path=console%3Ftoken%3D{token}")
    connected(page, "Screen connected")
    assert "noVNC" in page.title()
    page.reload()
    expect(page.locator("[data-pane-state]")).to_contain_text("already used")
    assert ConsoleToken.objects.count() == 1


def shared_link(page: Page, kind: str) -> str:
    """Make a link in the page of a console, and read it."""
    page.get_by_role("button", name="Share console…").click()
    expect(page.locator("#share-kind")).to_have_value(kind)  # the one that is open
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#share-link").inner_text()
    page.locator("#share-dialog").get_by_role("button", name="Close").click()
    expect(page.locator("#share-link")).to_have_count(0)  # it is shown once
    return link


def watch_the_screen(owner: Page, watcher: Page) -> None:
    """Watch by a link that was opened while the server was off: the page continues by itself."""
    owner.get_by_role("button", name="Screen", exact=True).click()
    connected(owner, "Screen connected")
    link = shared_link(owner, "vnc")
    Instance.objects.using("cell1").update(power_state=4, vm_state="stopped")
    watcher.goto(link)
    connected(watcher, "The server is off. This page continues automatically when the console is available.")
    Instance.objects.using("cell1").update(power_state=1, vm_state="active")
    connected(watcher, "Screen connected")
    for page in (owner, watcher):
        page.wait_for_function("() => document.querySelector('[data-pane-stage] canvas')?.width > 300")
    watcher.locator("[data-pane-stage] canvas").click()
    watcher.keyboard.type("never")
    owner.locator("[data-pane-stage] canvas").first.click()
    before = colours(watcher)
    owner.keyboard.type("ok")
    wait_until("both have drawn it", lambda: colours(owner) == colours(watcher) > before > 1000)


def test_a_viewer_by_link_sees_input_and_output_and_sends_none(open_page: OpenPage, server: Instance) -> None:
    owner, watcher = open_page("ana"), open_page("rea", viewport=PHONE)
    go(owner, f"/servers/{server.uuid}/console#serial")
    connected(owner, "Serial console connected")
    stage, shown = (page.locator("[data-pane-stage]") for page in (owner, watcher))
    watcher.goto(shared_link(owner, "serial"))
    connected(watcher, "Serial console connected")
    expect(watcher.get_by_text("You are watching: your input isn't sent")).to_be_in_viewport()
    expect(watcher.locator("[data-pane-timer]")).to_contain_text("left")
    expect(watcher.get_by_role("button", name="Type text…")).to_have_count(0)
    stage.click()
    owner.keyboard.type("uptime\n")
    expect(shown).to_contain_text("you typed uptime")
    shown.click()
    watcher.keyboard.type("halt\n")
    owner.keyboard.type("date\n")
    expect(shown).to_contain_text("you typed date")
    expect(stage).not_to_contain_text("halt")
    owner.get_by_role("button", name="Share console…").click()
    expect(owner.locator("#console-shares [data-until]")).to_contain_text("min")
    owner.get_by_role("button", name="Revoke").click()
    expect(watcher.locator("[data-pane-state]")).to_contain_text("is no longer shared. Ask for another link.")
    expect(owner.locator("#console-shares [data-until]")).to_have_count(0)
    owner.locator("#share-dialog").get_by_role("button", name="Close").click()
    watch_the_screen(owner, watcher)


def test_a_server_that_is_off_says_why_it_has_no_console(open_page: OpenPage, server: Instance) -> None:
    Instance.objects.using("cell1").update(power_state=4, vm_state="stopped")
    page = open_page("ana")
    go(page, f"/servers/{server.uuid}/console")
    expect(page.get_by_role("button", name="Screen")).to_be_disabled()
    expect(page.locator("main")).to_contain_text("it is off. Start it first")
