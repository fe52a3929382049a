"""A small TCP server for responses of a few kilobytes to a guest on the same machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from compute_drivers.metadata_service.http import Exchange
from compute_drivers.metadata_service.packets import ACK, FIN, RST, SYN, Segment

MAX_SEGMENT_BYTES = 1460
DEFAULT_SEGMENT_BYTES = 536
# The kernel queues ten frames between two processes; further ones are lost and sent again a second later.
MAX_IN_FLIGHT = 6
WINDOW = 4096
MAX_CONNECTIONS = 16
RETRANSMIT_SECONDS = 1.0
MAX_ATTEMPTS = 6
IDLE_SECONDS = 30.0
SEQUENCE_MODULUS = 1 << 32


@dataclass
class _Connection:
    """`sent` and `confirmed` count bytes of `answer`; sequence numbers begin with `first`."""

    exchange: Exchange
    port: int
    first: int
    expected: int
    largest: int
    window: int
    heard_at: float
    sent_at: float
    answer: bytes = b""
    sent: int = 0
    confirmed: int = 0
    tries: int = 0
    is_joined: bool = False
    is_complete: bool = False  # the answer is complete; its FIN counts as one more byte
    their_end: bool = False

    @property
    def total(self) -> int:
        return len(self.answer) + self.is_complete


class TcpServer:
    """Connections of one guest to one port. The caller passes the time."""

    def __init__(self, port: int, make_exchange: Callable[[], Exchange]) -> None:
        self._port = port
        self._make_exchange = make_exchange
        self._open: dict[int, _Connection] = {}

    def receive(self, came: Segment, now: float) -> list[Segment]:
        found = self._open.get(came.source_port)
        if came.flags & RST:
            self._open.pop(came.source_port, None)
            return []
        if came.flags & SYN and not came.flags & ACK:
            return self._open_connection(came, now)
        if found is None or not came.flags & ACK:
            return [refusal(came)]
        found.heard_at, found.window = now, came.window
        if not self._confirm(found, came):
            return [self._plain(found)]
        replies = self._receive_data(found, came)
        replies += self._send(found, now)
        if found.their_end and found.is_complete and found.confirmed == found.total:
            del self._open[found.port]
        return replies

    def tick(self, now: float) -> list[Segment]:
        """Return retransmissions, and resets of idle connections."""
        replies: list[Segment] = []
        for found in list(self._open.values()):
            if found.tries > MAX_ATTEMPTS or now - found.heard_at > IDLE_SECONDS:
                del self._open[found.port]
                replies.append(replace(self._plain(found), flags=RST | ACK))
            elif now - found.sent_at >= RETRANSMIT_SECONDS and (not found.is_joined or found.confirmed < found.sent):
                found.tries += 1
                found.sent_at = now
                found.sent = found.confirmed
                replies += [self._syn_ack(found)] if not found.is_joined else self._send(found, now)
        return replies

    @property
    def is_idle(self) -> bool:
        return not self._open

    def _open_connection(self, came: Segment, now: float) -> list[Segment]:
        known = self._open.get(came.source_port)
        if known is not None and not known.is_joined and known.expected == (came.sequence + 1) % SEQUENCE_MODULUS:
            return [self._syn_ack(known)]
        if known is None and len(self._open) >= MAX_CONNECTIONS:
            return [refusal(came)]
        begun = _Connection(
            exchange=self._make_exchange(),
            port=came.source_port,
            first=secrets.randbits(32),
            expected=(came.sequence + 1) % SEQUENCE_MODULUS,
            largest=max(64, min(came.largest or DEFAULT_SEGMENT_BYTES, MAX_SEGMENT_BYTES)),
            window=came.window,
            heard_at=now,
            sent_at=now,
        )
        self._open[came.source_port] = begun
        return [self._syn_ack(begun)]

    def _confirm(self, found: _Connection, came: Segment) -> bool:
        """Record an acknowledgement; return False for one of data that were never sent."""
        confirmed = (came.acknowledged - found.first - 1) % SEQUENCE_MODULUS
        if not found.is_joined:
            if confirmed:
                return False
            found.is_joined = True
        if found.confirmed < confirmed <= found.total:
            found.confirmed, found.tries = confirmed, 0
            found.sent = max(found.sent, confirmed)
        return confirmed <= found.total

    def _receive_data(self, found: _Connection, came: Segment) -> list[Segment]:
        if not came.data and not came.flags & FIN:
            return []
        if came.sequence != found.expected or found.their_end:
            return [self._plain(found)]  # a duplicate, or after a gap: the guest sends it again
        found.expected = (found.expected + len(came.data)) % SEQUENCE_MODULUS
        if came.data:
            found.answer += found.exchange.receive(came.data)
        if came.flags & FIN:
            found.expected = (found.expected + 1) % SEQUENCE_MODULUS
            found.their_end = True
        found.is_complete = found.exchange.is_over or found.their_end
        return [self._plain(found)]

    def _send(self, found: _Connection, now: float) -> list[Segment]:
        room = min(found.window, MAX_IN_FLIGHT * found.largest)
        replies: list[Segment] = []
        while found.sent < found.total and found.sent - found.confirmed < max(room, 1):
            data = found.answer[found.sent : found.sent + min(found.largest, room or 1)]
            is_last = found.is_complete and found.sent + len(data) == len(found.answer)
            replies.append(self._plain(found, data, FIN if is_last else 0))
            found.sent += len(data) + is_last
            found.sent_at = now
        return replies

    def _syn_ack(self, found: _Connection) -> Segment:
        return Segment(
            self._port, found.port, found.first, found.expected, SYN | ACK, WINDOW, largest=MAX_SEGMENT_BYTES
        )

    def _plain(self, found: _Connection, data: bytes = b"", flags: int = 0) -> Segment:
        number = self._number(found, found.sent)
        return Segment(self._port, found.port, number, found.expected, ACK | flags, WINDOW, data)

    @staticmethod
    def _number(found: _Connection, place: int) -> int:
        return (found.first + 1 + place) % SEQUENCE_MODULUS


def refusal(came: Segment) -> Segment:
    """Return the reset for a segment without a connection."""
    taken = len(came.data) + bool(came.flags & SYN) + bool(came.flags & FIN)
    if came.flags & ACK:
        return Segment(came.target_port, came.source_port, came.acknowledged, 0, RST, 0)
    number = (came.sequence + taken) % SEQUENCE_MODULUS
    return Segment(came.target_port, came.source_port, 0, number, RST | ACK, 0)
