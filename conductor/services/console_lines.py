"""Joins a console proxy to the host of a guest, over a line that nobody else can read or answer.

By the same line a host is asked what only it knows of a guest.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from conductor.core.console_calls import LONGEST_ANSWER, ConsoleCall, answered, why_not
from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Unavailable
from conductor.core.guest_questions import GuestQuestion
from conductor.services.consoles import Door, OpenedConsole

DIAL_SECONDS = 10.0
READY_SECONDS = 30.0
# Somebody waits for the page.
ANSWER_SECONDS = 5.0

# What is asked for by somebody who only watches.
WATCHED: Mapping[ConsoleKind, ConsoleKind | WatchedKind] = {
    ConsoleKind.VNC: ConsoleKind.VNC,
    ConsoleKind.SERIAL: WatchedKind.SERIAL,
}

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dial(console: OpenedConsole) -> Line:
    """The console, byte for byte. Raises Unavailable with a sentence for the person who waits for it."""
    reader, writer = await _open(console.door, console.host, DIAL_SECONDS)
    kind = WATCHED[console.kind] if console.only_watches else console.kind
    call = ConsoleCall(console.door.key, console.host, console.instance_uuid, kind)
    try:
        problem = why_not(await _call(call, console.door, (reader, writer), READY_SECONDS))
        if problem:
            raise Unavailable(problem)
    except BaseException:
        writer.close()
        raise
    return reader, writer


def ask(door: Door, host: str, instance_uuid: str, question: GuestQuestion) -> dict[str, Any]:
    """The host's answer to a question about a guest. Raises Unavailable."""
    return asyncio.run(_ask(door, ConsoleCall(door.key, host, instance_uuid, question)))


async def _ask(door: Door, call: ConsoleCall) -> dict[str, Any]:
    reader, writer = await _open(door, call.host, ANSWER_SECONDS)
    try:
        line = await _call(call, door, (reader, writer), ANSWER_SECONDS)
    finally:
        writer.close()
    found = answered(line)
    if found is None:
        raise Unavailable(why_not(line))
    return found


async def _open(door: Door, host: str, seconds: float) -> Line:
    try:
        async with asyncio.timeout(seconds):
            return await _connect(door)
    except OSError:
        raise Unavailable(f"Host {host} cannot be reached for consoles.") from None


async def _call(call: ConsoleCall, door: Door, line: Line, seconds: float) -> bytes:
    """What the host says first."""
    reader, writer = line
    _check_identity(door, call.host, writer)
    writer.write(call.to_line())
    try:
        async with asyncio.timeout(seconds):
            return await reader.readline()
    except (OSError, ValueError):
        raise Unavailable(f"Host {call.host} does not answer.") from None


async def _connect(door: Door) -> Line:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The host made its certificate itself; the fingerprint that it told its conductor says that it is the host's.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(door.address, door.port, ssl=context, limit=LONGEST_ANSWER)
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def _check_identity(door: Door, host: str, writer: asyncio.StreamWriter) -> None:
    """Before a word is said: the key is for the host alone."""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    found = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(found, door.fingerprint):
        raise Unavailable(f"What answers for host {host} is not that host.")
