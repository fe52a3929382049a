"""What frames of guests come by: a pair of paths per port, or a device, and one thread for all of them."""

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

log = logging.getLogger(__name__)

LARGEST_FRAME = 2048
FRAMES_AT_ONCE = 32
# A guest that says more than this in one turn of a second is heard again in the next.
FRAMES_PER_TURN = 2000
TURN_SECONDS = 1.0
NOTHING = dict.fromkeys(("rx_packets", "rx_octets", "rx_drop", "tx_packets", "tx_octets"), 0)


@dataclass(frozen=True)
class WirePaths:
    """Where QEMU reads, and where we do."""

    theirs: Path
    ours: Path


class Segment(Protocol):
    """Who is at our end: frame in, frames out, and what is due by the clock."""

    def receive(self, data: bytes, now: float) -> list[bytes]: ...

    def turn(self, now: float) -> list[bytes]: ...


class End(Protocol):
    """Our end of a wire. `receive` raises BlockingIOError when there is nothing, OSError when there never will be."""

    name: str

    def fileno(self) -> int: ...

    def receive(self) -> bytes: ...

    def send(self, frame: bytes) -> None: ...

    def close(self) -> None:
        """The next process finds the wire where it was."""

    def remove(self) -> None:
        """Nobody will look for it."""


class SocketEnd:
    """Datagrams between two paths: no end has to wait for the other, and either may be gone for a while."""

    def __init__(self, paths: WirePaths) -> None:
        """Raises OSError."""
        self.name = paths.ours.name
        self._paths = paths
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            paths.ours.unlink(missing_ok=True)
            self._socket.bind(str(paths.ours))
            # The folder lets nobody in but us and QEMU, which may run as another user.
            os.chmod(paths.ours, 0o666)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> bytes:
        return self._socket.recv(LARGEST_FRAME)

    def send(self, frame: bytes) -> None:
        self._socket.sendto(frame, str(self._paths.theirs))

    def close(self) -> None:
        self._socket.close()

    def remove(self) -> None:
        self._paths.ours.unlink(missing_ok=True)


@dataclass(eq=False)
class _Wire:
    end: End
    segment: Segment
    frames: int = 0
    is_heard: bool = True
    counted: Counter[str] = field(default_factory=Counter)
    gate: threading.Lock = field(default_factory=threading.Lock)


class Wires:
    """Each has its key: a guest's id, and a port's of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gate = threading.Lock()
        self._by_key: dict[tuple[str, str], _Wire] = {}
        self._by_number: dict[int, _Wire] = {}
        self._poll: select.epoll | None = None
        self._bell = -1
        self._thread: threading.Thread | None = None
        self._is_over = False

    def open(self, instance_uuid: str, port_uuid: str, paths: WirePaths, segment: Segment) -> None:
        """Begin to answer, or go on with another segment. Raises OSError."""
        self.join(instance_uuid, port_uuid, lambda: SocketEnd(paths), segment)

    def join(self, instance_uuid: str, port_uuid: str, make_end: Callable[[], End], segment: Segment) -> None:
        """The same with an end that is made when the one before is gone. Raises what `make_end` raises."""
        self.close(instance_uuid, port_uuid)
        end = make_end()
        wire = _Wire(end, segment)
        with self._gate:
            self._by_key[instance_uuid, port_uuid] = wire
            self._by_number[end.fileno()] = wire
            self._run().register(end.fileno(), select.EPOLLIN)

    def close(self, instance_uuid: str, port_uuid: str = "") -> None:
        """One port's, or all of a guest; the paths go too. Nothing where there is none."""
        with self._gate:
            keys = [key for key in self._by_key if key[0] == instance_uuid and port_uuid in ("", key[1])]
            gone = [self._by_key.pop(key) for key in keys]
            for wire in gone:
                self._let_go(wire)
                wire.end.remove()

    def counted(self, instance_uuid: str) -> dict[str, dict[str, int]]:
        """By port, what came and went since it was opened, as the guest sees it."""
        with self._gate:
            wires = {port: wire for (uuid, port), wire in self._by_key.items() if uuid == instance_uuid}
        found = {}
        for port, wire in wires.items():
            with wire.gate:  # an answer that is on its way is counted
                found[port] = {**NOTHING, **wire.counted}
        return found

    def stop(self) -> None:
        """Guests run on, and find the next process at the same paths."""
        with self._gate:
            for wire in self._by_key.values():
                self._let_go(wire)
            self._by_key.clear()
            self._is_over = True  # not before: with it the thread lets go of the poll
            thread, self._thread = self._thread, None
            if thread is not None:
                os.eventfd_write(self._bell, 1)
        if thread is not None:
            thread.join(TURN_SECONDS * 5)

    def _let_go(self, wire: _Wire) -> None:
        number = wire.end.fileno()
        self._by_number.pop(number, None)
        if self._poll is not None:
            with suppress(OSError):  # it was silenced
                self._poll.unregister(number)
        with wire.gate:
            wire.end.close()

    def _run(self) -> select.epoll:
        if self._thread is None or self._poll is None:
            self._is_over = False
            self._poll = poll = select.epoll()
            self._bell = bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            poll.register(bell, select.EPOLLIN)
            self._thread = threading.Thread(
                target=self._turn_forever, args=(poll, bell), name="guest-wires", daemon=True
            )
            self._thread.start()
        return self._poll

    def _turn_forever(self, poll: select.epoll, bell: int) -> None:
        due_at = self._clock() + TURN_SECONDS
        while not self._is_over:
            for number, _ in poll.poll(max(0.0, due_at - self._clock())):
                with self._gate:
                    wire = self._by_number.get(number)
                if wire is not None:
                    self._guarded(wire, self._listen)
            if self._clock() >= due_at:
                due_at = self._clock() + TURN_SECONDS
                with self._gate:
                    wires = list(self._by_number.values())
                for wire in wires:
                    self._guarded(wire, self._turn)
        poll.close()
        os.close(bell)

    def _guarded(self, wire: _Wire, does: Callable[[_Wire], None]) -> None:
        """What one guest sends never ends the service of the others."""
        try:
            with wire.gate:
                if wire.end.fileno() >= 0:
                    does(wire)
        except Exception:
            log.exception("frame of a guest could not be handled: wire=%s", wire.end.name)

    def _listen(self, wire: _Wire) -> None:
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = wire.end.receive()
            except BlockingIOError:
                return
            except OSError:  # somebody else has it now, or it is gone: it would be told of for ever
                log.warning("a wire is not heard any more: wire=%s", wire.end.name)
                self._silence(wire)
                return
            wire.counted.update(tx_packets=1, tx_octets=len(frame))
            self._send(wire, wire.segment.receive(frame, self._clock()))
            wire.frames += 1
        if wire.frames > FRAMES_PER_TURN:
            wire.is_heard = False
            self._silence(wire)

    def _silence(self, wire: _Wire) -> None:
        if self._poll is not None:
            with suppress(OSError):  # it was let go just now
                self._poll.unregister(wire.end.fileno())

    def _turn(self, wire: _Wire) -> None:
        self._send(wire, wire.segment.turn(self._clock()))
        wire.frames = 0
        if not wire.is_heard and self._poll is not None:
            wire.is_heard = True
            self._poll.register(wire.end.fileno(), select.EPOLLIN)

    @staticmethod
    def _send(wire: _Wire, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                wire.end.send(frame)
            except OSError:  # QEMU is gone, or reads too slowly: a frame that is lost comes again
                wire.counted.update(rx_drop=1)
            else:
                wire.counted.update(rx_packets=1, rx_octets=len(frame))
