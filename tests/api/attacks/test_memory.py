"""Attacks on a web process's memory: bodies that never end, and answers that are never read."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from portal.api import pagination
from portal.callers import Caller, Callers
from portal.fair_share import SHARE_OF_ADDRESS, SHARE_OF_CALLER
from portal.request_limits import MOST_BODIES, MOST_RESPONSES, PIECE, RequestLimitsMiddleware, TransferLimits, pieces_of
from tests import factories
from tests.loops import run_at_most
from tests.waiting import WAIT_SECONDS, wait_until_async

NEVER = 3600.0
PATIENT = TransferLimits(body=NEVER, idle=NEVER, wait=NEVER, answer=NEVER, window=NEVER)
BODY = b"x" * 2_400_000
PAGE = b"y" * 10_000_000


class Client:
    """Sends a body but its last byte if it `stops`; reads no more than `reads` bytes of what is answered."""

    def __init__(self, address: str = "192.0.2.1", token: str = "", body: bytes = b"", **more: Any) -> None:
        headers = [(b"x-auth-token", token.encode())] if token else []
        path = "/compute/v2.1/servers"
        self.scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": (address, 1)}
        self.stops, self.reads = more.get("stops", False), more.get("reads", 1 << 30)
        self._pieces = [body[at : at + PIECE] for at in range(0, len(body), PIECE)] or [b""]
        self.sent: list[Any] = []
        self.size = 0

    async def receive(self) -> Any:
        if not self._pieces:
            await asyncio.Future()
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or self.stops}

    async def send(self, message: Any) -> None:
        if self.size >= self.reads:
            await asyncio.Future()
        self.sent.append(message)
        self.size += len(message.get("body", b""))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    def ask(self, middleware: RequestLimitsMiddleware) -> asyncio.Task[None]:
        return asyncio.create_task(middleware(self.scope, self.receive, self.send))


def middleware_that_answers(body: bytes, callers: Callers | None = None) -> RequestLimitsMiddleware:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return RequestLimitsMiddleware(application, workers=16, pace=PATIENT, callers=callers or Callers())


async def all_wait(clients: list[Client], tasks: list[asyncio.Task[None]]) -> None:
    """Wait until each client is refused, or has done what it will ever do."""

    def is_settled() -> bool:
        return all(task.done() or not one._pieces for one, task in zip(clients, tasks, strict=True))

    await wait_until_async("all have sent what they send", is_settled)


async def end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_bodies_without_their_last_byte_are_counted_while_they_arrive() -> None:
    async def work() -> None:
        middleware = middleware_that_answers(b"ok")
        clients = [Client(body=BODY, stops=True) for _ in range(80)]
        tasks = [one.ask(middleware) for one in clients]
        await all_wait(clients, tasks)
        assert middleware.bodies.total <= MOST_BODIES // SHARE_OF_ADDRESS
        assert Counter(one.status for one in clients) == {503: 77, 0: 3}
        elsewhere = Client("198.51.100.7", body=BODY)
        await elsewhere.ask(middleware)
        assert elsewhere.status == 200  # the address has the share, not all without a token
        await end(tasks)
        assert (middleware.bodies.total, dict(middleware.bodies.held)) == (0, {})

    run_at_most(WAIT_SECONDS, work())


def test_bodies_of_many_addresses_leave_memory_to_users() -> None:
    async def work() -> None:
        known, user = Callers(), Client("203.0.113.9", "bo", BODY)
        known.remember(user.scope, Caller("project:lab", "bo"))
        middleware = middleware_that_answers(b"ok", known)
        clients = [Client(f"192.0.2.{number}", body=BODY, stops=True) for number in range(80)]
        tasks = [one.ask(middleware) for one in clients]
        await all_wait(clients, tasks)
        assert middleware.bodies.total <= MOST_BODIES // SHARE_OF_CALLER
        await user.ask(middleware)
        assert user.status == 200
        await end(tasks)

    run_at_most(WAIT_SECONDS, work())


def test_unread_responses_are_limited_in_total_and_per_caller() -> None:
    async def work() -> None:
        known, other = Callers(), Client("203.0.113.9", "bo")
        clients = [Client(token="ana", reads=1) for _ in range(60)]
        for one in clients:
            known.remember(one.scope, Caller("project:shop", "ana"))
        known.remember(other.scope, Caller("project:lab", "bo"))
        middleware = middleware_that_answers(PAGE, known)
        tasks = [one.ask(middleware) for one in clients]
        fitting = MOST_RESPONSES // SHARE_OF_CALLER // len(PAGE)
        await wait_until_async(
            "the others are refused", lambda: sum(one.status == 503 for one in clients) == 60 - fitting
        )
        assert middleware.responses.total == fitting * len(PAGE)
        assert sum(one.status == 200 for one in clients) == fitting
        assert max(one.size for one in clients) <= PIECE  # the server below holds no whole page either
        await other.ask(middleware)
        assert (other.status, other.size) == (200, len(PAGE))
        await end(tasks)
        assert (middleware.responses.total, dict(middleware.responses.held)) == (0, {})

    run_at_most(WAIT_SECONDS, work())


def test_many_callers_together_stay_within_the_total() -> None:
    async def work() -> None:
        known = Callers()
        clients = [Client(token=f"t{number}", reads=1) for number in range(60)]
        for number, one in enumerate(clients):
            known.remember(one.scope, Caller(f"project:{number}", "ana"))
        middleware = middleware_that_answers(PAGE, known)
        tasks = [one.ask(middleware) for one in clients]
        fitting = MOST_RESPONSES // len(PAGE)
        await wait_until_async(
            "the others are refused", lambda: sum(one.status == 503 for one in clients) == 60 - fitting
        )
        small = Client(token="t99", reads=1)
        middleware.application = middleware_that_answers(b"ok").application
        await small.ask(middleware)
        assert small.status == 200  # small answers are never held here
        await end(tasks)

    run_at_most(WAIT_SECONDS, work())


def test_a_response_is_sent_in_pieces_that_are_the_whole() -> None:
    for size in (0, PIECE, PIECE + 1, 3 * PIECE):
        for more in (True, False):
            sent = list(pieces_of({"type": "http.response.body", "body": PAGE[:size], "more_body": more}))
            assert b"".join(one["body"] for one in sent) == PAGE[:size]
            assert max(len(one["body"]) for one in sent) <= PIECE
            assert [one["more_body"] for one in sent] == [True] * (len(sent) - 1) + [more]


def properties(count: int, size: int) -> dict[str, str]:
    return {f"p{number}": "x" * size for number in range(count)}


def test_the_properties_of_an_image_are_limited_in_total(api_client: Any) -> None:
    ana = api_client("ana")
    refused = ana.post("/image/v2/images", {"name": "big", **properties(120, 18_000)})
    assert refused.status_code == 400
    assert "131072 characters together" in refused.content.decode()
    made = ana.post("/image/v2/images", {"name": "fits", **properties(7, 18_000)})
    assert made.status_code == 201
    change = [{"op": "add", "path": "/p8", "value": "x" * 18_000}]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert ana.patch(f"/image/v2/images/{made.json()['id']}", change, headers=headers).status_code == 400


def following(body: dict[str, Any], name: str) -> str:
    """Return the path of the next page; "" after the last one."""
    if "next" in body:
        return f"/image{body['next']}"
    links = (str(link["href"]) for link in body.get(f"{name}_links", []) if link["rel"] == "next")
    return next(links, "").partition("://testserver")[2]


def test_pages_are_bounded_by_bytes_and_nothing_is_left_out(
    api_client: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "MOST_PAGE_BYTES", 3000)
    ana = api_client("ana")
    factories.cells()
    for number in range(5):
        assert ana.post("/image/v2/images", {"name": f"i{number}", **properties(1, 2000)}).status_code == 201
        assert ana.post("/network/v2.0/networks", {"network": {"name": f"n{number}", "description": "d" * 255}})
        factories.instance(people.ana.context(), f"web-{number}", metadata={"note": "x" * 255})
        volume = {"volume": {"size": 1, "name": f"v{number}", "metadata": {"note": "x" * 255}}}
        assert ana.post(f"/volume/v3/{people.ana.project.id}/volumes", volume).status_code == 202
    for path, name in (
        ("/image/v2/images?sort=name:asc", "images"),
        ("/compute/v2.1/servers/detail", "servers"),
        ("/compute/v2.1/images/detail", "images"),
        ("/network/v2.0/networks", "networks"),
        (f"/volume/v3/{people.ana.project.id}/volumes/detail", "volumes"),
    ):
        seen: list[str] = []
        pages = 0
        while path:
            answer = ana.get(path)
            assert len(answer.content) < 6000
            seen += [one["id"] for one in answer.json()[name]]
            path, pages = following(answer.json(), name), pages + 1
        assert len(seen) == len(set(seen)) >= 5, name
        assert pages > 1, name
