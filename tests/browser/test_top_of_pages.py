"""The palette, the tray, the bell and toasts, in a browser and over a real socket."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from playwright.sync_api import Page, expect

from conductor.core.states import RunState
from conductor.journal.models import WorkflowRun
from tests import factories
from tests.browser.conftest import OpenPage, go, wait_until_ready
from tests.browser.wire import Wire


def began_here(page: Page, people: Any, *names: str) -> list[WorkflowRun]:
    """Runs of ana's as her browser's own: they carry the id of a request that it has sent."""
    go(page, "/servers")
    page.evaluate("document.querySelector('form[action$=\"/servers/columns\"]').submit()")
    page.wait_for_load_state()
    wait_until_ready(page)
    from django.contrib.sessions.models import Session

    session = max(Session.objects.all(), key=lambda one: len(one.get_decoded().get("started", ())))
    caller = replace(people.ana.context(), request_id=session.get_decoded()["started"][-1])
    return [factories.run(caller, "cell1", instance_name=name) for name in names]


def end(run: WorkflowRun, state: RunState, **values: Any) -> None:
    WorkflowRun.objects.using("cell1").filter(pk=run.pk).update(state=state, finished_at=factories.ago(0), **values)
    factories.emit(run, "run.ended")


def test_the_palette_finds_and_opens_by_keyboard(open_page: OpenPage, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-front-1")
    page = open_page("ana")
    go(page, "/workflows")
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search and commands")
    expect(dialog.get_by_role("option", name="Launch server")).to_be_visible()
    page.keyboard.type("front")
    expect(dialog.get_by_role("option", name=re.compile("^web-front-1"))).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/servers/{server.uuid}$"))


def test_the_palette_says_when_the_search_does_not_answer(open_page: OpenPage, wire: Wire) -> None:
    page = open_page("ana")
    go(page, "/workflows")
    wire.cut()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search and commands")
    expect(dialog.locator("[data-palette-words]")).to_contain_text("Search isn't available now")
    wire.mend()
    page.keyboard.type("launch")
    expect(dialog.get_by_role("option", name="Launch server")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_tray_counts_and_the_bell_shows_results(open_page: OpenPage, people: Any) -> None:
    page = open_page("ana")
    (run, other) = began_here(page, people, "web-1", "web-2")
    go(page, "/profile")  # a page that follows nothing itself
    expect(page.get_by_label("2 of your workflows are running")).to_be_visible()
    end(run, RunState.FAILED_UNDONE, error={"message": "No room"})
    expect(page.get_by_label("1 of your workflows is running")).to_be_visible()
    toast = page.locator("[data-toasts=bad] .toast")
    expect(toast).to_contain_text("Create web-1: failed")
    end(other, RunState.DONE)
    expect(page.locator("[data-toasts=good] .toast")).to_contain_text("Create web-2: done")
    page.get_by_label("2 notifications").click()
    expect(page.locator("#tray-bell")).to_contain_text("No room")
    page.get_by_label("Clear Create web-2").click()
    expect(page.get_by_label("1 notification", exact=True)).to_be_visible()
    expect(toast).to_be_visible()  # bad news stays until it is closed
    toast.get_by_label("Close").click()
    expect(toast).to_have_count(0)
    go(page, "/profile")
    expect(page.get_by_label("1 notification", exact=True)).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)  # shown once


def test_many_workflows_that_end_together_show_one_toast(open_page: OpenPage, people: Any) -> None:
    page = open_page("ana")
    runs = began_here(page, people, "web-1", "web-2", "web-3")
    WorkflowRun.objects.using("cell1").filter(pk__in=[run.pk for run in runs]).update(
        state=RunState.DONE, finished_at=factories.ago(0)
    )
    factories.emit(runs[0], "run.ended")
    expect(page.locator(".toast")).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("3 workflows completed")


def test_the_displayed_workflow_shows_no_toast(open_page: OpenPage, people: Any) -> None:
    page = open_page("ana")
    (run,) = began_here(page, people, "web-1")
    go(page, f"/workflows/{run.uuid}")
    end(run, RunState.FAILED_UNDONE)  # as a toast it would stay
    expect(page.get_by_label("1 notification", exact=True)).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)


def test_without_scripts_the_bell_is_a_page(open_page: OpenPage, people: Any) -> None:
    run = factories.run(
        people.ana.context(), "cell1", state="done", instance_name="web-1", finished_at=factories.ago(5)
    )
    page = open_page("ana", java_script_enabled=False)
    page.goto("/")
    page.get_by_role("link", name="Notifications").click()
    expect(page.get_by_role("link", name="Create web-1")).to_have_attribute("href", f"/workflows/{run.uuid}")
    page.get_by_role("button", name="Clear all").click()
    expect(page.get_by_text("No completed workflows")).to_be_visible()
