"""Console logs: the tail of what guests write to their serial consoles."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor import events
from conductor.cell_db import statements
from conductor.cells.targeting import target_cell
from conductor.core import console_text
from conductor.core.console_text import TAIL_BYTES
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.journal.models import Event
from conductor.rpc.messages import ConsolesWritten, ConsoleWritten

KIND = "console.written"


@dataclass(frozen=True)
class ConsoleLogSlice:
    """The bytes of a console from `offset` on."""

    offset: int
    raw: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.raw)


def store(cell: str, message: ConsoleWritten) -> None:
    """Store a piece of one console, as older agents send it."""
    piece = {"instance_uuid": message.instance_uuid, "offset": message.offset, "text": message.text}
    store_all(cell, ConsolesWritten(host=message.host, pieces=[piece]))


def store_all(cell: str, message: ConsolesWritten) -> None:
    """Store pieces of consoles.

    They may arrive twice, late or in any order. After a lost piece only the later part is kept. Pieces from a host that
    does not have the instance, or for a deleted instance, are ignored.
    """
    pieces = [
        (uuid, ConsoleLogSlice(piece["offset"], piece["text"].encode()))
        for piece in message.pieces
        if (uuid := uuid_or_none(piece["instance_uuid"])) is not None and piece["text"] and piece["offset"] >= 0
    ]
    if pieces:
        with target_cell(cell), write_tx(cell):
            for uuid, new in sorted(pieces, key=itemgetter(0)):  # in one order, as two messages must not deadlock
                _join_in(connections[cell], uuid, message.host, new)


def _join_in(connection: BaseDatabaseWrapper, uuid: UUID, host: str, new: ConsoleLogSlice) -> None:
    project_id = statements.project_of_guest(connection, uuid, host)
    if project_id is None:
        return
    log = statements.lock_console_log(connection, uuid)
    kept = ConsoleLogSlice(log[1], log[2].encode()) if log is not None and log[0] == host else None
    joined = join(kept, new)
    if joined == kept:
        return
    statements.save_console_log(connection, uuid, host, joined.offset, console_text.to_text(joined.raw))
    if log is not None:
        _forget_reported(connection.alias, uuid)
    events.append(connection.alias, events.about_instance(uuid, project_id), KIND, {"end": joined.end})


def join(kept: ConsoleLogSlice | None, new: ConsoleLogSlice) -> ConsoleLogSlice:
    """Return the newest contiguous stretch of two pieces, at most its last 64 KiB.

    Where they overlap and differ the guest was rebuilt, and its older output ends there.
    """
    if kept is None or new.offset > kept.end:
        return _tail(new)
    if new.end < kept.offset:
        return kept
    start, end = max(kept.offset, new.offset), min(kept.end, new.end)
    if _cut(kept, start, end) != _cut(new, start, end):
        return _tail(ConsoleLogSlice(min(kept.offset, new.offset), _cut(kept, kept.offset, new.offset) + new.raw))
    first, second = sorted((kept, new), key=lambda piece: piece.offset)
    return _tail(ConsoleLogSlice(first.offset, first.raw + second.raw[max(first.end - second.offset, 0) :]))


def _cut(piece: ConsoleLogSlice, start: int, end: int) -> bytes:
    return piece.raw[max(start - piece.offset, 0) : max(end - piece.offset, 0)]


def _tail(piece: ConsoleLogSlice) -> ConsoleLogSlice:
    raw = console_text.tail(piece.raw, TAIL_BYTES)
    return ConsoleLogSlice(piece.end - len(raw), raw)


def _forget_reported(cell: str, uuid: UUID) -> None:
    """Delete a console's earlier event. One event per console is enough, as it only says where to look."""
    Event.objects.using(cell).filter(topic=events.about_instance(uuid, "").topic, kind=KIND).delete()
