"""Load on a web process: slow clients, large bodies and headers, and more requests than workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from conductor.management import web_server
from conductor.management.http_protocol import MOST_HEADER_BYTES, BoundedProtocol
from portal import request_limits
from portal.request_limits import RequestLimitsMiddleware, TransferLimits
from tests.loops import run_at_most
from tests.transports import Wire
from tests.waiting import WAIT_SECONDS, wait_until_async

NEVER = 3600.0  # longer than any test
PATIENT = TransferLimits(body=NEVER, idle=NEVER, wait=NEVER, answer=NEVER, window=NEVER)


class Client:
    """Speaks ASGI to an application; `pieces` are those of its body, and None stops in the middle for good."""

    def __init__(self, path: str = "/compute/v2.1/servers", pieces: tuple[bytes | None, ...] = (b"",)) -> None:
        self.scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": []}
        self._pieces = list(pieces)
        self.sent: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> Any:
        if not self._pieces:
            await asyncio.Future()
        piece = self._pieces.pop(0)
        if piece is None:
            await asyncio.Future()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def ask(self, middleware: RequestLimitsMiddleware) -> Client:
        await middleware(self.scope, self.receive, self.send)
        return self


def run(work: Coroutine[Any, Any, None]) -> None:
    run_at_most(WAIT_SECONDS, work)


async def let_all_run() -> None:
    """Let each task run until it waits for another."""
    for _ in range(100):
        await asyncio.sleep(0)


def answering(*pieces: bytes) -> Any:
    """Return an application that reads all and answers so."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return application


def test_a_slow_sender_holds_no_worker() -> None:
    async def work() -> None:
        middleware = RequestLimitsMiddleware(answering(b"ok"), workers=1, pace=PATIENT)
        slow = [asyncio.create_task(Client(pieces=(b"{", None)).ask(middleware)) for _ in range(20)]
        await let_all_run()
        quick = await Client().ask(middleware)
        assert (quick.status, quick.body) == (200, b"ok")
        assert not any(one.done() for one in slow)
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        middleware.pace = replace(PATIENT, body=0.2)
        for late in await asyncio.gather(*(Client(pieces=(b"{", None)).ask(middleware) for _ in range(20))):
            assert late.status == 408
            assert "0.2 seconds" in json.loads(late.body)["computeFault"]["message"]

    run(work())


def test_a_slow_reader_holds_no_worker_and_is_left() -> None:
    async def work() -> None:
        middleware = RequestLimitsMiddleware(answering(b"x" * 100_000, b"y" * 100_000), workers=1, pace=PATIENT)
        waits, slow = Client(), Client()
        for one in (waits, slow):
            one.reads.clear()
        task = asyncio.create_task(waits.ask(middleware))
        await let_all_run()
        assert len((await Client().ask(middleware)).body) == 200_000
        assert not task.done()
        waits.reads.set()
        await task
        middleware.pace = replace(PATIENT, idle=0.2)
        await slow.ask(middleware)
        assert slow.sent == []

    run(work())


def test_a_worker_waits_for_its_reader_only_when_much_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "MOST_BUFFERED", 1000)

    async def work() -> None:
        made = 0

        async def application(scope: Any, receive: Any, send: Any) -> None:
            nonlocal made
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(10):
                await send({"type": "http.response.body", "body": b"x" * 500, "more_body": True})
                made += 1
            await send({"type": "http.response.body", "body": b""})

        client = Client()
        client.reads.clear()
        task = asyncio.create_task(client.ask(RequestLimitsMiddleware(application, workers=1, pace=PATIENT)))
        await wait_until_async("three are made", lambda: made == 3)
        await let_all_run()
        assert made == 3
        client.reads.set()
        await task
        assert (made, len(client.body)) == (10, 5000)

    run(work())


@pytest.mark.parametrize(
    ("path", "most"),
    [("/identity/v3/auth/tokens", 65_536), ("/api/what-if/launch", 1_048_576), ("/compute/v2.1/servers", 2_500_000)],
)
def test_a_body_is_bounded_by_its_route(path: str, most: int) -> None:
    async def work() -> None:
        middleware = RequestLimitsMiddleware(answering(b"ok"), workers=1, pace=replace(PATIENT, linger=0.05))
        half = most // 2
        assert (await Client(path, (b"x" * half, b"x" * (most - half))).ask(middleware)).status == 200
        refused = await Client(path, (b"x" * most, b"x")).ask(middleware)
        assert (refused.status, f"{most} bytes" in refused.body.decode()) == (413, True)
        reported = Client(path, (None,))  # refused by what it announces, before a byte of it
        reported.scope["headers"] = [(b"content-length", str(most + 1).encode())]
        assert (await reported.ask(middleware)).status == 413
        names = dict(refused.sent[0]["headers"])
        assert names[b"x-openstack-request-id"].startswith(b"req-")
        assert not middleware.bodies.held

    run(work())


