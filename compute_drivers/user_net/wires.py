"""The sockets by which QEMU hands over a guest's frames: one pair of paths per port, and one thread for all of them."""

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

from compute_drivers.user_net.segment import GuestSegment

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


@dataclass(eq=False)
class _Wire:
    paths: WirePaths
    segment: GuestSegment
    socket: socket.socket
    frames: int = 0
    is_heard: bool = True
    counted: Counter[str] = field(default_factory=Counter)
    gate: threading.Lock = field(default_factory=threading.Lock)


class Wires:
    """Datagrams between two paths: no end has to wait for the other, and either may be gone for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gate = threading.Lock()
        self._by_key: dict[tuple[str, str], _Wire] = {}
        self._by_number: dict[int, _Wire] = {}
        self._poll: select.epoll | None = None
        self._bell = -1
        self._thread: threading.Thread | None = None
        self._is_over = False

    def open(self, instance_uuid: str, port_uuid: str, paths: WirePaths, segment: GuestSegment) -> None:
        """Begin to answer, or go on with another segment. Raises OSError."""
        self.close(instance_uuid, port_uuid)
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            paths.ours.unlink(missing_ok=True)
            ours.bind(str(paths.ours))
            # The folder lets nobody in but us and QEMU, which may run as another user.
            os.chmod(paths.ours, 0o666)
        except BaseException:
            ours.close()
            raise
        wire = _Wire(paths, segment, ours)
        with self._gate:
            self._by_key[instance_uuid, port_uuid] = wire
            self._by_number[ours.fileno()] = wire
            self._run().register(ours.fileno(), select.EPOLLIN)

    def close(self, instance_uuid: str, port_uuid: str = "") -> None:
        """One port's, or all of a guest; the paths go too. Nothing where there is none."""
        with self._gate:
            keys = [key for key in self._by_key if key[0] == instance_uuid and port_uuid in ("", key[1])]
            gone = [self._by_key.pop(key) for key in keys]
            for wire in gone:
                self._let_go(wire)
                wire.paths.ours.unlink(missing_ok=True)

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
        number = wire.socket.fileno()
        del self._by_number[number]
        if self._poll is not None:
            with suppress(OSError):  # it was silenced
                self._poll.unregister(number)
        with wire.gate:
            wire.socket.close()

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
                if wire.socket.fileno() >= 0:
                    does(wire)
        except Exception:
            log.exception("frame of a guest could not be handled: wire=%s", wire.paths.ours.name)

    def _listen(self, wire: _Wire) -> None:
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = wire.socket.recv(LARGEST_FRAME)
            except BlockingIOError:
                return
            wire.counted.update(tx_packets=1, tx_octets=len(frame))
            self._send(wire, wire.segment.receive(frame, self._clock()))
            wire.frames += 1
        if wire.frames > FRAMES_PER_TURN and self._poll is not None:
            wire.is_heard = False
            with suppress(OSError):  # it was let go just now
                self._poll.unregister(wire.socket.fileno())

    def _turn(self, wire: _Wire) -> None:
        self._send(wire, wire.segment.turn(self._clock()))
        wire.frames = 0
        if not wire.is_heard and self._poll is not None:
            wire.is_heard = True
            self._poll.register(wire.socket.fileno(), select.EPOLLIN)

    @staticmethod
    def _send(wire: _Wire, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                wire.socket.sendto(frame, str(wire.paths.theirs))
            except OSError:  # QEMU is gone, or reads too slowly: a frame that is lost comes again
                wire.counted.update(rx_drop=1)
            else:
                wire.counted.update(rx_packets=1, rx_octets=len(frame))
