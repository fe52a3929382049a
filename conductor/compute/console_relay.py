"""Relays consoles of guests to console proxies, and answers queries about guests, on one encrypted port of the agent.

proxy ── TLS ──▶ relay ── open_console ──▶ driver ──▶ the guest's screen or serial port
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from conductor.core.console_protocol import MAX_LINE_BYTES, READY, ConsoleRequest, encode_answer, encode_error
from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Invalid, NotSupported, NovellaError
from conductor.core.guest_questions import GuestQuestion

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
START_SECONDS = 10.0
MAX_CONNECTIONS = 512
OPEN_THREADS = 4
CHUNK_BYTES = 1 << 16
TAKEOVER_SECONDS = 10.0
# Recent output that a new viewer is shown.
RECENT_BYTES = 16 << 10
# A viewer with more unsent output than this is disconnected, so that no other viewer waits for a slow one.
MAX_BACKLOG_BYTES = 1 << 20
CERTIFICATE_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "novella-consoles")])
CERTIFICATE_LIFETIME = timedelta(days=3650)
CLOCK_SKEW = timedelta(days=1)

# Opens a console of a guest: host, instance, kind. Raises NovellaError with a message for the user.
OpenConsole = Callable[[str, str, ConsoleKind], socket.socket]
# Answers a question about a guest: host, instance, question. Raises NovellaError.
AskGuest = Callable[[str, str, GuestQuestion], Mapping[str, Any]]
SerialPortKey = tuple[str, str]  # host and instance


def no_questions(host: str, instance_uuid: str, question: GuestQuestion) -> Mapping[str, Any]:
    """Refuse every query: for a relay that serves consoles only."""
    raise NotSupported(f"Host {host} answers no questions.")


@dataclass(frozen=True)
class RelayAddress:
    """The address on which a relay listens, and the name or address at which proxies reach it. Port 0 takes a free
    one.
    """

    listen: str
    port: int
    address: str


@dataclass(frozen=True)
class RelayAnnouncement:
    """Connection parameters for a proxy: address, port, fingerprint of the certificate, and the key."""

    address: str
    tcp_port: int
    fingerprint: str
    key: str


class ConsoleRelay:
    """An asyncio server on a thread of its own. `announcement` is None until it listens."""

    def __init__(self, address: RelayAddress, open_console: OpenConsole, ask_guest: AskGuest = no_questions) -> None:
        self.announcement: RelayAnnouncement | None = None
        self._address = address
        self._open_console = open_console
        self._ask_guest = ask_guest
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="compute-consoles-relay", daemon=True)
        self._executor = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="compute-consoles-open")
        self._key = secrets.token_urlsafe(32)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._serial_ports = SerialPorts()

    def start(self) -> None:
        """Listen. A failure is logged, and the hosts work without consoles."""
        self._thread.start()
        try:
            self._run(self._listen())
        except OSError as error:
            log.error("no consoles: cannot listen on %s port %s: %s", self._address.listen, self._address.port, error)

    def stop(self) -> None:
        """End every console and close the port."""
        if not self._thread.is_alive():
            return
        self.announcement = None
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    async def _listen(self) -> None:
        context, fingerprint = make_certificate()
        self._server = await asyncio.start_server(
            self._serve,
            self._address.listen,
            self._address.port,
            ssl=context,
            ssl_handshake_timeout=REQUEST_SECONDS,
            limit=MAX_LINE_BYTES,
        )
        port = self._server.sockets[0].getsockname()[1]
        self.announcement = RelayAnnouncement(self._address.address, port, fingerprint, self._key)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one proxy, from its request to the end of its console."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= MAX_CONNECTIONS:
                _keep_alive(writer)
                await self._handle_request(reader, writer, task)
        except (OSError, asyncio.CancelledError):
            pass  # the proxy disconnected, or another one took the serial port over
        except Exception:
            log.exception("console failed")
        finally:
            self._connections.discard(task)
            writer.close()

    async def _handle_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await self._read_request(reader)
        if request is None:
            return
        key = (request.host, request.instance_uuid)
        try:
            if isinstance(request.kind, GuestQuestion):
                writer.write(encode_answer(await self._in_thread(self._ask_guest, request)))
                await writer.drain()
                return
            if request.kind is WatchedKind.SERIAL:
                writer.write(READY)
                await self._serial_ports.watch(key, reader, writer)
                return
            is_serial = request.kind is ConsoleKind.SERIAL
            if is_serial:
                await self._serial_ports.take(key, task)
            guest = await self._in_thread(self._open_console, request)
            writer.write(READY)
            on_output = partial(self._serial_ports.publish, key) if is_serial else _ignore
            await _relay(guest, reader, writer, on_output)
        except NovellaError as error:
            writer.write(encode_error(error.message))
            await writer.drain()
        finally:
            self._serial_ports.release(key, task)

    async def _in_thread(self, function: Callable[..., Any], request: ConsoleRequest) -> Any:
        """Call a function that may block, such as one of the driver."""
        arguments = (request.host, request.instance_uuid, request.kind)
        return await self._loop.run_in_executor(self._executor, function, *arguments)

    async def _read_request(self, reader: asyncio.StreamReader) -> ConsoleRequest | None:
        """Read the request. None, without an answer, for a malformed one or a wrong key."""
        try:
            request = ConsoleRequest.from_line(await reader.readuntil(b"\n"))
        except (Invalid, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        if hmac.compare_digest(request.key.encode(), self._key.encode()):
            return request
        log.warning("console refused: the caller has a wrong key")
        return None


async def _relay(
    guest: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_output: Callable[[bytes], None]
) -> None:
    """Copy bytes both ways until one side ends. `on_output` also gets the guest's output."""
    guest.setblocking(False)
    guest_reader, guest_writer = await asyncio.open_connection(sock=guest)
    copies = [
        asyncio.ensure_future(_copy(reader, guest_writer, _ignore)),
        asyncio.ensure_future(_copy(guest_reader, writer, on_output)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        guest_writer.close()
        with suppress(OSError):
            await guest_writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_chunk: Callable[[bytes], None]) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        on_chunk(chunk)
        await writer.drain()


def _ignore(chunk: bytes) -> None:
    """Do nothing with a chunk."""


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Detect a proxy whose machine died."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


# -- serial ports


@dataclass
class _SerialPort:
    holder: asyncio.Task[None] | None = None
    viewers: set[asyncio.StreamWriter] = field(default_factory=set)
    recent: bytes = b""


class SerialPorts:
    """The serial ports in use: each has one connection that types, and any number of viewers of its output.

    All methods run on the relay's event loop.
    """

    def __init__(self) -> None:
        self._ports: dict[SerialPortKey, _SerialPort] = {}

    async def take(self, key: SerialPortKey, task: asyncio.Task[None]) -> None:
        """Give the port to `task`, and end the task that had it."""
        port = self._ports.setdefault(key, _SerialPort())
        before, port.holder = port.holder, task
        if before is not None:
            before.cancel()
            await asyncio.wait([before], timeout=TAKEOVER_SECONDS)

    def release(self, key: SerialPortKey, task: asyncio.Task[None]) -> None:
        """Free the port, unless another task has taken it."""
        port = self._ports.get(key)
        if port is not None and port.holder is task:
            port.holder = None
            self._forget_if_unused(key)

    def publish(self, key: SerialPortKey, chunk: bytes) -> None:
        """Send output of the guest to all viewers."""
        port = self._ports[key]
        port.recent = (port.recent + chunk)[-RECENT_BYTES:]
        for viewer in tuple(port.viewers):
            if viewer.transport.get_write_buffer_size() > MAX_BACKLOG_BYTES:
                viewer.transport.abort()
            else:
                viewer.write(chunk)

    async def watch(self, key: SerialPortKey, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Show the port's output until the viewer disconnects. The viewer's input is discarded."""
        port = self._ports.setdefault(key, _SerialPort())
        port.viewers.add(writer)
        writer.write(port.recent)
        try:
            while await reader.read(CHUNK_BYTES):
                pass
        finally:
            port.viewers.discard(writer)
            self._forget_if_unused(key)

    def _forget_if_unused(self, key: SerialPortKey) -> None:
        port = self._ports.get(key)
        if port is not None and port.holder is None and not port.viewers:
            del self._ports[key]


# -- the certificate


def make_certificate() -> tuple[ssl.SSLContext, str]:
    """Create a new certificate. Return a server context with it, and its SHA-256 fingerprint in hex.

    Proxies know the certificate by its fingerprint. It is never stored on a disk.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(CERTIFICATE_NAME)
        .issuer_name(CERTIFICATE_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CERTIFICATE_LIFETIME)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory(prefix="novella-consoles-") as folder:  # ssl loads certificates from files only
        path = Path(folder) / "certificate.pem"
        path.touch(0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(path)
    return context, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
