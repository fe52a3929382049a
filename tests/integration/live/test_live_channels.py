"""Many viewers of the same page: rendered once, published by rights, in order, nothing twice and nothing lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from conductor.identity import assignments
from conductor.identity.assignments import AssignmentScope
from conductor.journal.models import Event
from conductor.services.workflows import event_log
from portal.live import channels, connections, follower, hub
from portal.live.connections import Connection
from portal.live.viewers import Ticket
from tests import factories
from tests.fixtures.unresponsive_cells import silence
from tests.loops import run_at_most
from tests.people import Person
from tests.waiting import WAIT_SECONDS, wait_until_async

pytestmark = pytest.mark.usefixtures("databases")


refused: list[str] = []  # errors in messages; raised in place, they would end a task that no test awaits


class Browser:
    """The messages of an open page, by topic, with the position of the last one."""

    def __init__(self, person: Person, language: str = "en", session: str = "") -> None:
        self.ticket = Ticket(session or person.session(), person.project.id, language)
        self.messages: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.place: dict[str, int] = {}
        self.is_current = False
        self.missed: list[int] = []
        self.ended: list[int] = []
        self.connection = Connection(self.ticket, self.take, self.close)

    async def take(self, text: str) -> None:
        message = json.loads(text)
        if message["kind"] == "behind":
            self.missed.append(message["missed"])
            return
        if message["kind"] != "current":
            self.texts.append(text)
            self.messages.append(message)
        named = dict(event_log.read_cursor(message.get("seq", "")))
        if any(named.get(alias, 0) < number for alias, number in self.place.items()):
            refused.append(f"went back from {self.place} to {named}")
        if message["kind"] != "current" and "seq" in message and named == self.place:
            refused.append(f"notified twice of {named}")
        self.place |= named
        self.is_current |= message["kind"] == "current"

    async def close(self, code: int) -> None:
        self.ended.append(code)

    async def open(self, topic: str, view: str) -> Browser:
        """Open, or take up again from the place that was reached."""
        if self.connection._is_ended:
            self.connection = Connection(self.ticket, self.take, self.close)
        await channels.live_hub().welcome(self.connection)
        await channels.live_hub().follow(self.connection, topic, view, event_log.write_cursor(self.place))
        return self

    def cut(self) -> None:
        self.connection.gone()
        channels.live_hub().dismiss(self.connection)


@pytest.fixture
def here(people: Any) -> dict[str, int]:
    factories.cells()
    return dict(event_log.here())


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sinks of the test's own: a server of an earlier test in this process may have ended with pages open."""
    monkeypatch.setattr(hub, "_sinks", set())
    refused.clear()
    yield
    assert refused == []
    assert not hub._sinks, "former listeners are not notified any more"


def at(person: Person) -> AssignmentScope:
    """Return the assignment scope of the person's role."""
    return AssignmentScope(user_id=person.user.id, project_id=person.project.id)


def in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    run_at_most(WAIT_SECONDS * 2, work())


async def until(is_so: Callable[[], bool]) -> None:
    await wait_until_async("the browsers have it", is_so)


