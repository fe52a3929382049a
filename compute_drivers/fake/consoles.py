"""Consoles of simulated guests: a serial port that echoes, and a VNC screen that shows what is typed."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from conductor.core.consoles import ConsoleKind

POLL_SECONDS = 0.5  # how often a console checks that its guest is on
TIMEOUT_SECONDS = 30.0
VERSION = b"RFB 003.008\n"
NO_PASSWORD = b"\x01\x01"
DEPTH_32 = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
# Client messages of a fixed length: type → bytes after it.
FIXED_LENGTHS = {0: 19, 3: 9, 4: 7, 5: 5}
SET_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, KEY, PASTE = 0, 2, 3, 4, 6
BACKSPACE, RETURN = 0xFF08, 0xFF0D


@dataclass
class GuestScreens:
    """The open screens of one guest, which all show the same; hold `lock` to change them."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    screens: list[_Screen] = field(default_factory=list)


@dataclass(frozen=True)
class ConsoleGuest:
    """A guest, as its consoles need it."""

    hostname: str
    banner: bytes
    is_on: Callable[[], bool]
    screens: GuestScreens


def connect(guest: ConsoleGuest, kind: ConsoleKind) -> socket.socket:
    """Return one end of a console; a thread serves the other one until the guest is off or the caller closes it."""
    server, client = socket.socketpair()
    console = _Screen if kind is ConsoleKind.VNC else _SerialPort
    threading.Thread(target=console(guest, server).run, name=f"fake-{kind}", daemon=True).start()
    return client


class _Disconnected(Exception):
    """The guest is off, or the client has closed the connection."""


class _Console:
    def __init__(self, guest: ConsoleGuest, stream: socket.socket) -> None:
        self._guest = guest
        self._stream = stream

    def run(self) -> None:
        with self._stream, suppress(_Disconnected, OSError):
            self._stream.settimeout(TIMEOUT_SECONDS)
            self._serve()

    def _serve(self) -> None:
        raise NotImplementedError

    def _some(self, most: int) -> bytes:
        """Read between 1 and `most` bytes."""
        while not select.select([self._stream], [], [], POLL_SECONDS)[0]:
            if not self._guest.is_on():
                raise _Disconnected
        found = self._stream.recv(most)
        if not found:
            raise _Disconnected
        return found

    def _read(self, amount: int) -> bytes:
        found = b""
        while len(found) < amount:
            found += self._some(amount - len(found))
        return found


class _SerialPort(_Console):
    """Echoes what is typed, and repeats each completed line."""

    def _serve(self) -> None:
        prompt = f"{self._guest.hostname}# ".encode()
        self._stream.sendall(self._guest.banner + b"\r\n" + prompt)
        line = b""
        while True:
            for byte in self._some(1024):
                character = bytes([byte])
                if character in (b"\r", b"\n"):
                    reply = b"simulated guest: you typed " + line + b"\r\n" if line else b""
                    self._stream.sendall(b"\r\n" + reply + prompt)
                    line = b""
                elif character in (b"\x7f", b"\b"):
                    self._stream.sendall(b"\b \b" if line else b"")
                    line = line[:-1]
                elif byte >= 0x20:
                    line += character
                    self._stream.sendall(character)


def _ignore(body: bytes) -> None:
    """Ignore a message, such as pointer events."""


