"""Pages that keep themselves current, over a real socket that is cut and mended."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from conductor import events
from conductor.cell_db.models import ConsoleLog, Instance
from conductor.core.states import RunState, StepState
from conductor.db.transactions import write_tx
from conductor.identity import rights
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.accounts import preferences
from conductor.services.workflows import event_log
from portal.live import channels, follower
from tests import factories
from tests.browser.conftest import OpenPage, wait_until_live
from tests.browser.wire import Wire
from tests.waiting import WAIT_SECONDS, wait_until_async


def finish(child: WorkflowRun) -> None:
    """Write what the engine leaves when a guest has started: rows first, then their events."""
    StepRecord.objects.using("cell1").filter(run=child, index=2).update(
        state=StepState.DONE, finished_at=factories.ago(0)
    )
    factories.step(child, 3, 0.05, 0)
    WorkflowRun.objects.using("cell1").filter(pk=child.pk).update(
        state=RunState.DONE, position=4, finished_at=factories.ago(0)
    )
    Instance.objects.using("cell1").filter(uuid=child.instance_uuid).update(vm_state="active", task_state=None)
    factories.emit(child, "step.done", step="SpawnOnHost")
    factories.emit(child, "run.ended")


def test_a_row_changes_by_itself(open_page: OpenPage, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    row = page.locator(f"#server-{child.instance_uuid}")
    expect(row.locator(".state-word")).to_have_text("building")
    row.locator("input").check()
    page.evaluate("window.isTheSamePage = true")
    finish(child)
    expect(row.locator(".state-word")).to_have_text("active")
    expect(row.locator("input")).to_be_checked()
    expect(page.locator("[data-announce]")).to_have_text("web-1: active")
    assert page.evaluate("window.isTheSamePage")


def test_screen_readers_get_the_newest_change_and_nothing_when_muted(open_page: OpenPage, people: Any) -> None:
    [one, two] = [factories.instance(people.ana.context(), name) for name in ("web-1", "web-2")]
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)

    def become(server: Instance, state: str) -> None:
        Instance.objects.using("cell1").filter(pk=server.pk).update(vm_state=state)
        factories.emit_instance_event(server, "cell1")
        expect(page.locator(f"#server-{server.uuid} .state-word")).not_to_have_text("active")

    become(one, "stopped")
    become(two, "paused")
    expect(page.locator("[data-announce]")).to_have_text("web-2: paused")
    preferences.change(people.ana.user.pk, {"state_changes": "muted"})
    page.reload()
    wait_until_live(page)
    Instance.objects.using("cell1").filter(pk=one.pk).update(vm_state="error")
    factories.emit_instance_event(one, "cell1")
    expect(page.locator(f"#server-{one.uuid} .state-word")).to_have_text("error")
    expect(page.locator("[data-announce]")).to_be_empty()


def test_a_new_server_appears_and_a_deleted_one_goes(open_page: OpenPage, people: Any) -> None:
    page = open_page("ana")
    page.goto("/servers")
    expect(page.get_by_role("heading", name="No servers yet")).to_be_visible()
    wait_until_live(page)
    made = factories.instance(people.ana.context(), "web-9")
    factories.emit_instance_event(made, "cell1", "instance.created")
    expect(page.get_by_role("row", name="web-9")).to_be_visible()
    Instance.objects.using("cell1").filter(pk=made.pk).update(vm_state="deleted", deleted_at=factories.ago(0))
    factories.emit_instance_event(made, "cell1", "instance.deleted")
    expect(page.get_by_role("heading", name="No servers yet")).to_be_visible()


def test_a_workflow_page_follows_each_step(open_page: OpenPage, people: Any) -> None:
    parent, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto(f"/workflows/{parent.uuid}")
    wait_until_live(page)
    expect(page.locator(".head .state-word")).to_have_text("running")
    assert page.locator("rect.bar.open").count() == 1
    assert page.locator(".timeline rect.bar.planned").count() == 1
    finish(child)
    expect(page.locator(".head .state-word")).to_have_text("done")
    expect(page.locator("rect.bar.open")).to_have_count(0)
    expect(page.locator(".timeline rect.bar.planned")).to_have_count(0)


def test_a_page_follows_a_run_into_its_cell(open_page: OpenPage, people: Any) -> None:
    caller = people.ana.context()
    parent = factories.run(caller, position=2, instance_name="web-1")
    page = open_page("ana")
    page.goto(f"/workflows/{parent.uuid}/steps")
    wait_until_live(page)
    child = factories.run(caller, "cell1", parent_uuid=parent.uuid, instance_name="web-1", age=1)
    WorkflowRun.objects.filter(pk=parent.pk).update(state=RunState.DONE, position=3, finished_at=factories.ago(0))
    factories.emit(parent, "run.ended")
    expect(page.get_by_text("web-1 in cell1")).to_be_visible()
    factories.step(child, 0, 0.5, 0.2)
    factories.emit(child, "step.done", step="ClaimDestination")
    expect(page.get_by_role("row", name="Claim host")).to_contain_text("done")


def test_the_console_follows_its_end(open_page: OpenPage, people: Any) -> None:
    made = factories.instance(people.ana.context(), "web-1")
    factories.console(made, "".join(f"line {number}\n" for number in range(200)))
    page = open_page("ana")
    page.goto(f"/servers/{made.uuid}/console")
    wait_until_live(page)
    write = ConsoleLog.objects.using("cell1").filter(instance_uuid=made.uuid)
    write.update(text=write.get().text + "\x1b[1mweb login:\x1b[0m ")
    factories.emit_instance_event(made, "cell1", "console.written")
    console = page.get_by_label("Serial console")
    expect(console).to_contain_text("web login:")
    assert console.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 2
    console.evaluate("e => { e.scrollTop = 0; }")
    expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    write.update(text=write.get().text + "\nmore")
    factories.emit_instance_event(made, "cell1", "console.written")
    expect(console).to_contain_text("more")
    assert console.evaluate("e => e.scrollTop") == 0


def test_a_lost_connection_is_shown_and_caught_up_with(open_page: OpenPage, people: Any, wire: Wire) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    chip = page.locator("[data-link-chip]")
    wire.cut()
    expect(chip).to_have_attribute("data-link", "stale")
    expect(chip).to_contain_text(re.compile(r"outdated since \d\d:\d\d"))
    expect(chip).to_have_attribute("title", re.compile(r"^reconnecting in \d+ s$"))
    assert page.evaluate("document.documentElement.hasAttribute('data-stale')")
    with write_tx("cell1"):
        for _ in range(1000):
            events.append("cell1", events.about_run(child), "step.progress")
    finish(child)
    page.evaluate("window.isTheSamePage = true")
    page.evaluate(KEEP_WORDS)
    wire.mend()
    expect(chip).to_have_attribute("data-link", "live")
    assert any(re.fullmatch(r"catching up \([\d,]+ events\)", word) for word in page.evaluate("window.words"))
    expect(page.locator(f"#server-{child.instance_uuid} .state-word")).to_have_text("active")
    assert page.evaluate("window.isTheSamePage")
    assert not page.evaluate("document.documentElement.hasAttribute('data-stale')")


# Every word of the chip since then, however briefly it was shown.
KEEP_WORDS = """() => {
  window.words = [];
  const word = document.querySelector("[data-link-word]");
  new MutationObserver(() => window.words.push(word.textContent)).observe(word, { childList: true });
}"""


def test_a_page_that_is_paused_stands_still_and_catches_up(open_page: OpenPage, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    page, other = open_page("ana"), open_page("ana")
    for one in (page, other):
        one.goto(f"/workflows/{child.uuid}")
        wait_until_live(one)
    chip, state = page.locator("[data-link-chip]"), "#workflow-head .state-word"
    before = page.locator(state).inner_text()
    page.evaluate(KEEP_WORDS)
    chip.press("Enter")
    expect(chip).to_have_text("paused")
    assert page.evaluate("document.documentElement.hasAttribute('data-stale')")
    finish(child)
    expect(other.locator(state)).to_have_text("done")
    assert page.locator(state).inner_text() == before
    chip.press("Enter")
    expect(page.locator(state)).to_have_text("done")
    expect(chip).to_have_text("live")
    assert not page.evaluate("document.documentElement.hasAttribute('data-stale')")
    words = page.evaluate("window.words")
    assert [words[0], words[-2:]] == ["paused", ["catching up (2 events)", "live"]]


def test_updates_of_an_interrupted_response_are_delivered_later(open_page: OpenPage, people: Any, wire: Wire) -> None:
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    wire.breaks_answers = True
    made = factories.instance(people.ana.context(), "web-9")
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/servers")):
        factories.emit_instance_event(made, "cell1", "instance.created")
    wire.mend()
    expect(page.get_by_role("row", name="web-9")).to_be_visible()


def test_a_page_without_a_socket_polls(open_page: OpenPage, people: Any, wire: Wire) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    wire.lets_sockets_through = False
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    chip = page.locator("[data-link-chip]")
    expect(chip).to_have_attribute("title", "This network blocks WebSockets. The page polls for updates instead.")
    page.evaluate("window.isTheSamePage = true")
    finish(child)
    expect(page.locator(f"#server-{child.instance_uuid} .state-word")).to_have_text("active")
    wire.cut()
    expect(chip).to_have_attribute("data-link", "stale")
    assert page.evaluate("window.isTheSamePage")


@pytest.mark.parametrize("lets_sockets_through", [True, False])
def test_a_frozen_server_is_noticed_within_seconds(
    open_page: OpenPage, people: Any, wire: Wire, lets_sockets_through: bool
) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    wire.lets_sockets_through = lets_sockets_through
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    wire.is_frozen = True
    chip = page.locator("[data-link-chip]:not([data-link=live])")
    expect(chip).to_be_visible()
    wire.is_frozen = False
    finish(child)
    expect(page.locator(f"#server-{child.instance_uuid} .state-word")).to_have_text("active")
    expect(page.locator("[data-link-chip]")).to_have_attribute("data-link", "live")


def test_two_tabs_share_one_socket(open_page: OpenPage, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    other = page.context.new_page()
    other.goto(f"/servers/{child.instance_uuid}")
    wait_until_live(other)
    finish(child)
    expect(page.locator(".table .state-word")).to_have_text("active")
    expect(other.locator(".head .state-word")).to_have_text("active")
    other.close()
    factories.instance(people.ana.context(), "web-2")
    factories.emit(child, "run.ended")
    wait_until_live(page)


def test_the_page_of_a_session_that_ended_says_so(open_page: OpenPage, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    people.ana.user.role_assignments.all().delete()
    rights.changed()
    finish(child)
    expect(page.locator("[data-link-word]")).to_have_text("signed out")
    expect(page.locator(f"#server-{child.instance_uuid} .state-word")).to_have_text("building")


def cookie_of(page: Page) -> str:
    return "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.context.cookies())


def socket(page: Page, wire: Wire, **headers: str) -> ClientConnection:
    """Open a socket with the page's session, like a script outside of the page."""
    origin = headers.pop("origin", f"http://127.0.0.1:{wire.port}")
    more = {"Cookie": cookie_of(page), **headers}
    return connect(f"ws://127.0.0.1:{wire.port}/live", origin=origin, additional_headers=more)  # type: ignore[arg-type]