def test_viewers_that_see_the_same_share_one_rendering(
    people: Any, here: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, drawn = factories.run(people.ana.context()), []
    position, prefix, render = channels.ROWS["workflows"]

    def counted(caller: Any, uuids: Any, columns: Any) -> Any:
        drawn.append((caller.project_id, caller.is_admin, caller.user_id))
        return render(caller, uuids, columns)

    monkeypatch.setitem(channels.ROWS, "workflows", (position, prefix, counted))

    async def work() -> None:
        names = ("ana", "ana", "bo", "chi", "admin")
        browsers = [Browser(people[name]) for name in names] + [Browser(people.bo, "de")]
        for one in browsers:
            one.place = dict(event_log.read_cursor(event_log.write_cursor(await asyncio.to_thread(event_log.here))))
            await one.open("workflows", "list")
        ana, again, bo, chi, admin, german = browsers
        await asyncio.to_thread(factories.emit, run, "run.progress")
        await until(lambda: all(one.texts for one in (ana, again, bo, admin, german)))
        assert ana.texts == again.texts == bo.texts
        assert ana.texts[0] is again.texts[0] is bo.texts[0]  # drawn once, written once
        assert len(drawn) == 3  # for ana and bo, for bo in German, for the operator
        assert {user for _, _, user in drawn} == {""}  # rendered without a user, so it cannot be personal
        [row] = ana.messages[0]["rows"]
        [operators] = admin.messages[0]["rows"]
        assert (row["id"], ana.messages[0]["kind"]) == (f"run-{run.uuid}", "rows")
        assert 'data-name="Project"' in operators["html"]
        assert 'data-name="Project"' not in row["html"]
        assert german.messages[0]["rows"][0]["html"] != row["html"]
        assert chi.texts == []  # another project: neither a row nor that there was one
        for one in browsers:
            one.cut()

    in_a_loop(work)


def test_a_revoked_right_ends_updates_at_once(people: Any, here: dict[str, int]) -> None:
    _, child = factories.build(people.ana.context(), "web-1")

    async def work() -> None:
        ana, rea = Browser(people.ana), Browser(people.rea)
        for one in (ana, rea):
            one.place = dict(await asyncio.to_thread(event_log.here))
            await one.open(f"wf:{child.uuid}", "timeline")
        await asyncio.to_thread(assignments.take_away, at(people.rea), people.rea.role.id)
        await asyncio.to_thread(factories.emit, child, "step.progress")
        await until(lambda: bool(ana.texts and rea.ended))
        assert (rea.texts, rea.ended, ana.ended) == ([], [connections.SIGN_IN_AGAIN], [])
        for one in (ana, rea):
            one.cut()

    in_a_loop(work)


def test_a_viewer_with_new_rights_reconnects_with_these(
    people: Any, here: dict[str, int], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(channels, "HEAL_SECONDS", 0.05)
    settings.NOVELLA_ADMIN_PROJECT = people.rea.project.name

    async def work() -> None:
        rea = await Browser(people.rea).open("workflows", "list")
        await asyncio.to_thread(assignments.grant, at(people.rea), people.admin.role.id)
        await until(lambda: bool(rea.ended))
        assert rea.ended == [connections.MOVED]
        rea.cut()

    in_a_loop(work)


@pytest.mark.parametrize(("topic", "view"), [("me", "tray"), ("wf", "events")])
def test_nothing_is_lost_or_doubled_while_browsers_come_and_go(
    people: Any, here: dict[str, int], topic: str, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event is lost or doubled: commits on two threads, in two databases, while sockets are cut and come back."""
    monkeypatch.setattr(channels, "LEAST_PAUSE_SECONDS", 0.0)
    parent, child = factories.build(people.ana.context(), "web-1")
    name, chance = f"wf:{child.uuid}" if topic == "wf" else topic, random.Random(11)
    runs = [child] if topic == "wf" else [parent, child]

    def commit(run: Any) -> None:
        for _ in range(30):
            factories.emit(run, "run.progress")

    async def work() -> None:
        session = people.ana.session()
        browsers = [Browser(people.ana, session=session) for _ in range(6)]
        for one in browsers:
            one.place = dict(await asyncio.to_thread(event_log.here))
            await one.open(name, view)
        writing = [asyncio.create_task(asyncio.to_thread(commit, run)) for run in runs]
        while not all(task.done() for task in writing):
            one = chance.choice(browsers)
            one.cut()
            await asyncio.sleep(0)
            await one.open(name, view)
        await asyncio.gather(*writing)
        last = {alias: number for alias, number in (await asyncio.to_thread(event_log.here)).items() if number}
        reached = [alias for alias in last if topic != "wf" or alias == "cell1"]
        await until(lambda: all(one.place.get(alias, 0) == last[alias] for one in browsers for alias in reached))
        assert any(one.messages for one in browsers)
        assert not any(one.ended for one in browsers)
        for one in browsers:
            one.cut()

    in_a_loop(work)  # `take` refuses positions that go back or repeat


def test_a_browser_that_reads_nothing_delays_no_other(
    people: Any, here: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "LEAST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(connections, "MOST_WAITING", 3)
    run = factories.run(people.ana.context())

    async def work() -> None:
        stuck, well = Browser(people.ana), Browser(people.ana)
        never = asyncio.Event()
        stuck.connection._send = lambda text: never.wait()  # type: ignore[assignment, return-value]
        for one in (stuck, well):
            await one.open("me", "tray")
        while not stuck.ended:
            seen = len(well.texts)
            await asyncio.to_thread(factories.emit, run, "run.progress")
            await until(lambda seen=seen: len(well.texts) > seen)  # type: ignore[misc]
        assert stuck.ended == [connections.TOO_SLOW]
        assert len(well.texts) <= 8
        for one in (stuck, well):
            one.cut()

    in_a_loop(work)


def test_a_restored_log_is_read_from_its_new_end(
    people: Any, here: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database was restored from a backup: positions are used a second time."""
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.05)
    run = factories.run(people.ana.context())
    for _ in range(5):
        factories.emit(run, "run.progress")

    async def work() -> None:
        ana = Browser(people.ana)
        ana.place = dict(await asyncio.to_thread(event_log.here))
        await ana.open("me", "tray")
        await until(lambda: ana.is_current)
        ana.place = {}  # from here on numbers may be lower
        await asyncio.to_thread(Event.objects.filter(pk__gt=2).delete)
        await until(lambda: [message["kind"] for message in ana.messages] == ["reset"])
        late = Browser(people.ana)
        late.place = {"default": 5}
        await channels.live_hub().welcome(late.connection)
        late.place, since = {}, "default:5"
        await channels.live_hub().follow(late.connection, "me", "tray", since)
        await until(lambda: [message["kind"] for message in late.messages] == ["reset"])
        for one in (ana, late):
            one.cut()

    in_a_loop(work)


def test_pages_are_notified_when_a_cell_stops_responding(
    people: Any, here: dict[str, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists are reloaded and name what is missing; a page of that cell stays as it was, and shows that."""
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.05)
    _, run = factories.build(people.ana.context(), "web-1", "cell2")
    pages = {"servers": "list", "home": "home", f"wf:{run.uuid}": "timeline", f"server:{run.instance_uuid}": "overview"}

    async def work() -> None:
        opened = [await Browser(people.ana).open(topic, view) for topic, view in pages.items()]
        await until(lambda: all(one.is_current for one in opened))

        async def received(kinds: list[str]) -> None:
            await until(lambda: all(one.messages for one in opened))
            lines = [one.messages.pop() for one in opened]
            assert [message["kind"] for message in lines] == kinds
            assert ("cell2 (last answer 20" in lines[1]["html"][0]) == ("unresponsive" in kinds)
            for one in opened:
                one.place = {}  # no event leads to what comes next

        for one in opened:
            one.place = {}
        with monkeypatch.context() as patched:
            silence(patched, "cell2")
            await received(["list", "fragments", "unresponsive", "unresponsive"])
        await received(["list", "fragments", "fragments", "fragments"])
        for one in opened:
            one.cut()

    in_a_loop(work)
    lines = [record.message for record in caplog.records if record.name.endswith("scatter_gather")]
    assert lines == ["cell does not answer: cell=cell2", "cell answers again: cell=cell2"]
