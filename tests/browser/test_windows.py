"""Thousands of rows in a window that scrolls: few are in the page, all are current, and what is picked stays picked."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from playwright.sync_api import Locator, Page, expect

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.db.transactions import write_tx
from tests import factories
from tests.browser.conftest import PHONE, OpenPage, go, wait_until_live

COUNT = 450
MOST_DRAWN = 90


def fleet(caller: RequestContext) -> list[UUID]:
    """Servers web-0 (the newest) to web-449, as the list shows them."""
    uuids = [UUID(int=number, version=4) for number in range(1, COUNT + 1)]
    pattern = factories.instance(caller, "web-0", uuid=uuids[0], age=10)
    mapping = InstanceMapping.objects.get(instance_uuid=uuids[0])
    rows, mappings = [], []
    for number in range(1, COUNT):
        row = Instance.objects.using("cell1").get(pk=pattern.pk) if number == 1 else rows[0]
        values = {field.attname: getattr(row, field.attname) for field in Instance._meta.concrete_fields}
        values |= {"uuid": uuids[number], "name": f"web-{number}", "created_at": factories.ago(10 + number)}
        values.pop("id", None)
        rows.append(Instance(**values))
        there = {field.attname: getattr(mapping, field.attname) for field in InstanceMapping._meta.concrete_fields}
        there |= {"instance_uuid": uuids[number], "build_run_uuid": uuids[number], "created_at": values["created_at"]}
        there.pop("id", None)
        mappings.append(InstanceMapping(**there))
    Instance.objects.using("cell1").bulk_create(rows)
    InstanceMapping.objects.bulk_create(mappings)
    return uuids


def change(uuid: UUID, **values: Any) -> None:
    Instance.objects.using("cell1").filter(uuid=uuid).update(**values)
    factories.emit_instance_event(Instance.objects.using("cell1").get(uuid=uuid), "cell1")


def change_all(uuids: list[UUID], **values: Any) -> None:
    """Change all servers in one transaction, with an event for each."""
    with write_tx("cell1"):
        Instance.objects.using("cell1").update(**values)
        for one in Instance.objects.using("cell1").filter(uuid__in=uuids):
            events.append("cell1", events.about_instance(one.uuid, one.project_id), "instance.updated")


def row(page: Page, uuid: UUID) -> Locator:
    return page.locator(f"#server-{uuid}")


def scroll_to(page: Page, share: float) -> None:
    page.locator("[data-windowed]").evaluate("(box, share) => { box.scrollTop = box.scrollHeight * share; }", share)


def read_all(page: Page) -> None:
    """Scroll to the end of what is there until there is no more."""
    words = page.locator("[data-window-words]")
    for so_far in ("200", "400"):
        expect(words).to_have_text(f"{so_far} loaded. Scroll for more")
        scroll_to(page, 1)
    expect(words).to_have_text(f"All {COUNT}")


def change_all_while_one_scrolls(page: Page, uuids: list[UUID]) -> None:
    """Change more rows than single updates are sent for: all displayed rows become current, at any scroll position."""
    change_all(uuids, vm_state="paused")
    for share in (0.2, 0.9, 0.4):
        scroll_to(page, share)
    expect(page.locator("[data-rows] .state-word", has_not_text="paused")).to_have_count(0)
    assert page.locator("[data-rows] > [data-row]").count() < MOST_DRAWN


def test_a_long_list_scrolls_with_few_rows_in_the_page(open_page: OpenPage, people: Any) -> None:
    uuids = fleet(people.ana.context())
    page = open_page("ana")
    go(page, "/servers?rows=10000")
    wait_until_live(page)
    row(page, uuids[1]).locator("input").check()
    read_all(page)
    scroll_to(page, 1)
    expect(row(page, uuids[-1])).to_be_in_viewport()
    assert page.locator("[data-rows] > [data-row]").count() < MOST_DRAWN
    expect(page.locator("[data-windowed] table")).to_have_attribute("aria-rowcount", str(COUNT + 1))
    expect(row(page, uuids[-1])).to_have_attribute("aria-rowindex", str(COUNT + 1))
    expect(row(page, uuids[0])).to_have_count(0)
    row(page, uuids[-1]).locator("input").check()
    expect(page.locator("[data-bulk-count]")).to_have_text("2 servers selected")
    # Changes out of sight are current after scrolling back; visible rows change in place.
    for uuid in (uuids[0], uuids[-1]):
        change(uuid, vm_state="stopped")
    expect(row(page, uuids[-1]).locator(".state-word")).to_have_text("stopped")
    scroll_to(page, 0)
    expect(row(page, uuids[0]).locator(".state-word")).to_have_text("stopped")
    expect(row(page, uuids[1]).locator("input")).to_be_checked()
    # The keys go on from row to row, and what has the focus is not taken away.
    page.keyboard.press("j")
    expect(page.locator("[data-row][data-picked]")).to_be_focused()
    name = page.evaluate("document.activeElement.id")
    scroll_to(page, 0.5)
    expect(row(page, uuids[COUNT // 2])).to_be_in_viewport()
    assert page.evaluate("document.activeElement.id") == name
    change_all_while_one_scrolls(page, uuids)
    assert page.evaluate("document.activeElement.id") == name
    # Selected rows that are not in the page are included.
    page.get_by_role("button", name=re.compile("Stop")).click()
    expect(page.locator("main")).to_contain_text("web-1")
    expect(page.locator("main")).to_contain_text(f"web-{COUNT - 1}")


def test_changes_of_a_window_wait_until_the_user_loads_them(open_page: OpenPage, people: Any) -> None:
    caller = people.ana.context()
    uuids = fleet(caller)
    page = open_page("ana")
    go(page, "/servers?rows=10000")
    wait_until_live(page)
    new = factories.instance(caller, "web-new", age=0)
    factories.emit_instance_event(new, "cell1", "instance.created")
    news = page.locator("[data-needs-news]")
    expect(news).to_contain_text("1 new")
    expect(row(page, new.uuid)).to_have_count(0)
    change(uuids[3], vm_state="deleted", deleted_at=factories.ago(0))
    expect(news).to_contain_text("1 removed")
    expect(row(page, uuids[3])).to_have_count(1)
    news.get_by_role("button").click()
    expect(row(page, new.uuid)).to_be_in_viewport()
    expect(row(page, uuids[3])).to_have_count(0)


def test_cards_on_a_phone_scroll_as_well(open_page: OpenPage, people: Any) -> None:
    fleet(people.ana.context())
    page = open_page("ana", viewport=PHONE)
    go(page, "/servers?rows=10000&sort=name:asc")
    read_all(page)
    assert page.locator("[data-rows] > [data-row]").count() < MOST_DRAWN
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