def ask(link: ClientConnection, topic: str, view: str, since: str = "") -> dict[str, Any]:
    link.send(json.dumps({"subscribe": topic, "view": view, "since": since}))
    return json.loads(link.recv(timeout=WAIT_SECONDS))  # type: ignore[no-any-return]


@pytest.mark.parametrize("origin", ["http://evil.test", "null", ""])
def test_pages_of_other_sites_get_no_socket(open_page: OpenPage, wire: Wire, origin: str) -> None:
    page = open_page("ana")
    with pytest.raises(InvalidStatus) as refused:
        socket(page, wire, origin=origin)
    assert refused.value.response.status_code == 403


def test_anonymous_users_get_no_socket(open_page: OpenPage, wire: Wire) -> None:
    page = open_page()
    with socket(page, wire) as link, pytest.raises(ConnectionClosed) as closed:
        link.recv(timeout=WAIT_SECONDS)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


def test_servers_of_other_projects_cannot_be_followed(open_page: OpenPage, people: Any, wire: Wire) -> None:
    parent, child = factories.build(people.ana.context(), "web-1")
    with socket(open_page("chi"), wire) as link:
        for topic, view in (
            (f"wf:{parent.uuid}", "timeline"),
            (f"wf:{child.uuid}", "events"),
            (f"server:{child.instance_uuid}", "overview"),
            ("hosts", "list"),
            ("servers", "odd"),
            ("odd", "list"),
            ("wf:", "timeline"),
        ):
            assert ask(link, topic, view) == {"topic": topic, "view": view, "kind": "refused"}
        here = event_log.write_cursor(event_log.here())
        assert ask(link, "servers", "list", here)["kind"] == "current"
        assert ask(link, "workflows", "list", here)["kind"] == "current"
        finish(child)
        with pytest.raises(TimeoutError):
            link.recv(timeout=1)


