"""Metadata service of networks: in a network namespace for each, the agent answers at 169.254.169.254."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from compute_drivers import metadata_pages, programs, taps
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service.http import Exchange
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import DriverError
from conductor.core.ovn_names import METADATA_MAC

log = logging.getLogger(__name__)

SERVICE_FAILED = "The metadata service of the network could not be plugged"
CARD = "metadata"
LINK_LOCAL = int.from_bytes(b"\xfe\x80", "big") << 112
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
MAX_CONNECTIONS = 16  # of one address
# Between two connections of a network: a guest that opens many takes little of the agent's time.
PAUSE_SECONDS = 0.005
RETRY_SECONDS = 1.0
REQUEST_SECONDS = 30.0
READ_BYTES = 4096
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class MetadataClient:
    """A port, and the metadata pages of its guest."""

    port: NetworkPort
    pages: MetadataPages

    def addresses(self) -> Iterator[str]:
        """Yield the port's addresses, and its link-local one where it has IPv6."""
        addresses = [ip_address(one.ip_address) for one in self.port.addresses]
        yield from map(str, addresses)
        if any(one.version == 6 for one in addresses):
            yield str(link_local(self.port.mac_address))


@dataclass(eq=False)
class _Network:
    """A network with its listening socket. Its device, in the host's namespace, leads to the namespace of its name."""

    device: str
    listening: socket.socket
    pages: dict[str, MetadataPages] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)  # MAC address by IP address
    connections: Counter[str] = field(default_factory=Counter)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class MetadataService:
    """Serves networks, by one thread for all.

    The kernel of a namespace knows the MAC address of each port and asks no guest for it. So an answer goes to the port
    that has the request's address, whichever guest sent it.
    """

    def __init__(self, attach: Callable[[str, str], None], detach: Callable[[str], None]) -> None:
        """`attach` connects a network and a device, `detach` disconnects a device. Both raise DriverError."""
        self._attach = attach
        self._detach = detach
        self._networks: dict[str, _Network] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def serve(self, network: str, device: str, clients: Sequence[MetadataClient]) -> None:
        """Serve these clients of a network at a device of the host. Raises DriverError."""
        if device not in self._networks:
            self._networks[device] = self._open(network, device)
        served = self._networks[device]
        cards = {address: one.port.mac_address for one in clients for address in one.addresses()}
        words = [f"neigh replace {address} lladdr {mac} dev {CARD} nud permanent" for address, mac in cards.items()]
        words += [f"neigh delete {address} dev {CARD}" for address in served.cards.keys() - cards.keys()]
        _ip(device, words)
        served.cards = cards
        served.pages = {address: one.pages for one in clients for address in one.addresses()}

    def end(self, device: str) -> None:
        """Stop serving at a device, and remove it. Raises DriverError."""
        served = self._networks.pop(device, None)
        if served is not None and self._loop is not None:
            # Closed by the loop, which waits for it.
            asyncio.run_coroutine_threadsafe(_close(served), self._loop).result()
        self.remove(device)

    def remove(self, device: str) -> None:
        """Remove a device of this or an earlier process, with its namespace. Raises DriverError."""
        taps.remove(device)
        programs.run("ip", "netns", "delete", device)
        self._detach(device)

    def stop(self) -> None:
        """Stop serving all networks, and end the thread. Devices that cannot be removed now are removed later."""
        for device in list(self._networks):
            try:
                self.end(device)
            except DriverError as error:
                log.warning("metadata service was not removed: device=%s: %s", device, error.message)
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _open(self, network: str, device: str) -> _Network:
        self.remove(device)
        try:
            _make(device)
            served = _Network(device, _listen_in(device))
            self._attach(network, device)
        except BaseException:
            self.remove(device)
            raise
        asyncio.run_coroutine_threadsafe(_begin(served), self._running_loop()).result()
        return served

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="guest-metadata", daemon=True)
            self._thread.start()
        return self._loop


def link_local(mac_address: str) -> IPv6Address:
    """Return the link-local address of a card: the EUI-64 of RFC 4291."""
    octets = bytes.fromhex(mac_address.replace(":", ""))
    made = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return IPv6Address(LINK_LOCAL | int.from_bytes(made, "big"))


