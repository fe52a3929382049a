"""The one port on which a host joins console proxies to its guests: encrypted, and only for whoever has its key.

What is asked of a guest comes in by it too, and is answered with one line.

proxy ── TLS ──▶ door ── open_console ──▶ driver ──▶ the guest's screen or serial line
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from conductor.compute import door_certificate
from conductor.compute.serial_lines import PIECE, SerialLines
from conductor.core.console_calls import LONGEST_LINE, READY, ConsoleCall, answer, refusal
from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Invalid, NotSupported, NovellaError
from conductor.core.guest_questions import GuestQuestion

log = logging.getLogger(__name__)

CALL_SECONDS = 10.0
START_SECONDS = 10.0
MOST_CALLS = 512
OPEN_THREADS = 4

# Opens a console of a guest; raises NovellaError with a sentence for the person who wants it.
OpenConsole = Callable[[str, str, ConsoleKind], socket.socket]
# Answers a question about a guest of a host; raises NovellaError.
Ask = Callable[[str, str, GuestQuestion], Mapping[str, Any]]


def answers_nothing(host: str, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
    """What stands for the answers of a door that has only consoles."""
    raise NotSupported(f"Host {host} answers no questions.")


@dataclass(frozen=True)
class DoorPlace:
    """Where a door listens, and under which name or address proxies reach it; port 0 takes a free one."""

    listen: str
    port: int
    address: str


@dataclass(frozen=True)
class DoorOffer:
    """What a proxy must know to come in."""

    address: str
    tcp_port: int
    fingerprint: str
    key: str


class ConsoleDoor:
    """A server on a thread of its own. `offer` is None until it listens."""

    def __init__(self, place: DoorPlace, open_console: OpenConsole, ask: Ask = answers_nothing) -> None:
        self.offer: DoorOffer | None = None
        self._place = place
        self._open_console = open_console
        self._ask = ask
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="compute-door", daemon=True)
        self._openers = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="compute-door-open")
        self._key = secrets.token_urlsafe(32)
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._lines = SerialLines()

    def start(self) -> None:
        """Listen. Where that cannot be, it is said once, and the hosts work without consoles."""
        self._thread.start()
        try:
            self._run(self._listen())
        except OSError as error:
            log.error("no consoles: cannot listen on %s port %s: %s", self._place.listen, self._place.port, error)

    def stop(self) -> None:
        """End every console and close the port."""
        if not self._thread.is_alive():
            return
        self.offer = None
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._openers.shutdown(wait=False, cancel_futures=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def _listen(self) -> None:
        context, fingerprint = door_certificate.make()
        self._server = await asyncio.start_server(
            self._receive,
            self._place.listen,
            self._place.port,
            ssl=context,
            ssl_handshake_timeout=CALL_SECONDS,
            limit=LONGEST_LINE,
        )
        port = self._server.sockets[0].getsockname()[1]
        self.offer = DoorOffer(self._place.address, port, fingerprint, self._key)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One proxy, from its call to the end of its console."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            if len(self._calls) <= MOST_CALLS:
                _keep_alive(writer)
                await self._answer(reader, writer, task)
        except (OSError, asyncio.CancelledError):
            pass  # the proxy went, or somebody else took the line
        except Exception:
            log.exception("console failed")
        finally:
            self._calls.discard(task)
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            call = await self._read_call(reader)
        if call is None:
            return
        line = (call.host, call.instance_uuid)
        try:
            if isinstance(call.kind, GuestQuestion):
                writer.write(answer(await self._do(self._ask, call)))
                await writer.drain()
                return
            if call.kind is WatchedKind.SERIAL:
                writer.write(READY)
                await self._lines.watch(line, reader, writer)
                return
            is_line = call.kind is ConsoleKind.SERIAL
            if is_line:
                await self._lines.take(line, task)
            guest = await self._do(self._open_console, call)
            writer.write(READY)
            await _join(guest, reader, writer, partial(self._lines.heard, line) if is_line else _unheard)
        except NovellaError as error:
            writer.write(refusal(error.message))
            await writer.drain()
        finally:
            self._lines.give_back(line, task)

    async def _do(self, does: Callable[..., Any], call: ConsoleCall) -> Any:
        """On a thread: a hypervisor takes its time."""
        return await self._loop.run_in_executor(self._openers, does, call.host, call.instance_uuid, call.kind)

    async def _read_call(self, reader: asyncio.StreamReader) -> ConsoleCall | None:
        """The call; None from somebody who is not of this cloud, who learns nothing."""
        try:
            call = ConsoleCall.from_line(await reader.readuntil(b"\n"))
        except (Invalid, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        if hmac.compare_digest(call.key.encode(), self._key.encode()):
            return call
        log.warning("console refused: a caller had another key")
        return None


async def _join(
    guest: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[bytes], None]
) -> None:
    """Carry bytes both ways until one side ends; `heard` gets what the guest says too."""
    guest.setblocking(False)
    guest_reader, guest_writer = await asyncio.open_connection(sock=guest)
    ways = [
        asyncio.ensure_future(_carry(reader, guest_writer, _unheard)),
        asyncio.ensure_future(_carry(guest_reader, writer, heard)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        guest_writer.close()
        with suppress(OSError):
            await guest_writer.wait_closed()


def _unheard(piece: bytes) -> None:
    """Nobody else is told of it."""


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[bytes], None]) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        heard(piece)
        await writer.drain()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A proxy whose machine died is noticed."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
