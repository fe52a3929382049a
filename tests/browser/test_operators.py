"""Operators at work in a real browser: the triage by keyboard, and two hosts emptied by the wizard, watched live."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from conductor import events
from conductor.cell_db.models import Drain, Service
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord, PeriodicLease
from conductor.services.fleet import unresponsive_hosts
from portal.pages.hosts import fleet, fleet_drawing
from tests import factories
from tests.browser.conftest import DESKTOP, OpenPage, go, wait_until_live
from tests.fixtures.drains import drained, pack, unpack
from tests.fixtures.triage import finding, not_clean
from tests.fleet import add_host
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import Hosts, instance_of

__all__ = ["ana", "hosts", "launch"]

CELL = "cell1"


def test_the_triage_by_keyboard(open_page: OpenPage, people: Any) -> None:
    not_clean(people)
    finding(detail="2 VCPU are held without a server.")
    page = open_page("admin")
    go(page, "/triage")
    wait_until_live(page)
    count = page.locator(".nav a[href='/triage'] .nav-count").first
    expect(count).to_have_text("2")
    page.keyboard.press("j")
    page.keyboard.press("a")
    line = page.get_by_role("listitem").filter(has_text="Root cause, in step SpawnOnHost: no disk")
    expect(line.get_by_label("Reason").first).to_be_focused()
    page.keyboard.type("the port is free by now")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="requested: ")).to_be_visible()
    assert AuditRecord.objects.using(CELL).get(action="workflow.undo").reason == "the port is free by now"
    other = page.get_by_role("listitem").filter(has_text="2 VCPU are held without a server.")
    other.get_by_text("Snooze…").click()
    other.get_by_label("Duration").select_option("a day")
    other.get_by_label("Reason").last.fill("after the release")
    other.get_by_role("button", name="Snooze", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="snoozed for a day")).to_be_visible()
    expect(page.get_by_text("2 VCPU are held without a server.")).to_have_count(0)
    page.get_by_label("Triage").get_by_role("link", name="Snooze").click()
    expect(page.get_by_text("after the release")).to_be_visible()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Item restored to the list.")).to_be_visible()


def test_an_open_page_shows_that_a_host_stopped_responding(open_page: OpenPage, people: Any) -> None:
    """Nothing else happens in the cloud: only the conductor's check finds it."""
    for name in ("rack-1", "rack-2"):
        add_host(name)
    unresponsive_hosts.report(CELL)  # the first look
    PeriodicLease.objects.using(CELL).filter(name=unresponsive_hosts.NAME).update(done_at=factories.ago(3600))
    listed, mapped = open_page("admin"), open_page("admin")
    for page, path in ((listed, "/hosts"), (mapped, "/fleet")):
        go(page, path)
        wait_until_live(page)
        expect(page.get_by_role("row").filter(has_text="rack-2")).to_contain_text("up")
    Service.objects.using(CELL).filter(host="rack-2").update(last_seen_at=factories.ago(600))
    assert unresponsive_hosts.report(CELL) == ["rack-2"]
    for page in (listed, mapped):
        expect(page.get_by_role("row").filter(has_text="rack-2")).to_contain_text("down")
        expect(page.get_by_role("row").filter(has_text="rack-1")).to_contain_text("up")