def _make(device: str) -> None:
    """Make the namespace, and a card in it that leads to the device. Raises DriverError."""
    programs.check_output(SERVICE_FAILED, "ip", "netns", "add", device)
    peer = ("peer", "name", CARD, "address", METADATA_MAC, "netns", device)
    programs.check_output(SERVICE_FAILED, "ip", "link", "add", device, "type", "veth", *peer)
    # Open vSwitch passes frames on as they are, so the card fills in checksums.
    programs.check_output(SERVICE_FAILED, "ip", "netns", "exec", device, "ethtool", "-K", CARD, "tx", "off")
    _ip(
        device,
        [
            f"link set {CARD} addrgenmode none up",
            f"address add {metadata_pages.ADDRESS}/32 dev {CARD}",
            f"address add {metadata_pages.ADDRESS_IPV6}/64 dev {CARD} nodad",
            *(f"route add {everywhere} dev {CARD}" for everywhere in ("0.0.0.0/0", "::/0")),
        ],
    )
    taps.start(device, failure=SERVICE_FAILED)


def _ip(device: str, commands: Sequence[str]) -> None:
    programs.check_output(SERVICE_FAILED, "ip", "-n", device, "-batch", "-", given="\n".join(commands).encode())


def _listen_in(device: str) -> socket.socket:
    """Return a socket that listens in the device's namespace. Raises DriverError."""
    found: list[socket.socket] = []

    def listen() -> None:
        namespace = os.open(f"/run/netns/{device}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(namespace, NEW_NETWORK) == 0:
                address = ("", metadata_pages.TCP_PORT)
                found.append(socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True))
        finally:
            os.close(namespace)

    # A thread of its own, because it stays in the namespace; the socket does too.
    thread = threading.Thread(target=listen, name="guest-metadata-namespace")
    thread.start()
    thread.join()
    if not found:
        raise DriverError(f"{SERVICE_FAILED}: its namespace cannot be entered.")
    found[0].setblocking(False)
    return found[0]


async def _begin(served: _Network) -> None:
    task = asyncio.create_task(_accept(served))
    served.tasks.add(task)
    task.add_done_callback(served.tasks.discard)


async def _close(served: _Network) -> None:
    for task in served.tasks:
        task.cancel()
    await asyncio.gather(*served.tasks, return_exceptions=True)
    served.listening.close()


async def _accept(served: _Network) -> None:
    """Accept connections, and answer each by a task of its own."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, (address, *_) = await loop.sock_accept(served.listening)
        except OSError as error:  # the client has gone, or the process has too many files open
            log.warning("connection of a guest was not accepted: device=%s: %s", served.device, error.strerror)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            task = asyncio.create_task(_answer(served, connection, _plain(address)))
            served.tasks.add(task)
            task.add_done_callback(served.tasks.discard)
        await asyncio.sleep(PAUSE_SECONDS)


async def _answer(served: _Network, connection: socket.socket, address: str) -> None:
    """Answer one request; too many connections of one address, and those of unknown ones, are closed."""
    pages = served.pages.get(address)
    with connection:
        if pages is None or served.connections[address] >= MAX_CONNECTIONS:
            return
        served.connections[address] += 1
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    await _exchange(connection, Exchange(pages))
        except Exception:
            log.exception("request of a guest was not answered: device=%s", served.device)
        finally:
            served.connections[address] -= 1


async def _exchange(connection: socket.socket, exchange: Exchange) -> None:
    loop = asyncio.get_running_loop()
    while not exchange.is_over and (data := await loop.sock_recv(connection, READ_BYTES)):
        await loop.sock_sendall(connection, exchange.receive(data))
    connection.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(connection, READ_BYTES):  # else the kernel resets the connection, and answers are lost
        pass


def _plain(address: str) -> str:
    """Return the address of a client as its port has it: IPv4 is mapped, and link-local addresses have a zone."""
    found = IPv6Address(address.partition("%")[0])
    return str(found.ipv4_mapped or found)
