"""Joins a console proxy to the host of a guest, over a line that nobody else can read or answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import ssl

from conductor.core.console_calls import LONGEST_LINE, ConsoleCall, why_not
from conductor.core.errors import Unavailable
from conductor.services.consoles import Door, OpenedConsole

DIAL_SECONDS = 10.0
READY_SECONDS = 30.0

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dial(console: OpenedConsole) -> Line:
    """The console, byte for byte. Raises Unavailable with a sentence for the person who waits for it."""
    try:
        reader, writer = await asyncio.wait_for(_connect(console.door), DIAL_SECONDS)
    except OSError:
        raise Unavailable(f"Host {console.host} cannot be reached for consoles.") from None
    try:
        await _call(console, reader, writer)
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _call(console: OpenedConsole, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _check_identity(console, writer)
    call = ConsoleCall(console.door.key, console.host, console.instance_uuid, console.kind)
    writer.write(call.to_line())
    try:
        answer = await asyncio.wait_for(reader.readline(), READY_SECONDS)
    except (OSError, ValueError):
        raise Unavailable(f"Host {console.host} does not answer.") from None
    problem = why_not(answer)
    if problem:
        raise Unavailable(problem)


async def _connect(door: Door) -> Line:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The host made its certificate itself; the fingerprint that it told its conductor says that it is the host's.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(door.address, door.port, ssl=context, limit=max(LONGEST_LINE, 65536))
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def _check_identity(console: OpenedConsole, writer: asyncio.StreamWriter) -> None:
    """Before a word is said: the key is for the host alone."""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    found = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(found, console.door.fingerprint):
        raise Unavailable(f"What answers for host {console.host} is not that host.")
