"""Transports of Ethernet frames between guests and this process: sockets or taps, served by one thread."""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from compute_drivers.user_net import guest_socket

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 2048
NOT_HELD, UNCHANGED = -1, -1
FRAMES_PER_POLL = 32
# A guest that sends more in one tick is read again at the next one.
MAX_FRAMES_PER_TICK = 2000
TICK_SECONDS = 1.0
NO_TRAFFIC = dict.fromkeys(("rx_packets", "rx_octets", "rx_drop", "tx_packets", "tx_octets"), 0)


@dataclass(frozen=True)
class WirePaths:
    """Paths of QEMU's socket and of the agent's."""

    theirs: Path
    ours: Path


class Segment(Protocol):
    """The network at the agent's end of a wire."""

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Return the frames that answer a frame."""

    def tick(self, now: float) -> list[bytes]:
        """Return the frames that are due."""


class WireEnd(Protocol):
    """The agent's end of a wire. `receive` raises BlockingIOError when no frame is there, OSError at the end."""

    name: str

    def fileno(self) -> int: ...

    def receive(self) -> bytes: ...

    def send(self, frame: bytes) -> None: ...

    def close(self) -> None:
        """Close the end; the next process can open the wire again."""

    def remove(self) -> None:
        """Remove the agent's path of a wire that is not used any more."""


class SocketEnd:
    """Datagram sockets at two paths: neither end waits for the other, and either may be absent for a while."""

    def __init__(self, paths: WirePaths) -> None:
        """Raises OSError."""
        self.name = paths.ours.name
        self._paths = paths
        self._theirs = NOT_HELD
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            paths.ours.unlink(missing_ok=True)
            self._socket.bind(str(paths.ours))
            owner = paths.theirs.parent.stat().st_uid
            if owner == os.geteuid():
                # Only this user and QEMU, which may run under another one, can enter the folder.
                os.chmod(paths.ours, 0o666)
            else:
                # Guests with own accounts traverse the folder; each may send to its own wires only.
                os.chmod(paths.ours, 0o600)
                os.chown(paths.ours, owner, UNCHANGED)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> bytes:
        return self._socket.recv(MAX_FRAME_BYTES)

    def send(self, frame: bytes) -> None:
        if self._theirs == NOT_HELD:
            self._theirs = guest_socket.hold(self._paths.theirs)
        try:
            self._socket.sendto(frame, guest_socket.address_of(self._theirs))
        except ConnectionRefusedError:  # QEMU has ended, and creates a new socket at its next start
            self._close()
            self._theirs = guest_socket.hold(self._paths.theirs)
            self._socket.sendto(frame, guest_socket.address_of(self._theirs))

    def close(self) -> None:
        self._socket.close()
        self._close()

    def _close(self) -> None:
        if self._theirs != NOT_HELD:
            os.close(self._theirs)
            self._theirs = NOT_HELD

    def remove(self) -> None:
        self._paths.ours.unlink(missing_ok=True)


