"""Answers Ethernet frames that arrive at taps of this process, by one thread for all of them."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from compute_drivers import taps

log = logging.getLogger(__name__)

TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x0002 | 0x1000
MAX_FRAME_BYTES = 2048
FRAMES_PER_POLL = 32
# A tap at which more frames arrive in one tick is read again at the next one.
MAX_FRAMES_PER_TICK = 2000
TICK_SECONDS = 1.0


class Segment(Protocol):
    """A network of which this process is one station."""

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Return the frames that answer a frame."""

    def tick(self, now: float) -> list[bytes]:
        """Return the frames that are due."""


class TapEnd:
    """This process's end of a tap. The kernel removes the tap with it, so a process that dies leaves none behind."""

    def __init__(self, device: str) -> None:
        """Raises OSError."""
        self.name = device
        self._tap = os.open(taps.TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self._tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), TAP_WITHOUT_HEADER))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor; -1 once it is closed."""
        return self._tap

    def receive(self) -> bytes:
        """Raises BlockingIOError when no frame is there, OSError when the tap is gone."""
        return os.read(self._tap, MAX_FRAME_BYTES)

    def send(self, frame: bytes) -> None:
        os.write(self._tap, frame)

    def close(self) -> None:
        tap, self._tap = self._tap, -1
        os.close(tap)


@dataclass(eq=False)
class _Station:
    end: TapEnd
    segment: Segment
    frames: int = 0
    is_read: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)


class FrameLoop:
    """All taps of a process, each with the segment that answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_device: dict[str, _Station] = {}
        self._by_number: dict[int, _Station] = {}
        self._poll: select.epoll | None = None
        self._wake_event = -1
        self._thread: threading.Thread | None = None
        self._is_over = False

    def open(self, device: str, segment: Segment) -> None:
        """Make a tap and answer its frames. Raises OSError."""
        self.close(device)
        station = _Station(TapEnd(device), segment)
        number = station.end.fileno()
        with self._lock:
            self._by_device[device] = self._by_number[number] = station
            self._ensure_running().register(number, select.EPOLLIN)

    def close(self, device: str) -> None:
        """Remove a tap, if it is open."""
        with self._lock:
            station = self._by_device.pop(device, None)
            if station is not None:
                self._close(station)

    def stop(self) -> None:
        """Remove all taps, and end the thread."""
        with self._lock:
            for station in self._by_device.values():
                self._close(station)
            self._by_device.clear()
            self._is_over = True  # last: the thread then closes the poll
            thread, self._thread = self._thread, None
            if thread is not None:
                os.eventfd_write(self._wake_event, 1)
        if thread is not None:
            thread.join(TICK_SECONDS * 5)

    def _close(self, station: _Station) -> None:
        number = station.end.fileno()
        self._by_number.pop(number, None)
        if self._poll is not None:
            with suppress(OSError):  # not registered any more
                self._poll.unregister(number)
        with station.lock:
            station.end.close()

    def _ensure_running(self) -> select.epoll:
        if self._thread is None or self._poll is None:
            self._is_over = False
            self._poll = poll = select.epoll()
            self._wake_event = wake_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            poll.register(wake_event, select.EPOLLIN)
            self._thread = threading.Thread(
                target=self._run_forever, args=(poll, wake_event), name="guest-metadata", daemon=True
            )
            self._thread.start()
        return self._poll

    def _run_forever(self, poll: select.epoll, wake_event: int) -> None:
        due_at = time.monotonic() + TICK_SECONDS
        while not self._is_over:
            for number, _ in poll.poll(max(0.0, due_at - time.monotonic())):
                with self._lock:
                    station = self._by_number.get(number)
                if station is not None:
                    self._guarded(station, is_due=False)
            if time.monotonic() >= due_at:
                due_at = time.monotonic() + TICK_SECONDS
                with self._lock:
                    stations = list(self._by_number.values())
                for station in stations:
                    self._guarded(station, is_due=True)
        poll.close()
        os.close(wake_event)

    def _guarded(self, station: _Station, *, is_due: bool) -> None:
        """Log errors: data of one guest must never end the service of the others."""
        try:
            with station.lock:
                if station.end.fileno() >= 0:
                    self._tick(station) if is_due else self._listen(station)
        except Exception:
            log.exception("frame of a guest was not handled: device=%s", station.end.name)

    def _listen(self, station: _Station) -> None:
        for _ in range(FRAMES_PER_POLL):
            try:
                frame = station.end.receive()
            except BlockingIOError:
                return
            except OSError:  # another process has it, or it is gone: poll would report it for ever
                log.warning("tap is not read any more: device=%s", station.end.name)
                self._stop_reading(station)
                return
            self._send(station, station.segment.receive(frame, time.monotonic()))
            station.frames += 1
        if station.frames > MAX_FRAMES_PER_TICK:
            station.is_read = False
            self._stop_reading(station)

    def _stop_reading(self, station: _Station) -> None:
        if self._poll is not None:
            with suppress(OSError):  # just closed
                self._poll.unregister(station.end.fileno())

    def _tick(self, station: _Station) -> None:
        self._send(station, station.segment.tick(time.monotonic()))
        station.frames = 0
        if not station.is_read and self._poll is not None:
            station.is_read = True
            self._poll.register(station.end.fileno(), select.EPOLLIN)

    @staticmethod
    def _send(station: _Station, frames: list[bytes]) -> None:
        for frame in frames:
            with suppress(OSError):  # the tap is gone or full: protocols repeat lost frames
                station.end.send(frame)
