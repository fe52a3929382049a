"""Polls, for browsers that get no socket: held until something happens, and the log tells what came between two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conductor.services import event_log
from portal.live import hub, polls
from portal.live.polls import LivePolls
from portal.live.seats import SIGN_IN_AGAIN
from tests import factories
from tests.integration.test_live_audiences import PATIENCE
from tests.loops import run_at_most

pytestmark = pytest.mark.usefixtures("databases")


async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("this is no poll")


@pytest.fixture
def door(people: Any, monkeypatch: pytest.MonkeyPatch) -> LivePolls:
    """With bells of the test's own: a server of an earlier test in this process may have ended with pages open."""
    monkeypatch.setattr(hub, "_bells", set())
    factories.cells()
    return LivePolls(elsewhere)


class Poll:
    """One request."""

    def __init__(self, session: str = "", *, origin: str = "http://testserver", method: str = "POST") -> None:
        given = {"host": "testserver", "origin": origin, "cookie": f"novella_session={session}"}
        headers = [(name.encode(), value.encode()) for name, value in given.items() if value]
        self.scope = {"type": "http", "method": method, "path": polls.PATH, "headers": headers}
        self.start: Any = None
        self.body = b""
        self.asked = asyncio.Queue[Any]()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.start = message
        self.body += message.get("body", b"")

    async def ask(self, door: LivePolls, body: Any) -> dict[str, Any]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.asked.put_nowait({"type": "http.request", "body": text})
        async with asyncio.timeout(PATIENCE):
            await door(self.scope, self.asked.get, self.send)
        return json.loads(self.body)  # type: ignore[no-any-return]

    def leave(self) -> None:
        self.asked.put_nowait({"type": "http.disconnect"})


def wish(topic: str, view: str, since: Any, *, first: bool = False) -> dict[str, Any]:
    since = since if isinstance(since, str) else event_log.write_cursor(since)
    return {"follow": [{"topic": topic, "view": view, "since": since}], "first": first}


@asynccontextmanager
async def held(door: LivePolls, session: str, body: dict[str, Any]) -> AsyncIterator[asyncio.Task[dict[str, Any]]]:
    """A poll that waits for news."""
    rung = asyncio.create_task(Poll(session).ask(door, body))
    async with asyncio.timeout(PATIENCE):
        while not hub._bells:
            await asyncio.sleep(0.01)
    yield rung
    async with asyncio.timeout(PATIENCE):
        await rung


def in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    run_at_most(PATIENCE * 2, work())


def test_what_happens_is_told_while_a_poll_is_held_and_between_two(door: LivePolls, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    session, topic, here = people.ana.session(), f"wf:{child.uuid}", event_log.here()

    async def work() -> None:
        answer = await Poll(session).ask(door, wish(topic, "timeline", here, first=True))
        assert [one["kind"] for one in answer["messages"]] == ["current"]
        place = answer["messages"][0]["seq"]
        async with held(door, session, wish(topic, "timeline", place)) as rung:
            await asyncio.to_thread(factories.tell, child, "step.progress")
        first = rung.result()["messages"][-1]
        assert (first["topic"], first["view"], first["kind"]) == (topic, "timeline", "fragments")
        assert first["seq"] != place
        await asyncio.to_thread(factories.tell, child, "step.progress")  # nobody waits at this moment
        answer = await Poll(session).ask(door, wish(topic, "timeline", first["seq"]))
        assert [(one["kind"], one.get("missed")) for one in answer["messages"]] == [("behind", 1), ("fragments", None)]
        assert answer["messages"][1]["seq"] == event_log.write_cursor(await asyncio.to_thread(event_log.here))

    in_a_loop(work)
    assert (door.shares.count, hub._bells) == (0, set())


def test_a_poll_without_news_ends_in_time(door: LivePolls, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls, "HOLD_SECONDS", 0.05)
    session, here = people.ana.session(), event_log.here()
    _, foreign = factories.build(people.ana.context(), "web-1")

    async def work() -> None:
        answer = await Poll(session).ask(door, wish("hosts", "list", here))
        assert [one["kind"] for one in answer["messages"]] == ["refused"]
        answer = await Poll(session_of_chi).ask(door, wish(f"wf:{foreign.uuid}", "timeline", here))
        assert [one["kind"] for one in answer["messages"]] == ["refused"]
        answer = await Poll(session).ask(door, wish("me", "tray", await asyncio.to_thread(event_log.here)))
        assert [one["kind"] for one in answer["messages"]] == ["current"]

    session_of_chi = people.chi.session()
    in_a_loop(work)


def test_one_that_leaves_is_forgotten(door: LivePolls, people: Any) -> None:
    session, here = people.ana.session(), event_log.here()

    async def work() -> None:
        poll = Poll(session)
        asked = asyncio.create_task(poll.ask(door, wish("me", "tray", here)))
        async with asyncio.timeout(PATIENCE):
            while not hub._bells:
                await asyncio.sleep(0.01)
        poll.leave()
        with pytest.raises(json.JSONDecodeError):  # no answer for nobody
            await asked
        assert (poll.start, door.shares.count, hub._bells) == (None, 0, set())

    in_a_loop(work)


def test_strangers_are_told_to_sign_in(door: LivePolls) -> None:
    async def work() -> None:
        for session in ("", "made-up"):
            answer = await Poll(session).ask(door, wish("me", "tray", ""))
            assert answer == {"messages": [], "code": SIGN_IN_AGAIN}

    in_a_loop(work)


@pytest.mark.parametrize(
    ("options", "body", "status"),
    [
        ({"origin": "http://evil.test"}, {"follow": []}, 403),
        ({"origin": ""}, {"follow": []}, 403),
        ({"method": "GET"}, {"follow": []}, 405),
        ({}, b"", 400),
        ({}, b"[]", 400),
        ({}, {"follow": [{"topic": "me"}]}, 400),
        ({}, b'{"follow": [' + b" " * polls.LONGEST_BODY + b"]}", 400),
    ],
)
def test_what_is_no_poll_is_refused(door: LivePolls, people: Any, options: Any, body: Any, status: int) -> None:
    session = people.ana.session()

    async def work() -> None:
        poll = Poll(session, **options)
        assert "error" in await poll.ask(door, body)
        assert poll.start["status"] == status

    in_a_loop(work)


def test_so_many_are_held_and_no_more(door: LivePolls, people: Any) -> None:
    door.shares.most = 0
    session = people.ana.session()

    async def work() -> None:
        poll = Poll(session)
        await poll.ask(door, {"follow": []})
        assert (poll.start["status"], dict(poll.start["headers"])[b"retry-after"]) == (503, b"15")

    in_a_loop(work)
