"""Responses to malformed requests, and to sockets without a route, before any of our own code runs."""

from __future__ import annotations

import asyncio
import re

import pytest
from asgiref.testing import ApplicationCommunicator
from uvicorn.config import Config
from uvicorn.server import ServerState

from conductor.management.http_protocol import MOST_HEADER_BYTES, BoundedProtocol
from portal.live.routing import application
from tests.transports import Wire
from tests.waiting import WAIT_SECONDS


def answer_to(sent: bytes) -> Wire:
    async def work() -> Wire:
        protocol, wire = BoundedProtocol(Config("portal.asgi:application", log_config=None), ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(sent)
        protocol.connection_lost(None)
        return wire

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW /servers HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n", 400),
        (b"GET /" + b"a" * MOST_HEADER_BYTES + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_malformed_requests_are_answered_with_a_request_id(sent: bytes, status: int) -> None:
    wire = answer_to(sent)
    head, _, text = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert re.search(rb"\r\nx-openstack-request-id: req-[0-9a-f-]{36}(\r\n|\Z)", head)
    assert b"\r\ncontent-length: %d\r\n" % len(text) in head
    assert (b"\r\nallow: GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE\r\n" in head) == (status == 405)
    assert wire.is_closed


def test_a_socket_without_a_route_is_refused_before_it_opens(databases: None) -> None:
    async def work() -> None:
        scope = {"type": "websocket", "path": "/nothing", "query_string": b"", "headers": [], "subprotocols": []}
        socket = ApplicationCommunicator(application, scope)
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(WAIT_SECONDS))["type"] == "websocket.close"
        await socket.send_input({"type": "websocket.disconnect", "code": 1006})
        await socket.wait(WAIT_SECONDS)

    asyncio.run(work())