@dataclass(frozen=True)
class _PixelFormat:
    """The pixel format that the client requested."""

    bits: int = 32
    is_big: bool = False
    most: tuple[int, int, int] = (255, 255, 255)
    shifts: tuple[int, int, int] = (16, 8, 0)

    def pixel(self, color: tuple[int, int, int]) -> bytes:
        value = sum(
            (part * most // 255) << shift for part, most, shift in zip(color, self.most, self.shifts, strict=True)
        )
        return value.to_bytes(self.bits // 8, "big" if self.is_big else "little")


class _Screen(_Console):
    """The part of the RFB protocol, version 3.8, that every client understands: raw pixels and keys."""

    def __init__(self, guest: ConsoleGuest, stream: socket.socket) -> None:
        super().__init__(guest, stream)
        self._pixel_format = _PixelFormat()
        self._is_update_requested = False
        self._text = TextScreen([f"{guest.hostname}: simulated guest", "nothing runs behind this screen", ""])

    def run(self) -> None:
        others = self._guest.screens
        with others.lock:
            if others.screens:
                self._text = others.screens[0]._text.copy()
            others.screens.append(self)
        try:
            super().run()
        finally:
            with others.lock:
                others.screens.remove(self)

    def _serve(self) -> None:
        self._greet()
        handlers: dict[int, Callable[[bytes], None]] = {
            SET_FORMAT: self._set_format,
            UPDATE_REQUEST: self._update_requested,
            KEY: self._key,
        }
        while True:
            kind = self._read(1)[0]
            if kind in FIXED_LENGTHS:
                body = self._read(FIXED_LENGTHS[kind])
                with self._guest.screens.lock:
                    handlers.get(kind, _ignore)(body)
            elif kind == SET_ENCODINGS:
                self._read(4 * int.from_bytes(self._read(3)[1:], "big"))
            elif kind == PASTE:
                self._read(int.from_bytes(self._read(7)[3:], "big"))
            else:
                raise _Disconnected

    def _greet(self) -> None:
        self._stream.sendall(VERSION)
        self._read(len(VERSION))
        self._stream.sendall(NO_PASSWORD)
        self._read(1)
        self._stream.sendall(b"\0\0\0\0")  # authentication succeeded
        self._read(1)  # the shared flag: screens are always shared
        name = self._guest.hostname.encode()
        size = struct.pack(">HH", self._text.width, self._text.height)
        self._stream.sendall(size + DEPTH_32 + struct.pack(">I", len(name)) + name)

    def _set_format(self, body: bytes) -> None:
        bits, _, is_big, is_true, *rest = struct.unpack(">3xBBBBHHHBBBxxx", body)
        if bits not in (8, 16, 32) or not is_true:
            raise _Disconnected
        self._pixel_format = _PixelFormat(bits, bool(is_big), tuple(rest[:3]), tuple(rest[3:]))
        self._text.touch()

    def _update_requested(self, body: bytes) -> None:
        """Send all rows, or with the incremental flag those that changed since the last update."""
        if not body[0]:
            self._text.touch()
        self._send_update(is_requested=True)

    def _key(self, body: bytes) -> None:
        is_down, symbol = struct.unpack(">B2xI", body)
        for screen in self._guest.screens.screens if is_down else ():
            screen._type(symbol)

    def _type(self, symbol: int) -> None:
        if symbol == RETURN:
            self._text.new_line()
        elif symbol == BACKSPACE:
            self._text.backspace()
        elif 0x20 <= symbol < 0x7F:
            self._text.put(chr(symbol))
        with suppress(OSError):  # a client that is gone is noticed by its own thread
            self._send_update(is_requested=False)

    def _send_update(self, *, is_requested: bool) -> None:
        """Send changed rows if the client has requested an update; otherwise its next request gets them."""
        self._is_update_requested = self._is_update_requested or is_requested
        rows = self._text.changed_rows() if self._is_update_requested else None
        if rows is None:
            return
        self._is_update_requested = False
        first, last = rows
        ink, paper = (self._pixel_format.pixel(color) for color in (self._text.INK, self._text.PAPER))
        header = struct.pack(">HHHHi", 0, first, self._text.width, last - first, 0)
        pixels = self._text.pixels(first, last, ink=ink, paper=paper)
        self._stream.sendall(struct.pack(">BxH", 0, 1) + header + pixels)


# -- the text screen

# Characters of three by five dots: one octal digit per row, its bits the dots.
GLYPHS = {
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "F": "74644", "G": "34553", "H": "55755",
    "I": "72227", "J": "11152", "K": "55655", "L": "44447", "M": "57755", "N": "65555", "O": "25552", "P": "65644",
    "Q": "25563", "R": "65655", "S": "34216", "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255",
    "Y": "55222", "Z": "71247", "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002", ",": "00024", ":": "02020", ";": "02024",
    "-": "00700", "_": "00007", "/": "11244", "\\": "44211", "!": "22202", "?": "71202", "#": "57575", "%": "51245",
    "(": "12221", ")": "42224", "[": "64446", "]": "31113", "{": "32623", "}": "62326", "<": "12421", ">": "42124",
    "=": "07070", "+": "02720", "*": "05250", "'": "22000", '"': "55000", "`": "42000", "^": "25000", "|": "22222",
    "~": "03600", "@": "25743", "&": "25256", "$": "36763", " ": "00000",
}  # fmt: skip
CURSOR = "77777"
DOT = 3  # pixels
CELL_WIDTH, CELL_HEIGHT = 4 * DOT, 7 * DOT
COLUMNS, LINES = 60, 19


class TextScreen:
    """A text screen of `width` by `height` pixels that tracks which rows changed since the last update."""

    INK, PAPER = (186, 219, 204), (14, 26, 24)
    width, height = COLUMNS * CELL_WIDTH, LINES * CELL_HEIGHT

    def __init__(self, lines: list[str]) -> None:
        self._lines = [*lines, ""][-LINES:]
        self._changed = (0, LINES)

    def copy(self) -> TextScreen:
        """Return a copy for one more client, with all rows changed."""
        twin = TextScreen([])
        twin._lines = list(self._lines)
        return twin

    def put(self, character: str) -> None:
        """Write a character at the cursor; a full line continues in the next one."""
        if len(self._lines[-1]) >= COLUMNS - 1:
            self.new_line()
        self._lines[-1] += character
        self._touch_last()

    def backspace(self) -> None:
        self._lines[-1] = self._lines[-1][:-1]
        self._touch_last()

    def new_line(self) -> None:
        self._lines = [*self._lines, ""][-LINES:]
        self.touch()

    def touch(self) -> None:
        """Mark all rows as changed."""
        self._changed = (0, LINES)

    def changed_rows(self) -> tuple[int, int] | None:
        """Return the first changed pixel row and the one after the last, None for no change; then reset the changes."""
        (first, last), self._changed = self._changed, (0, 0)
        return (first * CELL_HEIGHT, last * CELL_HEIGHT) if last > first else None

    def pixels(self, first: int, last: int, *, ink: bytes, paper: bytes) -> bytes:
        """Return the pixels of rows `first` to `last`, which are multiples of a line's height."""
        lines = range(first // CELL_HEIGHT, last // CELL_HEIGHT)
        return b"".join(self._line(number, ink, paper) for number in lines)

    def _line(self, number: int, ink: bytes, paper: bytes) -> bytes:
        text = self._lines[number] if number < len(self._lines) else ""
        glyphs = [GLYPHS.get(character.upper(), GLYPHS["?"]) for character in text]
        if number == len(self._lines) - 1:
            glyphs.append(CURSOR)
        drawn = []
        for row in range(5):
            dots = "".join(f"{int(glyph[row]):03b}0" for glyph in glyphs).ljust(COLUMNS * 4, "0")
            drawn.append(b"".join((ink if dot == "1" else paper) * DOT for dot in dots) * DOT)
        blank = paper * (self.width * DOT)
        return blank + b"".join(drawn) + blank

    def _touch_last(self) -> None:
        first, last = self._changed
        here = len(self._lines) - 1
        self._changed = (min(first, here), max(last, here + 1)) if last > first else (here, here + 1)