def test_hosts_are_selected_on_the_map(open_page: OpenPage, people: Any) -> None:
    for number in range(90):
        add_host(f"rack-{number:02}")
    page = open_page("admin", viewport=DESKTOP)
    go(page, "/fleet")
    wait_until_live(page)
    squares = page.locator("[data-host]")
    around = page.locator(".fleet-squares").bounding_box()
    assert around is not None
    page.mouse.move(around["x"] + 20, around["y"] + 20)
    page.mouse.down()
    page.mouse.move(around["x"] + 50, around["y"] + 50, steps=4)
    page.mouse.up()
    bar = page.locator("[data-bulk-bar]")
    expect(bar).to_contain_text("4 hosts selected")
    assert page.url.endswith("/fleet")  # the link under the pointer was not followed
    expect(page.get_by_role("checkbox", name="Select rack-00", exact=True)).to_be_checked()
    expect(squares.first).to_have_attribute("aria-label", "rack-00: up, memory used 0 %, selected")
    squares.first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(bar).to_contain_text("5 hosts selected")
    page.get_by_role("checkbox", name="Select rack-80", exact=True).check()
    expect(page.locator("[data-chosen]")).to_have_count(6)
    page.get_by_label("Search hosts, zones or aggregates").fill("rack-01")
    expect(page.get_by_text("1 host matches")).to_be_visible()
    expect(bar).to_contain_text("6 hosts selected")  # also those that the table shows no more
    page.get_by_role("button", name="Select hosts").click()
    squares.nth(5).click()
    expect(bar).to_contain_text("7 hosts selected")
    page.get_by_role("button", name="Disable…").click()
    expect(page.get_by_role("heading", name="Disable: 7 hosts?")).to_be_visible()
    page.get_by_label("Reason").fill("new fans")
    page.get_by_role("button", name="Disable", exact=True).click()
    expect(page.get_by_role("heading", name="Disable: 7 completed")).to_be_visible()
    assert Service.objects.using(CELL).filter(is_disabled=True, disabled_reason="new fans").count() == 7


def test_hosts_are_selected_at_a_distance_and_on_several_pages(
    open_page: OpenPage, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_drawing, "MOST_LINKED", 60)  # a fleet of thousands, in small
    monkeypatch.setattr(fleet, "ROWS_PER_PAGE", 20)
    heard = {"binary": "nova-compute", "last_seen_at": factories.ago(-3600), "created_at": factories.ago(9)}
    Service.objects.using(CELL).bulk_create(Service(host=f"rack-{number:02}", **heard) for number in range(70))
    page = open_page("admin", viewport=DESKTOP)
    go(page, "/fleet")
    wait_until_live(page)
    svg = page.locator(".fleet-squares").bounding_box()
    assert svg is not None
    pitch = svg["width"] * 10 / 131  # thirteen squares of ten in a row
    page.mouse.move(svg["x"] + 2, svg["y"] + 2)
    page.mouse.down()
    page.mouse.move(svg["x"] + 2.5 * pitch, svg["y"] + 1.5 * pitch, steps=4)
    page.mouse.up()
    bar = page.locator("[data-bulk-bar]")
    expect(bar).to_contain_text("6 hosts selected")
    expect(page.get_by_role("checkbox", name="Select rack-13", exact=True)).to_be_checked()
    page.get_by_role("link", name="Next page").press("Enter")
    expect(page.get_by_role("checkbox", name="Select rack-39", exact=True)).to_be_visible()
    wait_until_live(page)
    expect(bar).to_contain_text("6 hosts selected")
    page.get_by_role("checkbox", name="Select all on this page").check()
    expect(bar).to_contain_text("26 hosts selected")
    page.get_by_role("checkbox", name="Select all on this page").uncheck()
    expect(bar).to_contain_text("6 hosts selected")
    page.get_by_role("button", name="Select hosts").click()
    page.evaluate("scrollTo(0, 0)")
    page.mouse.click(svg["x"] + 5.5 * pitch, svg["y"] + 0.5 * pitch)
    expect(bar).to_contain_text("7 hosts selected")
    go(page, "/hosts")
    go(page, "/fleet")
    expect(bar).to_be_hidden()  # a new visit starts from the beginning


def test_a_distant_map_is_used_by_keyboard(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_drawing, "MOST_LINKED", 20)  # a fleet of thousands, in small
    monkeypatch.setattr(fleet_drawing, "MOST_TILES", 5)
    monkeypatch.setattr(fleet, "MOST_TILES", 5)
    heard = {"binary": "nova-compute", "last_seen_at": factories.ago(-3600), "created_at": factories.ago(9)}
    for zone, numbers in (("east", range(30)), ("west", range(30, 70))):
        Service.objects.using(CELL).bulk_create(
            Service(host=f"rack-{number:02}", availability_zone=zone, **heard) for number in numbers
        )
    page = open_page("admin", viewport=DESKTOP)
    go(page, "/fleet")
    page.get_by_role("link", name="east in cell1, group 1 of 2: 30 hosts: 30 up").focus()
    page.keyboard.press("ArrowRight")
    west = page.get_by_role("link", name="west in cell1, group 2 of 2: 40 hosts: 40 up")
    expect(west).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/fleet?cell=cell1&zone=west")
    expect(page.get_by_role("link", name="rack-30: 1 of 40, ")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("link", name="rack-31: 2 of 40, ")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("[data-bulk-bar]")).to_contain_text("1 host selected")
    page.keyboard.press("-")
    page.wait_for_url("**/fleet?cell=cell1")
    expect(page.get_by_role("link", name="in no other aggregate in west")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("tr[data-picked]")).to_be_focused()


