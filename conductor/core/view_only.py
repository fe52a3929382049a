"""Filters the input of a view-only console user: no keys, no pointer, no clipboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Forbidden

VERSIONS = (b"RFB 003.007\n", b"RFB 003.008\n")
NO_PASSWORD = b"\x01"
SHARED = b"\x01"  # always sent: an exclusive client would disconnect all others
MAX_MESSAGE_BYTES = 1 << 20

# Client messages of the RFB protocol by type, and the length of their fixed part in bytes.
SET_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, KEY, POINTER, PASTE = 0, 2, 3, 4, 5, 6
CONTINUOUS_UPDATES, FENCE, POWER, RESIZE, QEMU_KEY = 150, 248, 250, 251, 255
FIXED_LENGTHS: Mapping[int, int] = {
    SET_FORMAT: 20, SET_ENCODINGS: 4, UPDATE_REQUEST: 10, KEY: 8, POINTER: 6, PASTE: 8,
    CONTINUOUS_UPDATES: 10, FENCE: 9, POWER: 4, RESIZE: 8, QEMU_KEY: 12,
}  # fmt: skip
# Messages without which a client gets no screen updates. A server that supports the last two waits for them.
ALLOWED = frozenset({SET_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, CONTINUOUS_UPDATES, FENCE})


class ViewOnlyFilter(Protocol):
    """Filters the client's data of one view-only user."""

    def filter(self, data: bytes) -> bytes:
        """Return the part of `data` that goes on to the console. Raises Forbidden for invalid messages."""


class SerialFilter:
    """Drops everything: a serial port sends its output without requests."""

    def filter(self, data: bytes) -> bytes:
        return b""


class ScreenFilter:
    """Passes RFB messages that a client needs to see the screen, and drops all others.

    It passes only whole messages, so that filter and server agree on message boundaries.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._handshake = [self._version, self._security, self._client_init]

    def filter(self, data: bytes) -> bytes:
        self._buffer += data
        passed = []
        while (length := self._next_length()) is not None and length <= len(self._buffer):
            message, self._buffer = self._buffer[:length], self._buffer[length:]
            passed.append(self._filter_message(message))
        return b"".join(passed)

    def _next_length(self) -> int | None:
        """Return the length of the next message; None while it is unknown."""
        if self._handshake:
            return len(VERSIONS[0]) if self._handshake[0] == self._version else 1
        if not self._buffer:
            return None
        kind = self._buffer[0]
        if kind not in FIXED_LENGTHS:
            raise Forbidden("This viewer sends what a viewer that only watches may not send.")
        length = FIXED_LENGTHS[kind]
        if len(self._buffer) < length:
            return None
        length += _variable_length(kind, self._buffer[:length])
        if length > MAX_MESSAGE_BYTES:
            raise Forbidden("This viewer sends more than a viewer that only watches may send.")
        return length

    def _filter_message(self, message: bytes) -> bytes:
        if self._handshake:
            return self._handshake.pop(0)(message)
        return message if message[0] in ALLOWED else b""

    def _version(self, data: bytes) -> bytes:
        if data not in VERSIONS:
            raise Forbidden("This viewer is too old to watch with.")
        return data

    def _security(self, data: bytes) -> bytes:
        if data != NO_PASSWORD:
            raise Forbidden("This screen asks for more than watching needs.")
        return data

    def _client_init(self, data: bytes) -> bytes:
        return SHARED


def _variable_length(kind: int, fixed: bytes) -> int:
    """Return the length of a message's variable part, from its fixed part."""
    if kind == SET_ENCODINGS:
        return 4 * int.from_bytes(fixed[2:4], "big")
    if kind == PASTE:  # a negative length is that of the extended clipboard
        return abs(int.from_bytes(fixed[4:8], "big", signed=True))
    if kind == FENCE:
        return fixed[8]
    if kind == RESIZE:
        return 16 * fixed[6]
    return 0


def view_only_filter(kind: ConsoleKind) -> ViewOnlyFilter:
    """Return a new filter for one view-only user of a console of this kind."""
    return ScreenFilter() if kind is ConsoleKind.VNC else SerialFilter()
