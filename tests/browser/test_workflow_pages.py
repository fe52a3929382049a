"""The pages of workflows in a real browser: the step beside its workflow, why something waits, the log, the replay."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from conductor.journal.models import AuditRecord, Event, LockWait, WorkflowRun
from conductor.services.workflows.step_logs import TAIL
from tests import factories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, go, wait_until_live, wait_until_ready
from tests.browser.pictures import rescheduled
from tests.fixtures.decisions import raced
from tests.fixtures.migrations import moving
from tests.fixtures.workflow_callers import caller
from tests.fleet import add_host

__all__ = ["caller", "moving"]
CHECKS = (Path(__file__).parent / "checks.js").read_text()


def keep(page: Page, name: str) -> None:
    """Save a screenshot if requested."""
    folder = os.environ.get("PICTURES_OF_TESTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def known_kind(caller: Any, count: int = 5) -> None:
    """Builds of the past, so that it is known how long one takes."""
    for number in range(count):
        done = factories.run(caller, "cell1", age=4000 - number, state="done", finished_at=factories.ago(3985 - number))
        for index, (begun, ended) in enumerate(((0.3, 0.6), (0.6, 1.6), (1.6, 9.5), (9.5, 10.0))):
            factories.step(done, index, 4000 - begun, 4000 - ended)
        parent = factories.run(caller, age=4000 - number, state="done", finished_at=factories.ago(3999 - number))
        for index in range(3):
            factories.step(parent, index, 3999.9 - index * 0.2, 3999.8 - index * 0.2)


@pytest.fixture
def run(people: Any) -> WorkflowRun:
    """A build at its second attempt, of a kind that is known; another that waits for its lock; events of both."""
    caller = people.admin.context()
    known_kind(caller)
    child = rescheduled(caller)
    waiter = factories.run(
        caller, "cell1", flow="stop_instance", action="stop", state="queued", plan=[], started_at=None, owner=None,
        instance_uuid=child.instance_uuid, instance_name="cache-1", waits_for={"cause": "lock", "detail": "instance"},
    )  # fmt: skip
    LockWait.objects.using("cell1").create(resource=f"instance:{child.instance_uuid}", run=waiter)
    for kind, data in (
        ("run.started", {}),
        ("step.started", {"step": "SpawnOnHost", "attempt": 1, "host": "sim-1"}),
        ("step.progress", {"step": "SpawnOnHost", "progress": {"message": "copying the image", "share": 0.4}}),
        ("step.failed", {"step": "SpawnOnHost", "error": {"class": "DriverError", "message": "no memory"}}),
        ("run.write_refused", {"token": 5, "newest": 7, "owner": "worker-0"}),
    ):
        factories.emit(child, kind, **data)
    child.waiter = waiter
    return child


TABS = ("", "/graph", "/steps", "/placement", "/locks", "/logs", "/events", "/data", "/audit")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_can_be_read_at_every_size(open_page: OpenPage, run: WorkflowRun, scheme: Any) -> None:
    page = open_page("admin", viewport=DESKTOP, color_scheme=scheme, reduced_motion="reduce")
    short, query = str(run.uuid)[:8], f"?step=step-{str(run.uuid)[:8]}-do-2-2-1"
    paths = [f"/workflows/{run.uuid}{tab}" for tab in (*TABS, "/why", "?as_of=2", query, f"/step/{short}-2")]
    other = WorkflowRun.objects.using("cell1").filter(state="done").latest("pk")
    paths += ["/workflows?all=1&view=running", f"/workflows/compare?a={run.uuid}&b={other.uuid}"]
    for number, path in enumerate(paths):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        assert page.evaluate(f"({CHECKS}).all()") == [], path
        keep(page, f"{scheme}-{number:02}")
    page.set_viewport_size(PHONE)
    for number, path in enumerate(paths):
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], (path, page.evaluate(f"({CHECKS}).wide()"))
        assert page.evaluate(f"({CHECKS}).smallTargets()") == [], path
        keep(page, f"phone-{scheme}-{number:02}")


def test_updates_that_would_move_rows_wait(open_page: OpenPage, people: Any) -> None:
    caller = people.ana.context()
    first = factories.run(caller, "cell1", instance_name="web-1")
    page = open_page("ana")
    page.goto("/workflows")
    wait_until_live(page)
    row = page.locator(f"#run-{first.uuid}")
    expect(row).to_be_visible()
    second = factories.run(caller, "cell1", instance_name="web-2", age=1)
    WorkflowRun.objects.using("cell1").filter(pk=first.pk).update(state="done", finished_at=factories.ago(0))
    factories.emit(second, "run.started")
    button = page.get_by_role("button", name="1 new – show")
    expect(button).to_be_visible()
    expect(row).to_contain_text("done")
    expect(page.locator(f"#run-{second.uuid}")).to_have_count(0)
    button.click()
    expect(page.locator(f"#run-{second.uuid}")).to_be_visible()
    expect(button).to_be_hidden()


def test_a_step_opens_beside_its_workflow_by_keyboard_and_has_an_address(open_page: OpenPage, run: WorkflowRun) -> None:
    page = open_page("admin", viewport=DESKTOP)
    page.goto(f"/workflows/{run.uuid}")
    wait_until_ready(page)
    page.keyboard.press("n")
    page.keyboard.press("o")
    drawer = page.locator("#step-drawer")
    expect(drawer.get_by_role("heading", name="Spawn on host")).to_be_focused()
    expect(drawer).to_contain_text("The host ran out of memory")
    assert "?step=step-" in page.url
    drawer.get_by_role("link", name="attempt 2").click()
    expect(drawer).not_to_contain_text("The host ran out of memory")
    page.keyboard.press("[")  # the first attempt's compensation is between the two
    expect(drawer.get_by_role("link", name="attempt 1 undo")).to_have_attribute("aria-current", "true")
    page.keyboard.press("]")
    expect(drawer.get_by_role("link", name="attempt 2")).to_have_attribute("aria-current", "true")
    page.keyboard.press("]")  # there is none behind it, and no other tab is turned to
    expect(drawer.get_by_role("link", name="attempt 2")).to_have_attribute("aria-current", "true")
    page.reload()
    expect(drawer.get_by_role("heading", name="Spawn on host")).to_be_visible()
    wait_until_ready(page)
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    assert "?step" not in page.url
    page.go_back()
    expect(drawer).to_be_visible()


@pytest.mark.parametrize("others", [["next"], []])
def test_the_loser_of_the_last_place_gets_an_error(open_page: OpenPage, people: Any, others: list[str]) -> None:
    for host in ("best", *others):
        add_host(host, size=(1, 8192 if host == "best" else 4096, 100))
    (winner, _), (loser, decision) = raced(people.ana, people.chi)
    assert [picked[0]["host"] for picked in decision.selections] == others
    name = next(one for one in ("ana", "chi") if people[one].project.id == loser.project_id)
    mine = open_page(name)
    go(mine, f"/workflows/{loser.uuid}/placement")
    expect(mine.get_by_text("Another request claimed the capacity first")).to_be_visible()
    what_came = "The next best host was selected instead." if others else "No other host remained."
    expect(mine.get_by_text(f"the host had no capacity left. {what_came}")).to_be_visible()
    expect(mine.get_by_role("main")).not_to_contain_text(str(winner.uuid)[:8])
    all_of_it = open_page("admin")
    go(all_of_it, f"/workflows/{loser.uuid}/placement")
    race = all_of_it.locator(".note", has_text="The claim on best was too late")
    expect(race).to_contain_text("Capacity that was missing when the host was claimed: vCPU.")
    expect(race).to_contain_text("Next host: next." if others else "No other host remained.")
    it = race.get_by_role("link", name="Open the workflow that claimed it.")
    expect(it).to_have_attribute("href", f"/workflows/{winner.uuid}")


def test_without_scripts_a_step_is_a_page(open_page: OpenPage, run: WorkflowRun) -> None:
    page = open_page("admin", viewport=PHONE, java_script_enabled=False)
    page.goto(f"/workflows/{run.uuid}/steps")
    page.get_by_role("link", name="Claim host").first.click()
    expect(page.get_by_role("heading", level=2, name="Claim host")).to_be_visible()
    assert "/step/" in page.url
    page.goto(f"/workflows/{run.waiter.uuid}")
    page.get_by_role("link", name="Show reason").click()
    expect(page.get_by_text("holds the lock; this workflow is next in the queue")).to_be_visible()


def test_the_reason_of_a_wait_is_shown_in_a_popover(open_page: OpenPage, run: WorkflowRun) -> None:
    page = open_page("admin", viewport=DESKTOP)
    page.goto(f"/workflows/{run.waiter.uuid}")
    wait_until_live(page)
    page.keyboard.press("w")
    popover = page.get_by_role("dialog", name="Wait reason")
    expect(popover).to_contain_text("Create cache-1 holds the lock; this workflow is next in the queue")
    keep(page, "why-popover")
    page.keyboard.press("Escape")
    expect(popover).to_have_count(0)
    expect(page.get_by_role("link", name="Show reason")).to_be_focused()
    page.keyboard.press("w")
    expect(popover).to_be_visible()
    page.locator("#search").focus()  # a user who has moved on is not called back
    expect(popover).to_have_count(0)
    expect(page.locator("#search")).to_be_focused()


def test_the_log_is_searched_and_the_past_replayed(open_page: OpenPage, run: WorkflowRun) -> None:
    of = {"run_uuid": run.uuid, "project_id": run.project_id, "topic": f"wf:{run.uuid}", "kind": "step.progress"}
    copied_parts = [{"step": "SpawnOnHost", "progress": {"message": f"copied {part}"}} for part in range(TAIL + 20)]
    events = [Event(**of, data=data, created_at=factories.ago(0)) for data in copied_parts]
    Event.objects.using("cell1").bulk_create(events)
    page = open_page("admin", viewport=DESKTOP)
    page.goto(f"/workflows/{run.uuid}/logs")
    wait_until_live(page)
    page.get_by_label("Search the log").fill("no memory")
    expect(page.get_by_text("1 line matches")).to_be_visible()
    keep(page, "log-searched")
    factories.emit(run, "step.progress", step="SpawnOnHost", progress={"message": "no memory yet", "share": None})
    expect(page.get_by_text("2 lines match")).to_be_visible()
    lines = page.locator("[data-log-line]")  # only the last of them were sent anew
    expect(page.locator("#log[data-tail]")).to_have_count(1)
    expect(page.locator("#log > :not([data-log-line])")).to_have_count(0)
    numbers = lines.evaluate_all("them => them.map((it) => Number(it.id.slice(5)))")
    assert numbers == list(range(1, len(events) + 7))
    page.get_by_role("link", name="Line 2", exact=True).click()
    page.get_by_role("button", name="Copy link to line").click()
    expect(page.get_by_text("Link to this view copied")).to_be_attached()
    copied = page.url
    page.goto("about:blank")
    go(page, copied)  # a user who was given the link
    expect(page.locator("#line-2:target")).to_be_in_viewport()
    keep(page, "log-line")
    page.goto(
        f"/workflows/{run.uuid}/logs?level=error#line-2"
    )  # it is not on the page: the page around it is asked for
    expect(page).to_have_url(re.compile(r"level=error&line=2#line-2$"))
    page.goto(f"/workflows/{run.uuid}/events")
    wait_until_ready(page)
    page.get_by_label("As of").evaluate(
        "(it) => { it.value = 2; it.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    page.wait_for_url("**/events?as_of=2")
    expect(page.locator("tr.here")).to_contain_text("step.started")
    expect(page.locator("html[data-stale] .link-state")).to_have_text("paused")  # its times stop
    page.get_by_role("link", name="Back to live view").click()
    expect(page.locator("tr.here")).to_have_count(0)


@pytest.mark.parametrize(
    ("button", "what"),
    [("Force completion", "force_complete"), ("Abort", "abort"), ("Increase allowed downtime", "downtime")],
)
def test_a_move_that_does_not_converge_is_ended_by_its_operator(
    open_page: OpenPage, moving: WorkflowRun, button: str, what: str
) -> None:
    for number, reported in enumerate(Event.objects.using("cell1").filter(kind="step.progress").order_by("pk")):
        reported.data["figures"] |= {"memory_remaining": 900, "memory_pass": number + 1}
        reported.save(using="cell1")
    page = open_page("admin", viewport=DESKTOP)
    page.goto(f"/workflows/{moving.uuid}")
    wait_until_live(page)
    expect(page.get_by_text("Not converging: the server changes 75 B/s, the link moves 75 B/s.")).to_be_visible()
    keep(page, f"not-converging-{what}")
    page.get_by_role("link", name=button).click()
    expect(page.get_by_text("Not converging")).to_be_visible()
    if what == "downtime":  # by keyboard alone
        page.get_by_label("Allowed downtime (ms)").fill("1500")
        page.keyboard.press("Enter")
    else:
        page.locator("main form button").click()
    expect(page.get_by_role("status").filter(has_text=f"{button}: request accepted")).to_be_visible()
    record = AuditRecord.objects.using("cell1").get()
    assert (record.action, record.result, record.user_name) == (f"live_migration.{what}", "done", "admin")
    if what == "downtime":
        expect(page.get_by_role("link", name="Allowed downtime: 1500 ms")).to_be_visible()
