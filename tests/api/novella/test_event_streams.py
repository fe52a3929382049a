"""Events as a stream: from a position in the log, with current rights, and resumed after a disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conductor.identity import tokens
from portal.live import event_streams
from portal.live.event_streams import EventStreams
from tests import factories
from tests.fixtures.event_streams import Listener
from tests.waiting import WAIT_SECONDS

pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def middleware() -> EventStreams:
    """The middleware as in the web process, with worker threads of its own."""
    from portal import asgi

    return EventStreams(
        asgi.RequestLimitsMiddleware(asgi.WatchedBodies(asgi.WSGIMiddleware(asgi._http, workers=2)), workers=2)
    )


@pytest.fixture
def runs(people: Any) -> Any:
    factories.cells()
    return [factories.build(person.context(), name)[1] for person, name in ((people.ana, "web"), (people.chi, "lab"))]


@asynccontextmanager
async def listening(middleware: EventStreams, *args: Any) -> AsyncIterator[Listener]:
    listener = Listener(*args)
    task = asyncio.create_task(middleware(listener.scope, listener.receive, listener.send))
    try:
        await listener.until(lambda: "retry:" in listener.text or task.done())
        yield listener
    finally:
        listener.leaves.set()
        async with asyncio.timeout(WAIT_SECONDS):
            await task


def test_events_are_delivered_and_continue_after_a_cut(middleware: EventStreams, runs: Any, people: Any) -> None:
    token, own, foreign = people.ana.token(), *runs

    async def work() -> None:
        async with listening(middleware, "/api/events/stream", token) as first:
            assert dict(first.start["headers"])[b"content-type"].startswith(b"text/event-stream")
            await asyncio.to_thread(factories.emit, own, "step.started", step="SpawnOnHost")
            await first.until(lambda: len(first.events) == 1)
            await asyncio.to_thread(factories.emit, foreign, "step.started", step="SpawnOnHost")
            await asyncio.to_thread(factories.emit, own, "step.done", step="SpawnOnHost", host="sim-1")
            await first.until(lambda: len(first.events) == 2)
        assert [event["kind"] for event in first.events] == ["step.started", "step.done"]
        assert "event: step.done\n" in first.text
        assert "sim-1" not in first.text  # as on pages: no host for tenants
        async with listening(middleware, "/api/events/stream", token, first.ids[0]) as second:
            await second.until(lambda: len(second.events) == 1)
        assert second.events == first.events[1:]
        assert second.ids == first.ids[1:]
        async with listening(middleware, f"/api/workflows/{own.uuid}/events/stream?after=", token) as whole:
            await whole.until(lambda: len(whole.events) == 2)

    asyncio.run(work())
    assert middleware.shares.count == 0


def test_a_right_that_ends_ends_the_stream(
    middleware: EventStreams, runs: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "ALIVE_SECONDS", 0.1)
    token = people.ana.token()

    async def work() -> None:
        async with listening(middleware, "/api/events/stream", token) as listener:
            await listener.until(lambda: ": alive" in listener.text)
            await asyncio.to_thread(tokens.revoke, token)
            await listener.until(lambda: listener.is_over)
        assert "event: end\n" in listener.text
        assert '"code": 401' in listener.text.replace('"code":401', '"code": 401')

    asyncio.run(work())


@pytest.mark.parametrize(
    ("path", "who", "status"),
    [
        ("/api/events/stream", None, 401),
        ("/api/events/stream?after=everything", "ana", 400),
        ("/api/events/stream?colour=red", "ana", 400),
        ("/api/workflows/{lab}/events/stream", "ana", 404),
    ],
)
def test_an_invalid_stream_is_refused_like_the_page(
    middleware: EventStreams, runs: Any, people: Any, path: str, who: str | None, status: int
) -> None:
    async def work() -> None:
        listener = Listener(path.format(lab=runs[1].uuid), people[who].token() if who else None)
        async with asyncio.timeout(WAIT_SECONDS):
            await middleware(listener.scope, listener.receive, listener.send)
        assert (listener.start["status"], json.loads(listener.text)["error"]["code"]) == (status, status)

    asyncio.run(work())


def test_the_number_of_streams_is_limited(middleware: EventStreams, people: Any) -> None:
    middleware.shares.most = 1
    token = people.ana.token()

    async def work() -> None:
        async with listening(middleware, "/api/events/stream", token):
            late = Listener("/api/events/stream", token)
            async with asyncio.timeout(WAIT_SECONDS):
                await middleware(late.scope, late.receive, late.send)
            assert (late.start["status"], dict(late.start["headers"])[b"retry-after"]) == (503, b"30")

    asyncio.run(work())
