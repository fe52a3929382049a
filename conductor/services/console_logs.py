"""Keeps the tail of what guests write to their serial consoles."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor import events
from conductor.cells.targeting import target_cell
from conductor.core import console_text
from conductor.core.console_text import TAIL_BYTES
from conductor.core.identifiers import uuid_or_none
from conductor.journal.models import Event
from conductor.rpc.messages import ConsolesWritten, ConsoleWritten
from conductor.sql import dialect
from conductor.transactions import write_tx

KIND = "console.written"
# By hand, as every guest that boots writes, and many pieces come from one that talks.
_OWNER = "SELECT project_id FROM cell_db_instance WHERE uuid = %s AND host = %s AND deleted_at IS NULL"
_KEPT = 'SELECT host, "offset", text FROM cell_db_consolelog WHERE instance_uuid = %s {for update}'
_KEEP = (
    'INSERT INTO cell_db_consolelog (instance_uuid, host, "offset", text, updated_at) VALUES (%s, %s, %s, %s, {now}) '
    'ON CONFLICT (instance_uuid) DO UPDATE SET host = excluded.host, "offset" = excluded."offset", '
    "text = excluded.text, updated_at = excluded.updated_at"
)


@dataclass(frozen=True)
class Stretch:
    """A stretch of a console: the bytes from `offset` on."""

    offset: int
    raw: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.raw)


def store(cell: str, message: ConsoleWritten) -> None:
    """Keep a piece of one console, as older agents send it."""
    piece = {"instance_uuid": message.instance_uuid, "offset": message.offset, "text": message.text}
    store_all(cell, ConsolesWritten(host=message.host, pieces=[piece]))


def store_all(cell: str, message: ConsolesWritten) -> None:
    """Keep pieces of consoles. They may come twice, late or in any order; of a lost one the later part counts.

    What comes from a host where the instance is not, or for an instance that is gone, is ignored.
    """
    pieces = [
        (uuid, Stretch(piece["offset"], piece["text"].encode()))
        for piece in message.pieces
        if (uuid := uuid_or_none(piece["instance_uuid"])) is not None and piece["text"] and piece["offset"] >= 0
    ]
    if pieces:
        with target_cell(cell), write_tx(cell):
            for uuid, new in sorted(pieces, key=itemgetter(0)):  # two messages must not wait for each other
                _join_in(connections[cell], uuid, message.host, new)


def _join_in(connection: BaseDatabaseWrapper, uuid: UUID, host: str, new: Stretch) -> None:
    owners = dialect.run(connection, _OWNER, (uuid.hex, host))
    if not owners:
        return
    log = next(iter(dialect.run(connection, _KEPT, (uuid.hex,))), None)
    kept = Stretch(log[1], log[2].encode()) if log is not None and log[0] == host else None
    joined = join(kept, new)
    if joined == kept:
        return
    dialect.run(connection, _KEEP, (uuid.hex, host, joined.offset, console_text.to_text(joined.raw)))
    if log is not None:
        _forget_what_was_told(connection.alias, uuid)
    ((project_id,),) = owners
    events.append(connection.alias, events.about_instance(uuid, project_id), KIND, {"end": joined.end})


def join(kept: Stretch | None, new: Stretch) -> Stretch:
    """The newest unbroken stretch that two pieces give, at most its last 64 KiB.

    Where they overlap and differ the guest was built anew, and what it said before ends there.
    """
    if kept is None or new.offset > kept.end:
        return _tail(new)
    if new.end < kept.offset:
        return kept
    start, end = max(kept.offset, new.offset), min(kept.end, new.end)
    if _cut(kept, start, end) != _cut(new, start, end):
        return _tail(Stretch(min(kept.offset, new.offset), _cut(kept, kept.offset, new.offset) + new.raw))
    first, second = sorted((kept, new), key=lambda piece: piece.offset)
    return _tail(Stretch(first.offset, first.raw + second.raw[max(first.end - second.offset, 0) :]))


def _cut(piece: Stretch, start: int, end: int) -> bytes:
    return piece.raw[max(start - piece.offset, 0) : max(end - piece.offset, 0)]


def _tail(piece: Stretch) -> Stretch:
    raw = console_text.tail(piece.raw, TAIL_BYTES)
    return Stretch(piece.end - len(raw), raw)


def _forget_what_was_told(cell: str, uuid: UUID) -> None:
    """One event per console is enough: it says where to look, and the next one says it again."""
    Event.objects.using(cell).filter(topic=events.about_instance(uuid, "").topic, kind=KIND).delete()
