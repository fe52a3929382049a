"""Consoles of simulated guests: a serial line that answers, and a screen that shows what is typed."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from compute_drivers.fake.pictures import Picture
from conductor.core.consoles import ConsoleKind

LOOK_SECONDS = 0.5  # how soon a console notices that its guest is off
WAIT_SECONDS = 30.0
VERSION = b"RFB 003.008\n"
NO_PASSWORD = b"\x01\x01"
DEPTH_32 = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
# What a screen is told: type → bytes after it, where that is fixed.
FIXED = {0: 19, 3: 9, 4: 7, 5: 5}
SET_FORMAT, SET_ENCODINGS, WANT_PICTURE, KEY, PASTE = 0, 2, 3, 4, 6
BACKSPACE, RETURN = 0xFF08, 0xFF0D


@dataclass
class Viewers:
    """Those who are before the screen of one guest, who all see the same; `gate` is held while it changes."""

    gate: threading.RLock = field(default_factory=threading.RLock)
    screens: list[_Screen] = field(default_factory=list)


@dataclass(frozen=True)
class Guest:
    """What its consoles must know of a guest."""

    hostname: str
    banner: bytes
    is_on: Callable[[], bool]
    viewers: Viewers


def connect(guest: Guest, kind: ConsoleKind) -> socket.socket:
    """One end of a console; a thread has the other one until the guest or the caller ends it."""
    ours, theirs = socket.socketpair()
    serve = _Screen if kind is ConsoleKind.VNC else _Line
    threading.Thread(target=serve(guest, ours).run, name=f"fake-{kind}", daemon=True).start()
    return theirs


class _Gone(Exception):
    """The guest is off, or nobody is there any more."""


class _Console:
    def __init__(self, guest: Guest, stream: socket.socket) -> None:
        self._guest = guest
        self._stream = stream

    def run(self) -> None:
        with self._stream, suppress(_Gone, OSError):
            self._stream.settimeout(WAIT_SECONDS)
            self._talk()

    def _talk(self) -> None:
        raise NotImplementedError

    def _some(self, most: int) -> bytes:
        """What comes next, at least one byte."""
        while not select.select([self._stream], [], [], LOOK_SECONDS)[0]:
            if not self._guest.is_on():
                raise _Gone
        found = self._stream.recv(most)
        if not found:
            raise _Gone
        return found

    def _read(self, amount: int) -> bytes:
        found = b""
        while len(found) < amount:
            found += self._some(amount - len(found))
        return found


class _Line(_Console):
    """Echoes what is typed, and says it again at the end of each line."""

    def _talk(self) -> None:
        prompt = f"{self._guest.hostname}# ".encode()
        self._stream.sendall(self._guest.banner + b"\r\n" + prompt)
        line = b""
        while True:
            for byte in self._some(1024):
                character = bytes([byte])
                if character in (b"\r", b"\n"):
                    said = b"simulated guest: you typed " + line + b"\r\n" if line else b""
                    self._stream.sendall(b"\r\n" + said + prompt)
                    line = b""
                elif character in (b"\x7f", b"\b"):
                    self._stream.sendall(b"\b \b" if line else b"")
                    line = line[:-1]
                elif byte >= 0x20:
                    line += character
                    self._stream.sendall(character)


def _pass_by(body: bytes) -> None:
    """Pointers are nothing to a simulated guest."""


@dataclass(frozen=True)
class _Colours:
    """How the viewer wants its pixels."""

    bits: int = 32
    is_big: bool = False
    most: tuple[int, int, int] = (255, 255, 255)
    shifts: tuple[int, int, int] = (16, 8, 0)

    def pixel(self, colour: tuple[int, int, int]) -> bytes:
        value = sum(
            (part * most // 255) << shift for part, most, shift in zip(colour, self.most, self.shifts, strict=True)
        )
        return value.to_bytes(self.bits // 8, "big" if self.is_big else "little")


class _Screen(_Console):
    """The part of the RFB protocol, version 3.8, that every viewer understands: raw pixels and keys."""

    def __init__(self, guest: Guest, stream: socket.socket) -> None:
        super().__init__(guest, stream)
        self._colours = _Colours()
        self._is_wanted = False
        self._picture = Picture([f"{guest.hostname}: simulated guest", "nothing runs behind this screen", ""])

    def run(self) -> None:
        viewers = self._guest.viewers
        with viewers.gate:
            if viewers.screens:
                self._picture = viewers.screens[0]._picture.copy()
            viewers.screens.append(self)
        try:
            super().run()
        finally:
            with viewers.gate:
                viewers.screens.remove(self)

    def _talk(self) -> None:
        self._greet()
        handlers: dict[int, Callable[[bytes], None]] = {
            SET_FORMAT: self._set_format,
            WANT_PICTURE: self._want_picture,
            KEY: self._key,
        }
        while True:
            kind = self._read(1)[0]
            if kind in FIXED:
                body = self._read(FIXED[kind])
                with self._guest.viewers.gate:
                    handlers.get(kind, _pass_by)(body)
            elif kind == SET_ENCODINGS:
                self._read(4 * int.from_bytes(self._read(3)[1:], "big"))
            elif kind == PASTE:
                self._read(int.from_bytes(self._read(7)[3:], "big"))
            else:
                raise _Gone

    def _greet(self) -> None:
        self._stream.sendall(VERSION)
        self._read(len(VERSION))
        self._stream.sendall(NO_PASSWORD)
        self._read(1)
        self._stream.sendall(b"\0\0\0\0")  # it may come in
        self._read(1)  # it would share the screen, or not: there is room for all
        name = self._guest.hostname.encode()
        size = struct.pack(">HH", self._picture.width, self._picture.height)
        self._stream.sendall(size + DEPTH_32 + struct.pack(">I", len(name)) + name)

    def _set_format(self, body: bytes) -> None:
        bits, _, is_big, is_true, *rest = struct.unpack(">3xBBBBHHHBBBxxx", body)
        if bits not in (8, 16, 32) or not is_true:
            raise _Gone
        self._colours = _Colours(bits, bool(is_big), tuple(rest[:3]), tuple(rest[3:]))
        self._picture.touch()

    def _want_picture(self, body: bytes) -> None:
        """All of it, or the rows that have changed since the last one."""
        if not body[0]:
            self._picture.touch()
        self._send_news(is_wanted=True)

    def _key(self, body: bytes) -> None:
        is_down, symbol = struct.unpack(">B2xI", body)
        for screen in self._guest.viewers.screens if is_down else ():
            screen._picture_key(symbol)

    def _picture_key(self, symbol: int) -> None:
        if symbol == RETURN:
            self._picture.new_line()
        elif symbol == BACKSPACE:
            self._picture.rub_out()
        elif 0x20 <= symbol < 0x7F:
            self._picture.put(chr(symbol))
        with suppress(OSError):  # whose viewer has gone finds out in its own time
            self._send_news(is_wanted=False)

    def _send_news(self, *, is_wanted: bool) -> None:
        """A viewer that waits is told at once; one that does not finds it when it asks."""
        self._is_wanted = self._is_wanted or is_wanted
        rows = self._picture.changed_rows() if self._is_wanted else None
        if rows is None:
            return
        self._is_wanted = False
        first, last = rows
        ink, paper = (self._colours.pixel(colour) for colour in (self._picture.INK, self._picture.PAPER))
        where = struct.pack(">HHHHi", 0, first, self._picture.width, last - first, 0)
        pixels = self._picture.pixels(first, last, ink=ink, paper=paper)
        self._stream.sendall(struct.pack(">BxH", 0, 1) + where + pixels)