@dataclass(eq=False)
class _Wire:
    end: WireEnd
    segment: Segment
    frames: int = 0
    is_read: bool = True
    counted: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Wires:
    """All wires of a process, by guest and port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: dict[tuple[str, str], _Wire] = {}
        self._by_number: dict[int, _Wire] = {}
        self._poll: select.epoll | None = None
        self._wake_event = -1
        self._thread: threading.Thread | None = None
        self._is_over = False

    def open(self, instance_uuid: str, port_uuid: str, paths: WirePaths, segment: Segment) -> None:
        """Connect a port's sockets to a segment, replacing an earlier one. Raises OSError."""
        self.join(instance_uuid, port_uuid, lambda: SocketEnd(paths), segment)

    def join(self, instance_uuid: str, port_uuid: str, make_end: Callable[[], WireEnd], segment: Segment) -> None:
        """Open a wire with an end that is created after the former one is closed. Raises what `make_end` raises."""
        self.close(instance_uuid, port_uuid)
        end = make_end()
        wire = _Wire(end, segment)
        with self._lock:
            self._by_key[instance_uuid, port_uuid] = wire
            self._by_number[end.fileno()] = wire
            self._ensure_running().register(end.fileno(), select.EPOLLIN)

    def close(self, instance_uuid: str, port_uuid: str = "") -> None:
        """Close the wire of one port, or all of a guest, and remove their paths."""
        with self._lock:
            keys = [key for key in self._by_key if key[0] == instance_uuid and port_uuid in ("", key[1])]
            gone = [self._by_key.pop(key) for key in keys]
            for wire in gone:
                self._close(wire)
                wire.end.remove()

    def counters(self, instance_uuid: str) -> dict[str, dict[str, int]]:
        """Return the traffic of each port since it was opened, by the guest's view."""
        with self._lock:
            wires = {port: wire for (uuid, port), wire in self._by_key.items() if uuid == instance_uuid}
        found = {}
        for port, wire in wires.items():
            with wire.lock:  # waits for answers in progress
                found[port] = {**NO_TRAFFIC, **wire.counted}
        return found

    def stop(self) -> None:
        """Close all wires; guests keep running, and the next process uses the same paths."""
        with self._lock:
            for wire in self._by_key.values():
                self._close(wire)
            self._by_key.clear()
            self._is_over = True  # last: the thread then closes the poll
            thread, self._thread = self._thread, None
            if thread is not None:
                os.eventfd_write(self._wake_event, 1)
        if thread is not None:
            thread.join(TICK_SECONDS * 5)

    def _close(self, wire: _Wire) -> None:
        number = wire.end.fileno()
        self._by_number.pop(number, None)
        if self._poll is not None:
            with suppress(OSError):  # not registered any more
                self._poll.unregister(number)
        with wire.lock:
            wire.end.close()

    def _ensure_running(self) -> select.epoll:
        if self._thread is None or self._poll is None:
            self._is_over = False
            self._poll = poll = select.epoll()
            self._wake_event = wake_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            poll.register(wake_event, select.EPOLLIN)
            self._thread = threading.Thread(
                target=self._run_forever, args=(poll, wake_event), name="guest-wires", daemon=True
            )
            self._thread.start()
        return self._poll

    def _run_forever(self, poll: select.epoll, wake_event: int) -> None:
        due_at = self._clock() + TICK_SECONDS
        while not self._is_over:
            for number, _ in poll.poll(max(0.0, due_at - self._clock())):
                with self._lock:
                    wire = self._by_number.get(number)
                if wire is not None:
                    self._guarded(wire, self._listen)
            if self._clock() >= due_at:
                due_at = self._clock() + TICK_SECONDS
                with self._lock:
                    wires = list(self._by_number.values())
                for wire in wires:
                    self._guarded(wire, self._tick)
        poll.close()
        os.close(wake_event)

    def _guarded(self, wire: _Wire, function: Callable[[_Wire], None]) -> None:
        """Log errors: data of one guest must never end the service of the others."""
        try:
            with wire.lock:
                if wire.end.fileno() >= 0:
                    function(wire)
        except Exception:
            log.exception("frame of a guest was not handled: wire=%s", wire.end.name)

    def _listen(self, wire: _Wire) -> None:
        for _ in range(FRAMES_PER_POLL):
            try:
                frame = wire.end.receive()
            except BlockingIOError:
                return
            except OSError:  # another process has it, or it is gone: poll would report it for ever
                log.warning("wire is not read any more: wire=%s", wire.end.name)
                self._stop_reading(wire)
                return
            wire.counted.update(tx_packets=1, tx_octets=len(frame))
            self._send(wire, wire.segment.receive(frame, self._clock()))
            wire.frames += 1
        if wire.frames > MAX_FRAMES_PER_TICK:
            wire.is_read = False
            self._stop_reading(wire)

    def _stop_reading(self, wire: _Wire) -> None:
        if self._poll is not None:
            with suppress(OSError):  # just closed
                self._poll.unregister(wire.end.fileno())

    def _tick(self, wire: _Wire) -> None:
        self._send(wire, wire.segment.tick(self._clock()))
        wire.frames = 0
        if not wire.is_read and self._poll is not None:
            wire.is_read = True
            self._poll.register(wire.end.fileno(), select.EPOLLIN)

    @staticmethod
    def _send(wire: _Wire, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                wire.end.send(frame)
            except OSError:  # QEMU is gone or reads too slowly: protocols repeat lost frames
                wire.counted.update(rx_drop=1)
            else:
                wire.counted.update(rx_packets=1, rx_octets=len(frame))