def pause_a_resumed_run(page: Page) -> None:
    """Pause on the page of one host, whose buttons are updated live meanwhile, without a token of their own."""
    go(page, "/hosts/sim-1/drain")
    wait_until_live(page)
    with write_tx(CELL):
        Drain.objects.using(CELL).filter(host="sim-1").update(is_paused=False)
        events.append(CELL, events.about_host("sim-1"), "host.updated", {})
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Drain paused. No further moves start.")).to_be_visible()
    go(page, "/drains")


def test_two_hosts_are_emptied_by_the_wizard(open_page: OpenPage, hosts: Hosts, launch: Any, settings: Any) -> None:
    settings.NOVELLA_HOST_DOWN_SECONDS = 3600.0  # no heartbeats here, however long the browser takes
    pack("sim-1")
    uuids = [launch("web-1"), launch("web-2")]
    unpack()
    page = open_page("admin")
    go(page, "/hosts")
    page.get_by_label("Select sim-1").check()
    page.get_by_label("Select sim-2").check()
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("heading", name="Drain 2 hosts?")).to_be_visible()
    plan = page.get_by_role("row").filter(has=page.get_by_role("link", name="web-1"))
    expect(plan.get_by_role("link", name="sim-3")).to_be_visible()
    page.get_by_label("Reason").fill("new fans")
    page.get_by_role("button", name="Drain hosts").click()
    expect(page.get_by_text("2 hosts are being emptied.")).to_be_visible()
    wait_until_live(page)
    page.get_by_role("button", name="Pause all").click()
    expect(page.get_by_text("2 hosts: Drain paused. No further moves start.")).to_be_visible()
    pause_a_resumed_run(page)
    page.get_by_role("button", name="Resume all").click()
    expect(page.get_by_text("2 hosts: Drain resumed.")).to_be_visible()  # of the page after it, not the one clicked on
    expect(page.get_by_text("0 of 2 servers moved")).to_be_visible()
    wait_until_live(page)
    page.evaluate("window.isTheSamePage = true")
    assert drained(hosts)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="sim-1"))
    expect(row).to_contain_text("done")
    assert page.evaluate("window.isTheSamePage")
    assert {instance_of(uuid).host for uuid in uuids} == {"sim-3"}
    row.get_by_role("link", name="sim-1").click()
    expect(page.get_by_text("No servers left")).to_be_visible()
    page.get_by_role("link", name="Enable…", exact=True).click()
    page.get_by_label("Reason").fill("the fans turn")
    page.locator("main form button.primary").click()
    page.wait_for_url("**/hosts/sim-1*")
    assert not Service.objects.using(CELL).get(host="sim-1").is_disabled


def test_more_quota_is_requested_and_approved(open_page: OpenPage, people: Any) -> None:
    factories.cells()
    page = open_page("ana")
    go(page, "/quotas")
    page.get_by_role("link", name="Request increase").click()
    page.get_by_label("vCPU: requested limit").fill("100")
    page.get_by_label("Reason for the request").fill("the autumn sale")
    page.get_by_role("button", name="Request quota increase").click()
    link = page.get_by_role("alert").get_by_role("link", name="Enter more than the current limit, 200")
    link.click()
    expect(page.get_by_label("vCPU: requested limit")).to_be_focused()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("300")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Request sent. The decision appears on this page.")).to_be_visible()
    expect(page.get_by_role("region", name="Requested")).to_contain_text("vCPU: 200 → 300")
    operator = open_page("admin")
    go(operator, "/quota-requests")
    operator.get_by_text("Approve…").click()
    operator.get_by_label("Comment").fill("until the new year")
    operator.get_by_role("button", name="Set these limits").click()
    expect(operator.get_by_text("Request approved. shop has the new limits.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("region", name="Requested")).to_contain_text("admin: until the new year")
