"""An operator helps a stuck workflow in a real browser: by keyboard, without scripts, on a phone, in the dark."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from conductor.core.states import RunState, StepState
from conductor.journal.models import AuditRecord, StepRecord, WorkflowRun
from conductor.workflows.flows.build import BUILD_IN_CELL, SpawnOnHost
from tests import factories
from tests.browser.conftest import PHONE, OpenPage, wait_until_live


@pytest.fixture
def stuck(people: Any) -> WorkflowRun:
    """A build whose step on the host has failed and waits for its next try."""
    _, child = factories.build(people.ana.context(), "web-1")
    error = {"class": "DriverError", "message": "The disk is full", "step": "SpawnOnHost", "attempt": 1}
    records = StepRecord.objects.using("cell1").filter(run=child)
    for index, step in reversed(list(enumerate(BUILD_IN_CELL.steps))):  # as in the flow's own plan
        records.filter(name=step.name).update(index=index)
    spawn = records.get(name=SpawnOnHost.name)
    records.filter(pk=spawn.pk).update(state=StepState.FAILED, host="sim-1", error=error, finished_at=factories.ago(0))
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(
        state=RunState.WAITING,
        owner=None,
        lease_expires_at=None,
        plan=BUILD_IN_CELL.plan(),
        position=spawn.index,
        waits_for={"cause": "timer", "detail": "next try of Spawn on host"},
    )
    return child


def keep(page: Page, name: str) -> None:
    """Save a screenshot if requested."""
    folder = os.environ.get("PICTURES_OF_TESTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_marked_as_done_by_keyboard_alone(open_page: OpenPage, stuck: WorkflowRun) -> None:
    page = open_page("admin")
    page.goto(f"/workflows/{stuck.uuid}")
    wait_until_live(page)
    keep(page, "workflow")
    button = page.get_by_role("link", name="Skip step or mark as done")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Skip step or mark as done?")).to_be_visible()
    page.get_by_label("Done manually").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.type("SpawnOnHost")
    page.keyboard.press("Tab")
    page.keyboard.type("Spawned it by hand after making room")
    keep(page, "skip-form")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="request accepted")).to_be_visible()
    expect(page.locator("#workflow-head")).to_contain_text("skip requested")
    record = AuditRecord.objects.using("cell1").get()
    assert (record.action, record.result, record.user_name) == ("workflow.skip", "done", "admin")


def test_without_scripts_on_a_phone_in_the_dark(open_page: OpenPage, stuck: WorkflowRun) -> None:
    page = open_page("admin", java_script_enabled=False, viewport=PHONE, color_scheme="dark")
    page.goto(f"/workflows/{stuck.uuid}")
    page.get_by_text(re.compile(r"Unavailable actions \(\d\)")).click()
    expect(page.get_by_text("Nothing is left to clean up.")).to_be_visible()
    keep(page, "phone-dark")
    page.get_by_role("link", name="Force completion").click()
    page.get_by_label("Reason").fill("It cannot be undone")
    page.get_by_label(re.compile("^Type")).fill("wrong")
    page.get_by_role("button", name="Force completion").click()
    expect(page.get_by_role("alert").filter(has_text=str(stuck.uuid)[:8])).to_be_visible()
    keep(page, "phone-dark-refused")
    page.get_by_label(re.compile("^Type")).fill(str(stuck.uuid)[:8])
    page.get_by_role("button", name="Force completion").click()
    expect(page.locator("#workflow-cause")).to_contain_text("Not cleaned up")
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("tbody")).to_contain_text("It cannot be undone")
    keep(page, "phone-dark-audit")
    page.get_by_role("link", name="Locks").click()
    expect(page.get_by_text("operator admin")).to_be_visible()


def test_nothing_runs_over_the_edge_of_a_phone(open_page: OpenPage, stuck: WorkflowRun) -> None:
    page = open_page("admin", viewport=PHONE)
    for path in ("", "/do/skip", "/do/force", "/do/cancel", "/audit", "/locks"):
        page.goto(f"/workflows/{stuck.uuid}{path}")
        assert fits(page), path


def test_a_concurrent_change_is_reported_instead_of_success(open_page: OpenPage, stuck: WorkflowRun) -> None:
    page = open_page("ana", color_scheme="light")
    page.goto(f"/workflows/{stuck.uuid}/do/cancel")
    page.get_by_label("Reason").fill("Not wanted any more")
    WorkflowRun.objects.using("cell1").filter(pk=stuck.pk).update(attempt=2)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="has changed since")).to_be_visible()
    keep(page, "stale")
    assert not WorkflowRun.objects.using("cell1").get(pk=stuck.pk).is_cancel_requested
    expect(page.get_by_label("Reason")).to_have_value("Not wanted any more")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status").filter(has_text="request accepted")).to_be_visible()
    assert WorkflowRun.objects.using("cell1").get(pk=stuck.pk).is_cancel_requested