def test_a_burst_of_events_is_coalesced_into_few_updates(
    open_page: OpenPage, people: Any, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause between two updates lasts until all events are written, however long that takes."""
    written, sleep = threading.Event(), asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds == channels.LEAST_PAUSE_SECONDS:
            await wait_until_async("all events are written", written.is_set)
        await sleep(seconds)

    monkeypatch.setattr(channels, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": pause}))
    _, child = factories.build(people.ana.context(), "web-1")
    with socket(open_page("ana"), wire) as link:
        here = event_log.write_cursor(event_log.here())
        assert ask(link, f"wf:{child.uuid}", "timeline", here)["kind"] == "current"
        for _ in range(200):
            factories.emit(child, "step.progress")
        written.set()
        last, numbers = event_log.here()["cell1"], [0]
        while numbers[-1] < last:
            numbers.append(event_log.read_cursor(json.loads(link.recv(timeout=WAIT_SECONDS))["seq"])["cell1"])
    assert numbers == sorted(set(numbers))
    assert len(numbers) <= 30


def test_events_lost_by_the_channel_layer_are_read_from_the_log(
    open_page: OpenPage, people: Any, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.5)
    _, child = factories.build(people.ana.context(), "web-1")
    page = open_page("ana")
    page.goto("/servers")
    wait_until_live(page)
    with monkeypatch.context() as deaf:
        deaf.setattr(events, "announce", lambda alias, observed, numbers: None)
        finish(child)
    expect(page.locator(f"#server-{child.instance_uuid} .state-word")).to_have_text("active")


def test_a_page_that_is_far_behind_reloads(open_page: OpenPage, people: Any, wire: Wire) -> None:
    run = factories.run(people.ana.context())
    for _ in range(event_log.LONGEST_REPLAY + 1):
        factories.emit(run, "step.progress")
    with socket(open_page("ana"), wire) as link:
        assert ask(link, f"wf:{run.uuid}", "timeline", "default:0")["kind"] == "reset"


@pytest.mark.parametrize("text", ["", "x", "[]", "{" * 5000])
def test_an_invalid_message_closes_the_socket(open_page: OpenPage, wire: Wire, text: str) -> None:
    with socket(open_page("ana"), wire) as link:
        link.send(text)
        with pytest.raises(ConnectionClosed) as closed:
            link.recv(timeout=WAIT_SECONDS)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400
