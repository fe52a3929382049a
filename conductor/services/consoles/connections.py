"""Connections from a console proxy to a guest's host, encrypted and authenticated.

Queries about a guest that only its host can answer use the same connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from conductor.cell_db.models import ConsoleAddress
from conductor.cells.targeting import target_cell
from conductor.core.console_protocol import MAX_ANSWER_BYTES, ConsoleRequest, decode_answer, decode_error
from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Unavailable
from conductor.core.guest_questions import GuestQuestion
from conductor.core.phrases import phrase
from conductor.core.plain_json import field_names
from conductor.db.transactions import database_now, write_tx
from conductor.rpc.messages import ConsolesOffered
from conductor.services.consoles.consoles import ConsoleEndpoint, OpenedConsole

DIAL_SECONDS = 10.0
READY_SECONDS = 30.0
# A user waits for the page.
ANSWER_SECONDS = 5.0

# The kind requested for a caller who only watches.
WATCHED: Mapping[ConsoleKind, ConsoleKind | WatchedKind] = {
    ConsoleKind.VNC: ConsoleKind.VNC,
    ConsoleKind.SERIAL: WatchedKind.SERIAL,
}

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dial(console: OpenedConsole) -> Line:
    """Connect to a console, byte for byte. Raises Unavailable with a sentence for the waiting user."""
    reader, writer = await _open(console.endpoint, console.host, DIAL_SECONDS)
    kind = WATCHED[console.kind] if console.only_watches else console.kind
    call = ConsoleRequest(console.endpoint.key, console.host, console.instance_uuid, kind)
    try:
        problem = decode_error(await _call(call, console.endpoint, (reader, writer), READY_SECONDS))
        if problem:
            raise Unavailable(problem)
    except BaseException:
        writer.close()
        raise
    return reader, writer


def ask(endpoint: ConsoleEndpoint, host: str, instance_uuid: str, question: GuestQuestion) -> dict[str, Any]:
    """Return the host's answer to a query about a guest. Raises Unavailable."""
    return asyncio.run(_ask(endpoint, ConsoleRequest(endpoint.key, host, instance_uuid, question)))


async def _ask(endpoint: ConsoleEndpoint, call: ConsoleRequest) -> dict[str, Any]:
    reader, writer = await _open(endpoint, call.host, ANSWER_SECONDS)
    try:
        line = await _call(call, endpoint, (reader, writer), ANSWER_SECONDS)
    finally:
        writer.close()
    found = decode_answer(line)
    if found is None:
        raise Unavailable(decode_error(line))
    return found


async def _open(endpoint: ConsoleEndpoint, host: str, seconds: float) -> Line:
    try:
        async with asyncio.timeout(seconds):
            return await _connect(endpoint)
    except OSError:
        raise Unavailable(phrase("Host %(host)s can't be reached for consoles.", host=host)) from None


async def _call(call: ConsoleRequest, endpoint: ConsoleEndpoint, line: Line, seconds: float) -> bytes:
    """Send the request and return the host's first line."""
    reader, writer = line
    _check_identity(endpoint, call.host, writer)
    writer.write(call.to_line())
    try:
        async with asyncio.timeout(seconds):
            return await reader.readline()
    except (OSError, ValueError):
        raise Unavailable(phrase("Host %(host)s doesn't respond.", host=call.host)) from None


async def _connect(endpoint: ConsoleEndpoint) -> Line:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The host's certificate is self-signed; the fingerprint that the host reported to its conductor authenticates it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(endpoint.address, endpoint.port, ssl=context, limit=MAX_ANSWER_BYTES)
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def _check_identity(endpoint: ConsoleEndpoint, host: str, writer: asyncio.StreamWriter) -> None:
    """Check the certificate before anything is sent, as the key is only for the host."""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    found = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(found, endpoint.fingerprint):
        raise Unavailable(phrase("The program at the address of host %(host)s is not that host's agent.", host=host))


FIRST_PORT, LAST_PORT = 1, 65535


def record_all(cell: str, messages: Sequence[ConsolesOffered]) -> None:
    """Store console endpoints as `record` does, with one query for all unchanged ones."""
    names = field_names(ConsolesOffered)
    rows = ConsoleAddress.objects.using(cell).filter(host__in=[message.host for message in messages])
    known = {ConsolesOffered(**dict(zip(names, values, strict=True))) for values in rows.values_list(*names)}
    for message in messages:
        if message not in known:
            record(cell, message)


def record(cell: str, message: ConsolesOffered) -> None:
    """Store a host's console endpoint. An unchanged one is not written; one without a key or port is ignored."""
    if not (FIRST_PORT <= message.tcp_port <= LAST_PORT and message.address and message.fingerprint and message.key):
        return
    values = asdict(message)
    with target_cell(cell):
        if ConsoleAddress.objects.using(cell).filter(**values).exists():
            return
        host = values.pop("host")
        with write_tx(cell):
            ConsoleAddress.objects.using(cell).update_or_create(
                host=host, defaults={**values, "updated_at": database_now()}
            )
