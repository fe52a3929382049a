"""Attacks with many open connections: clients that never sign in, never finish a body, or take all slots."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.identity import assignments, tokens
from conductor.identity.assignments import AssignmentScope
from conductor.services.workflows import event_log
from portal.live import event_streams, hub, polls, stream_rights
from portal.live.connections import SIGN_IN_AGAIN
from portal.live.event_streams import EventStreams
from portal.live.polls import LivePolls
from tests import factories
from tests.fixtures.event_streams import Listener
from tests.fixtures.live_polls import Poll, elsewhere, requested
from tests.loops import run_at_most
from tests.waiting import WAIT_SECONDS, wait_until_async

pytestmark = pytest.mark.usefixtures("databases")
SECONDS = WAIT_SECONDS
FAR_SECONDS = 3600.0
HALF = {"type": "http.request", "body": b'{"follow": [', "more_body": True}


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch, people: Any) -> None:
    monkeypatch.setattr(hub, "_sinks", set())
    factories.cells()


async def _half_sent(polls_: LivePolls, session: str) -> Poll:
    poll = Poll(session)
    poll.asked.put_nowait(HALF)
    await polls_(poll.scope, poll.asked.get, poll.send)
    return poll


def test_incomplete_polls_without_a_session_take_no_slot(people: Any) -> None:
    middleware, session = LivePolls(elsewhere), people.ana.session()
    middleware.shares.most = 3

    async def work() -> None:
        first = requested("me", "tray", await asyncio.to_thread(event_log.here), first=True)
        found = await asyncio.gather(*(_half_sent(middleware, name) for name in ("", "made-up", "", "x", "y")))
        assert [json.loads(poll.body).get("code") for poll in found] == [SIGN_IN_AGAIN] * 5
        assert "messages" in await Poll(session).ask(middleware, first)

    run_at_most(SECONDS, work())
    assert middleware.shares.count == 0


def test_incomplete_polls_of_a_user_end_and_leave_slots_for_others(
    people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[asyncio.Timeout] = []

    def far(_: float) -> asyncio.Timeout:
        limits.append(asyncio.timeout(FAR_SECONDS))
        return limits[-1]

    monkeypatch.setattr(polls, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": far}))
    middleware, mine, other = LivePolls(elsewhere), people.rea.session(), people.ana.session()
    middleware.shares.most, middleware.shares.most_of_a_user = 4, 3

    async def work() -> None:
        first = requested("me", "tray", await asyncio.to_thread(event_log.here), first=True)
        waiting = [asyncio.create_task(_half_sent(middleware, mine)) for _ in range(5)]
        await wait_until_async("two are refused", lambda: sum(task.done() for task in waiting) == 2)
        assert middleware.shares.count == 3
        half_sent = list(limits)
        assert "messages" in await Poll(other).ask(middleware, first)
        for limit in half_sent:
            limit.reschedule(asyncio.get_running_loop().time())
        found = await asyncio.gather(*waiting)
        assert Counter(poll.start["status"] for poll in found) == {408: 3, 429: 2}
        assert "messages" in await Poll(mine).ask(middleware, first)

    run_at_most(SECONDS, work())
    assert middleware.shares.count == 0


@pytest.fixture
def page_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of requests to the application behind the streams, for each page of the event log."""
    found: Counter[str] = Counter()
    ask = event_streams._SharedPages.ask

    async def counted(self: Any, scope: Any) -> Any:
        found[scope["query_string"].decode()] += 1
        return await ask(self, scope)

    monkeypatch.setattr(event_streams._SharedPages, "ask", counted)
    return found


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The streams that wait for an event because they have sent everything. None wakes without one."""
    found: set[Any] = set()
    wake = event_streams._Sleeper.wake

    async def watched(self: Any) -> None:
        found.add(self)
        try:
            await wake(self)
        finally:
            found.discard(self)

    monkeypatch.setattr(event_streams._Sleeper, "wake", watched)
    monkeypatch.setattr(event_streams, "ALIVE_SECONDS", FAR_SECONDS)
    return found


def _streams() -> EventStreams:
    from portal import asgi

    return EventStreams(
        asgi.RequestLimitsMiddleware(asgi.WatchedBodies(asgi.WSGIMiddleware(asgi._http, workers=4)), workers=4)
    )


async def _open(middleware: EventStreams, token: str, number: int) -> tuple[list[Listener], list[asyncio.Task[None]]]:
    listeners = [Listener("/api/events/stream", token) for _ in range(number)]
    tasks = [asyncio.create_task(middleware(one.scope, one.receive, one.send)) for one in listeners]
    for one in listeners:
        await one.until(lambda one=one: "retry:" in one.text or one.is_over)  # type: ignore[misc]
    return listeners, tasks


def test_a_reader_has_a_share_of_the_streams(people: Any) -> None:
    middleware, mine, other = _streams(), people.rea.token(), people.ana.token()
    most = middleware.shares.most_of_a_user

    async def work() -> None:
        listeners, tasks = await _open(middleware, mine, most + 5)
        refused = [one for one in listeners if one.is_over]
        assert [one.start["status"] for one in refused] == [429] * 5
        assert f"You have {most} streams open" in refused[0].text
        others, more = await _open(middleware, other, 1)
        assert others[0].start["status"] == 200
        for one in listeners + others:
            one.leaves.set()
        await asyncio.gather(*tasks, *more)

    run_at_most(SECONDS, work())
    assert middleware.shares.count == 0


def _received(listeners: list[Listener], kind: str, most: int) -> Callable[[], bool]:
    return lambda: all(one.text.count(f"event: {kind}\n") == most for one in listeners)


@pytest.mark.parametrize("names", [("ana",), ("ana", "bo", "rea")])
def test_streams_with_the_same_scope_share_one_reading(
    people: Any, page_counts: Counter[str], asleep: set[Any], names: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read once for all tokens of all users of a project."""
    monkeypatch.setattr(event_streams, "GATHER_SECONDS", 1.0)  # long enough for a loop that is slow
    middleware = _streams()
    _, run = factories.build(people.ana.context(), "web")
    readings = 0

    async def work() -> None:
        nonlocal readings
        listeners, tasks = [], []
        for name in names:
            for _ in range(12 // len(names)):
                more = await _open(middleware, people[name].token() if len(names) > 1 else own, 1)
                listeners += more[0]
                tasks += more[1]
        await asyncio.to_thread(factories.emit, run, "step.started", step="SpawnOnHost")
        await listeners[0].until(_received(listeners, "step.started", 1))
        await wait_until_async("all have sent it", lambda: len(asleep) == len(listeners))
        page_counts.clear()
        await asyncio.to_thread(factories.emit, run, "step.done", step="SpawnOnHost")
        await listeners[0].until(_received(listeners, "step.done", 1))
        await wait_until_async("all have sent it", lambda: len(asleep) == len(listeners))
        readings = page_counts.total()
        assert len({one.text.partition("event: step.done")[2] for one in listeners}) == 1
        for one in listeners:
            one.leaves.set()
        await asyncio.gather(*tasks)

    own = people.ana.token()
    run_at_most(SECONDS, work())
    assert readings <= 2, page_counts
    assert middleware.shares.count == 0


def test_a_token_that_ends_gets_nothing_of_a_shared_poll(people: Any, asleep: set[Any]) -> None:
    middleware, mine, ended = _streams(), people.ana.token(), people.ana.token()
    _, run = factories.build(people.ana.context(), "web")

    async def work() -> None:
        (first,), tasks = await _open(middleware, ended, 1)
        (second,), more = await _open(middleware, mine, 1)
        (lost,), others = await _open(middleware, people.bo.token(), 1)
        (foreign,), last = await _open(middleware, people.chi.token(), 1)
        streams = [first, second, lost]
        await asyncio.to_thread(factories.emit, run, "step.started", step="SpawnOnHost")
        await first.until(_received(streams, "step.started", 1))
        await wait_until_async("all have sent it", lambda: len(asleep) == 4)
        await asyncio.to_thread(tokens.revoke, ended)
        await asyncio.to_thread(_leave, people.bo)
        scopes = {stream_rights.token_of(one.scope): one.scope for one in (*streams, foreign)}
        held = await asyncio.to_thread(stream_rights.permitted, scopes, people.ana.project.id)
        assert held == {mine.encode()}, "whichever stream requests the page"
        await asyncio.to_thread(factories.emit, run, "step.done", step="SpawnOnHost")
        await second.until(_received([second], "step.done", 1))
        for one in (first, lost):
            await one.until(lambda one=one: one.is_over)  # type: ignore[misc]
            assert "event: end\n" in one.text
            assert "step.done" not in one.text
        assert not second.is_over
        assert foreign.events == []
        for one in (second, foreign):
            one.leaves.set()
        await asyncio.gather(*tasks, *more, *others, *last)

    run_at_most(SECONDS, work())
    assert middleware.shares.count == 0


def _leave(person: Any) -> None:
    """Revoke the person's role in the project."""
    assignments.take_away(AssignmentScope(user_id=person.user.id, project_id=person.project.id), person.role.id)