def test_a_chunked_body_reaches_the_view_with_its_length() -> None:
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))
        await answering(b"ok")(scope, receive, send)

    async def work() -> None:
        client = Client(pieces=(b'{"server"', b": {}}"))
        client.scope["headers"] = [(b"x-auth-token", b"t"), (b"transfer-encoding", b"chunked")]
        assert (await client.ask(RequestLimitsMiddleware(application, workers=1, pace=PATIENT))).status == 200
        assert seen == [{b"x-auth-token": b"t", b"content-length": b"14"}]

    run(work())


def test_a_refused_body_that_still_arrives_does_not_discard_the_response() -> None:
    async def work() -> None:
        pieces = (b"x" * 1_048_577, *(b"x" * 100_000 for _ in range(20)))
        client = Client("/api/what-if/launch", pieces)
        middleware = RequestLimitsMiddleware(answering(b"ok"), workers=1, pace=replace(PATIENT, linger=NEVER))
        assert (await client.ask(middleware)).status == 413
        assert client._pieces == []  # all of it was read before the answer ended
        assert [message.get("more_body", False) for message in client.sent] == [False, True, False]

    run(work())


def test_a_request_without_a_host_is_refused_and_compute_names_its_id_twice() -> None:
    async def play() -> None:
        middleware = RequestLimitsMiddleware(answering(b"."), workers=1, pace=replace(PATIENT, body=0.2))
        for headers, status in (([], 400), ([(b"host", b"a")], 200), ([(b"host", b"a"), (b"host", b"b")], 400)):
            client = Client()
            client.scope |= {"http_version": "1.1", "headers": headers}
            assert (await client.ask(middleware)).status == status
        old = Client()
        old.scope["http_version"] = "1.0"  # which knows no such header
        assert (await old.ask(middleware)).status == 200
        for path, names in (("/compute/v2.1/servers", 2), ("/volume/v3/volumes", 1)):
            late = await Client(path, (b"", None)).ask(middleware)
            reported = dict(late.sent[0]["headers"])
            ids = [reported[name] for name in (b"x-openstack-request-id", b"x-compute-request-id") if name in reported]
            assert (late.status, len(ids), len(set(ids))) == (408, names, 1)

    run(play())


def test_a_request_without_a_free_worker_gets_a_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "MOST_WAITING", 1)

    async def work() -> None:
        release = asyncio.Event()

        async def busy(scope: Any, receive: Any, send: Any) -> None:
            await release.wait()
            await answering(b"ok")(scope, receive, send)

        middleware = RequestLimitsMiddleware(busy, workers=1, pace=PATIENT)
        first, second = (asyncio.create_task(Client().ask(middleware)) for _ in range(2))
        await let_all_run()
        third = await Client().ask(middleware)  # one works, one waits: that is enough
        assert (third.status, dict(third.sent[0]["headers"])[b"retry-after"]) == (503, b"1")
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        middleware.pace = replace(PATIENT, wait=0.2)
        assert (await Client().ask(middleware)).status == 503  # it has waited long enough
        middleware.pace = PATIENT
        alive = asyncio.create_task(Client("/healthz").ask(middleware))
        release.set()
        assert [one.status for one in await asyncio.gather(first, alive)] == [200, 200]
        assert (await Client().ask(middleware)).status == 200

    run(work())


def test_an_answer_that_does_not_come_is_a_503_and_its_worker_comes_back() -> None:
    async def work() -> None:
        release, heard = asyncio.Event(), []

        async def stuck(scope: Any, receive: Any, send: Any) -> None:
            await release.wait()
            await answering(b"too late")(scope, receive, send)
            heard.append(True)

        middleware = RequestLimitsMiddleware(stuck, workers=1, pace=replace(PATIENT, answer=0.2))
        late = await Client().ask(middleware)
        assert (late.status, "may still be carried out" in late.body.decode()) == (503, True)
        middleware.pace = replace(PATIENT, wait=0.2)
        assert (await Client().ask(middleware)).status == 503  # the worker is busy still
        middleware.pace = PATIENT
        release.set()
        assert (await Client().ask(middleware)).body == b"too late"
        assert len(heard) == 2

    run(work())


