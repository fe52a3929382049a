"""What reaches a guest of what somebody says who only watches its console: no key, no pointer, no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Forbidden

VERSIONS = (b"RFB 003.007\n", b"RFB 003.008\n")
NO_PASSWORD = b"\x01"
SHARED = b"\x01"  # whatever was said: a viewer that is alone ends all others
LONGEST_MESSAGE = 1 << 20

# What a viewer tells a screen, by the first byte: how long it is, before the length that it names itself.
SET_FORMAT, SET_ENCODINGS, WANT_PICTURE, KEY, POINTER, PASTE = 0, 2, 3, 4, 5, 6
GO_ON_DRAWING, PACE, POWER, RESIZE, LONG_KEY = 150, 248, 250, 251, 255
HEADS: Mapping[int, int] = {
    SET_FORMAT: 20, SET_ENCODINGS: 4, WANT_PICTURE: 10, KEY: 8, POINTER: 6, PASTE: 8,
    GO_ON_DRAWING: 10, PACE: 9, POWER: 4, RESIZE: 8, LONG_KEY: 12,
}  # fmt: skip
# Those without which a viewer gets no pictures. The last two only where the screen offers them: it then waits for them.
NEEDED = frozenset({SET_FORMAT, SET_ENCODINGS, WANT_PICTURE, GO_ON_DRAWING, PACE})


class Watcher(Protocol):
    """One watcher's words on their way to the console."""

    def passes(self, said: bytes) -> bytes:
        """What of it goes on. Raises Forbidden for what no viewer says."""


class LineWatcher:
    """A serial line needs nothing from who watches it."""

    def passes(self, said: bytes) -> bytes:
        return b""


class ScreenWatcher:
    """A screen sends what its viewer asks for, by the RFB protocol: so the asking goes on, message by message.

    Only whole messages go on, so the screen takes their borders for the same as they are here.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._greeting = [self._version, self._sign_in, self._share]

    def passes(self, said: bytes) -> bytes:
        self._rest += said
        passed = []
        while (length := self._length()) is not None and length <= len(self._rest):
            message, self._rest = self._rest[:length], self._rest[length:]
            passed.append(self._judged(message))
        return b"".join(passed)

    def _length(self) -> int | None:
        """Of what comes next; None as long as that cannot be known."""
        if self._greeting:
            return len(VERSIONS[0]) if self._greeting[0] == self._version else 1
        if not self._rest:
            return None
        kind = self._rest[0]
        if kind not in HEADS:
            raise Forbidden("This viewer says what nobody may say who only watches.")
        length = HEADS[kind]
        if len(self._rest) < length:
            return None
        length += _named_length(kind, self._rest[:length])
        if length > LONGEST_MESSAGE:
            raise Forbidden("This viewer says more than anybody may say who only watches.")
        return length

    def _judged(self, message: bytes) -> bytes:
        if self._greeting:
            return self._greeting.pop(0)(message)
        return message if message[0] in NEEDED else b""

    def _version(self, said: bytes) -> bytes:
        if said not in VERSIONS:
            raise Forbidden("This viewer is too old to watch with.")
        return said

    def _sign_in(self, said: bytes) -> bytes:
        if said != NO_PASSWORD:
            raise Forbidden("This screen asks for more than watching needs.")
        return said

    def _share(self, said: bytes) -> bytes:
        return SHARED


def _named_length(kind: int, head: bytes) -> int:
    """How many more bytes a message says that it has."""
    if kind == SET_ENCODINGS:
        return 4 * int.from_bytes(head[2:4], "big")
    if kind == PASTE:  # a negative length is that of a text in more than one form
        return abs(int.from_bytes(head[4:8], "big", signed=True))
    if kind == PACE:
        return head[8]
    if kind == RESIZE:
        return 16 * head[6]
    return 0


def watcher_of(kind: ConsoleKind) -> Watcher:
    """For one watcher of a console of this kind, from its first word on."""
    return ScreenWatcher() if kind is ConsoleKind.VNC else LineWatcher()
