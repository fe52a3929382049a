"""The share that a request counts against, before and after its authentication; and other shares during a storm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.http import HttpRequest

from portal import callers, fair_share
from portal.callers import ANONYMOUS, Caller, Callers
from portal.request_limits import RequestLimitsMiddleware, TransferLimits
from tests.loops import run_at_most
from tests.waiting import WAIT_SECONDS, wait_until_async

ANA, BO = Caller("project:shop", "ana"), Caller("project:lab", "bo")


NEVER = 3600.0
PATIENT = TransferLimits(body=NEVER, idle=NEVER, wait=NEVER, answer=NEVER)


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no limit of the queue end, however long a test takes."""
    monkeypatch.setattr(fair_share, "SETTLED_SECONDS", NEVER)
    monkeypatch.setattr(fair_share, "PRESENT_SECONDS", NEVER)


def scope_of(address: str = "192.0.2.1", **headers: str) -> dict[str, Any]:
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "GET", "path": "/servers", "headers": lines, "client": (address, 1)}


def reported(known: Callers, scope: dict[str, Any], project_id: str, user_id: str) -> None:
    """Report a caller, like a worker that has authenticated the request."""
    opened = known.opened(scope)
    request = HttpRequest()
    request.META["asgi.scope"] = dict(opened)  # middlewares copy it
    callers.report(request, project_id, user_id)
    known.learn(opened)


def test_a_proof_counts_to_its_project_once_a_worker_has_accepted_it() -> None:
    known = Callers()
    by_token, by_session = scope_of(x_auth_token="t"), scope_of("192.0.2.2", cookie="a=b; novella_session=s")
    for scope in (by_token, by_session):
        assert (known.known(scope), known.of(scope)) == (None, Caller(ANONYMOUS, address=scope["client"][0]))
        reported(known, scope, "shop", "ana")
        assert known.known(scope) == known.of(scope) == ANA
    assert known.of(scope_of("198.51.100.1", x_auth_token="t")) == ANA  # from wherever it comes
    assert known.known(scope_of(x_auth_token="other")) is None


def test_without_a_known_proof_a_request_counts_to_its_address_if_that_is_known() -> None:
    known = Callers()
    reported(known, scope_of("192.0.2.1", x_auth_token="t"), "shop", "ana")
    for scope in (scope_of("192.0.2.1"), scope_of("192.0.2.1", x_auth_token="made-up")):
        assert known.of(scope) == Caller("address:192.0.2.1", address="192.0.2.1")
    assert known.of(scope_of("192.0.2.9", x_auth_token="made-up")).share == ANONYMOUS


def test_a_user_without_a_project_has_a_share_of_their_own() -> None:
    known, scope = Callers(), scope_of(x_auth_token="t")
    reported(known, scope, "", "bo")
    assert known.of(scope).share == "project:bo"


def test_a_request_that_no_worker_has_accepted_does_not_identify_its_caller() -> None:
    known, scope = Callers(), scope_of(x_auth_token="t")
    assert known.learn(known.opened(scope)) is None
    assert known.of(scope).share == ANONYMOUS


def test_a_storm_of_one_caller_leaves_others_a_worker_at_once() -> None:
    """As many requests as there are places, of a caller whose requests take long; another's is served at once."""
    known, hostile, other = Callers(), scope_of(x_auth_token="bo"), scope_of(x_auth_token="ana")
    known.remember(hostile, BO)
    known.remember(other, ANA)

    async def work() -> None:
        release = asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            if dict(scope["headers"])[b"x-auth-token"] == b"bo":
                await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"."})

        middleware = RequestLimitsMiddleware(application, workers=16, pace=PATIENT, callers=known)
        assert await asked(middleware, other) == 200
        storm = [asyncio.create_task(asked(middleware, hostile)) for _ in range(600)]
        most = 600 - 256 - 2
        await wait_until_async("some are refused", lambda: sum(one.done() for one in storm) >= most)
        assert await asked(middleware, other) == 200
        refused = [one.result() for one in storm if one.done()]
        assert set(refused) == {503}  # those above an eighth of all places that wait
        assert len(refused) == most
        release.set()
        assert sum(status == 200 for status in await asyncio.gather(*storm)) == 258

    run_at_most(WAIT_SECONDS, work())


def test_bodies_that_wait_of_one_caller_leave_memory_for_others(monkeypatch: Any) -> None:
    monkeypatch.setattr("portal.request_limits.MOST_BODIES", 4000)
    known, hostile, other = Callers(), scope_of(x_auth_token="bo"), scope_of(x_auth_token="ana")
    known.remember(hostile, BO)
    known.remember(other, ANA)

    async def work() -> None:
        release = asyncio.Event()

        async def application(scope: Any, receive: Any, send: Any) -> None:
            await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"."})

        middleware = RequestLimitsMiddleware(application, workers=16, pace=PATIENT, callers=known)
        storm = [asyncio.create_task(asked(middleware, hostile, b"x" * 400)) for _ in range(12)]
        await wait_until_async("some are refused", lambda: sum(one.done() for one in storm) >= 10)
        mine = asyncio.create_task(asked(middleware, other, b"x" * 900))
        await wait_until_async("it is taken in", lambda: middleware.bodies.held[ANA.share] == 900)
        assert not mine.done()
        release.set()
        assert await mine == 200
        assert sorted(await asyncio.gather(*storm)) == [200] * 2 + [503] * 10
        assert not middleware.bodies.held

    run_at_most(WAIT_SECONDS, work())


async def asked(middleware: RequestLimitsMiddleware, scope: dict[str, Any], body: bytes = b"") -> int:
    """Return the status of the answer."""
    sent: list[Any] = []
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if not pieces:
            await asyncio.Future()
        return pieces.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await middleware({**scope, "http_version": "1.0"}, receive, send)
    return int(sent[0]["status"])