def test_a_client_that_is_refused_during_its_upload_occupies_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "MOST_BUFFERED", 1000)

    async def work() -> None:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(10):
                await send({"type": "http.response.body", "body": b"x" * 500, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        middleware, slow = RequestLimitsMiddleware(application, workers=1, pace=PATIENT), Client()
        slow.reads.clear()
        task = asyncio.create_task(slow.ask(middleware))
        await let_all_run()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len((await Client().ask(middleware)).body) == 5000
        assert not middleware._late

    run(work())


def test_a_client_that_stops_sending_an_image_counts_as_gone() -> None:
    async def work() -> None:
        seen = []

        async def upload(scope: Any, receive: Any, send: Any) -> None:
            while (message := await receive())["type"] == "http.request":
                seen.append(message["body"])
            seen.append(message["type"].encode())
            await answering(b"")(scope, receive, send)

        path = "/image/v2/images/5f1c0a6e-0000-4000-8000-000000000001/file"
        client = await Client(path, (b"half", None)).ask(
            RequestLimitsMiddleware(upload, workers=1, pace=replace(PATIENT, idle=0.2))
        )
        assert (seen, client.status) == ([b"half", b"http.disconnect"], 408)

    run(work())


DRIP = replace(PATIENT, window=0.2, rate=10_000)


class Clock:
    """The middleware's clock, which only dripping clients move."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Dripping(Client):
    """Sends, or reads, a byte or two every few milliseconds."""

    def __init__(self, clock: Clock, path: str) -> None:
        super().__init__(path)
        self._clock = clock

    async def _take(self, seconds: float) -> None:
        self._clock.now += seconds
        for _ in range(3):  # so that a limit that is over ends it
            await asyncio.sleep(0)

    async def receive(self) -> Any:
        await self._take(0.005)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(self, message: Any) -> None:
        if message.get("body"):
            await self._take(0.005 * len(message["body"]))
        self.sent.append(message)


def test_image_data_that_drip_are_cut_off_whichever_way_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(request_limits, "time", clock)
    path = "/image/v2/images/5f1c0a6e-0000-4000-8000-000000000001/file"
    left = []

    async def upload(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] == "http.request":
            pass
        left.append("upload")
        await answering(b"")(scope, receive, send)

    async def work() -> None:
        middleware = RequestLimitsMiddleware(upload, workers=1, streams=1, pace=DRIP)
        slow = await Dripping(clock, path).ask(middleware)
        assert (slow.status, left) == (408, ["upload"])
        assert "10000 bytes per second" in slow.body.decode()
        reader = Dripping(clock, path)
        download = RequestLimitsMiddleware(answering(*[b"xy"] * 1000), workers=1, streams=1, pace=DRIP)
        await reader.ask(download)
        assert 2 < len(reader.sent) < 200
        assert (await Client(path).ask(download)).body == b"xy" * 1000  # its place is free again
        total = replace(PATIENT, total=0.1)
        assert (await Dripping(clock, path).ask(RequestLimitsMiddleware(upload, workers=1, pace=total))).status == 408

    run(work())


# -- headers --------------------------------------------------------------------------------------------------------


def connected(check: Callable[[BoundedProtocol, Wire], Coroutine[Any, Any, None]], **patches: Any) -> None:
    async def work() -> None:
        config = Config(answering(b"ok"), log_config=None)
        protocol, wire = BoundedProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        await check(protocol, wire)
        protocol.connection_lost(None)

    run(work())


def test_headers_are_bounded() -> None:
    async def check(protocol: BoundedProtocol, wire: Wire) -> None:
        protocol.data_received(b"GET / HTTP/1.1\r\nhost: x\r\nbig: " + b"a" * MOST_HEADER_BYTES + b"\r\n\r\n")
        assert wire.written.startswith(b"HTTP/1.1 431 ")
        assert wire.is_closed

    async def check_without_end(protocol: BoundedProtocol, wire: Wire) -> None:
        protocol.data_received(b"GET / HTTP/1.1\r\nbig: ")
        for _ in range(70):
            if not wire.is_closed:
                protocol.data_received(b"a" * 1024)
        assert wire.written.startswith(b"HTTP/1.1 431 ")
        assert wire.is_closed

    async def check_large_body(protocol: BoundedProtocol, wire: Wire) -> None:
        protocol.data_received(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" + b"a" * 100_000)
        await wait_until_async("it is answered", lambda: wire.written)
        assert wire.written.startswith(b"HTTP/1.1 200 ")
        assert not wire.is_closed

    for each in (check, check_without_end, check_large_body):
        connected(each)


def test_a_client_that_never_ends_its_headers_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.management.http_protocol.HEADER_SECONDS", 0.5)

    async def check(protocol: BoundedProtocol, wire: Wire) -> None:
        def is_cut_off() -> bool:
            if not wire.is_closed:
                protocol.data_received(b"x")  # which gives it no more time
            return wire.is_closed

        protocol.data_received(b"GET / HTTP/1.1\r\nhost: ")
        assert not wire.is_closed
        await wait_until_async("it is cut off", is_cut_off)

    connected(check)


def test_connections_outlast_the_pause_of_clients_that_ask_every_five_seconds() -> None:
    """The command line client does: a connection that is closed just when it asks is an error to it."""
    assert web_server.config_of("portal.asgi:application", "127.0.0.1", 1).timeout_keep_alive >= 30
