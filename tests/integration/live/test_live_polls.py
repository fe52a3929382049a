"""Long polls, for browsers without sockets: held until an event, and the log has the events between two polls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conductor.services.workflows import event_log
from portal.live import hub, polls
from portal.live.connections import SIGN_IN_AGAIN
from portal.live.polls import LivePolls
from tests import factories
from tests.fixtures.live_polls import Poll, elsewhere, requested
from tests.loops import run_at_most
from tests.waiting import WAIT_SECONDS, wait_until_async

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def middleware(people: Any, monkeypatch: pytest.MonkeyPatch) -> LivePolls:
    """The middleware with notifications of the test's own, as an earlier server may have ended with open pages."""
    monkeypatch.setattr(hub, "_sinks", set())
    factories.cells()
    return LivePolls(elsewhere)


@asynccontextmanager
async def held(
    middleware: LivePolls, session: str, body: dict[str, Any]
) -> AsyncIterator[asyncio.Task[dict[str, Any]]]:
    """Start a poll, and yield it once it waits for events."""
    rung = asyncio.create_task(Poll(session).ask(middleware, body))
    await wait_until_async("the poll is held", lambda: hub._sinks)
    yield rung
    async with asyncio.timeout(WAIT_SECONDS):
        await rung


def in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    run_at_most(WAIT_SECONDS * 2, work())


def test_events_are_delivered_during_and_between_polls(middleware: LivePolls, people: Any) -> None:
    _, child = factories.build(people.ana.context(), "web-1")
    session, topic, here = people.ana.session(), f"wf:{child.uuid}", event_log.here()

    async def work() -> None:
        answer = await Poll(session).ask(middleware, requested(topic, "timeline", here, first=True))
        assert [one["kind"] for one in answer["messages"]] == ["current"]
        place = answer["messages"][0]["seq"]
        async with held(middleware, session, requested(topic, "timeline", place)) as rung:
            await asyncio.to_thread(factories.emit, child, "step.progress")
        first = rung.result()["messages"][-1]
        assert (first["topic"], first["view"], first["kind"]) == (topic, "timeline", "fragments")
        assert first["seq"] != place
        await asyncio.to_thread(factories.emit, child, "step.progress")  # between two polls
        answer = await Poll(session).ask(middleware, requested(topic, "timeline", first["seq"]))
        assert [(one["kind"], one.get("missed")) for one in answer["messages"]] == [("behind", 1), ("fragments", None)]
        assert answer["messages"][1]["seq"] == event_log.write_cursor(await asyncio.to_thread(event_log.here))

    in_a_loop(work)
    assert (middleware.shares.count, hub._sinks) == (0, set())


def test_a_poll_without_news_ends_in_time(middleware: LivePolls, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls, "HOLD_SECONDS", 0.05)
    session, here = people.ana.session(), event_log.here()
    _, foreign = factories.build(people.ana.context(), "web-1")

    async def work() -> None:
        answer = await Poll(session).ask(middleware, requested("hosts", "list", here))
        assert [one["kind"] for one in answer["messages"]] == ["refused"]
        answer = await Poll(session_of_chi).ask(middleware, requested(f"wf:{foreign.uuid}", "timeline", here))
        assert [one["kind"] for one in answer["messages"]] == ["refused"]
        answer = await Poll(session).ask(middleware, requested("me", "tray", await asyncio.to_thread(event_log.here)))
        assert [one["kind"] for one in answer["messages"]] == ["current"]

    session_of_chi = people.chi.session()
    in_a_loop(work)


def test_one_that_leaves_is_forgotten(middleware: LivePolls, people: Any) -> None:
    session, here = people.ana.session(), event_log.here()

    async def work() -> None:
        poll = Poll(session)
        query = asyncio.create_task(poll.ask(middleware, requested("me", "tray", here)))
        await wait_until_async("the poll is held", lambda: hub._sinks)
        poll.leave()
        with pytest.raises(json.JSONDecodeError):  # no response to a client that has left
            await query
        assert (poll.start, middleware.shares.count, hub._sinks) == (None, 0, set())

    in_a_loop(work)


def test_anonymous_users_are_asked_to_sign_in(middleware: LivePolls) -> None:
    async def work() -> None:
        for session in ("", "made-up"):
            answer = await Poll(session).ask(middleware, requested("me", "tray", ""))
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
def test_invalid_polls_are_refused(middleware: LivePolls, people: Any, options: Any, body: Any, status: int) -> None:
    session = people.ana.session()

    async def work() -> None:
        poll = Poll(session, **options)
        assert "error" in await poll.ask(middleware, body)
        assert poll.start["status"] == status

    in_a_loop(work)


def test_the_number_of_held_polls_is_limited(middleware: LivePolls, people: Any) -> None:
    middleware.shares.most = 0
    session = people.ana.session()

    async def work() -> None:
        poll = Poll(session)
        await poll.ask(middleware, {"follow": []})
        assert (poll.start["status"], dict(poll.start["headers"])[b"retry-after"]) == (503, b"15")

    in_a_loop(work)
