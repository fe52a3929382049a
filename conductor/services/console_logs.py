"""Keeps the tail of what guests write to their serial consoles."""

from __future__ import annotations

from dataclasses import dataclass

from conductor import events
from conductor.cell_db.models import ConsoleLog, Instance
from conductor.cells.targeting import target_cell
from conductor.core import console_text
from conductor.core.console_text import TAIL_BYTES
from conductor.core.identifiers import uuid_or_none
from conductor.journal.models import Event
from conductor.rpc.messages import ConsoleWritten
from conductor.transactions import database_now, write_tx

KIND = "console.written"


@dataclass(frozen=True)
class Stretch:
    """A stretch of a console: the bytes from `offset` on."""

    offset: int
    raw: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.raw)


def store(cell: str, message: ConsoleWritten) -> None:
    """Keep a piece of a console. Pieces may come twice, late or in any order; of a lost one the later part counts.

    What comes from a host where the instance is not, or for an instance that is gone, is ignored.
    """
    uuid = uuid_or_none(message.instance_uuid)
    if uuid is None or not message.text or message.offset < 0:
        return
    with target_cell(cell), write_tx(cell):
        instance = Instance.objects.using(cell).alive().filter(uuid=uuid, host=message.host).first()
        if instance is None:
            return
        logs = ConsoleLog.objects.using(cell).select_for_update()
        log = logs.filter(instance_uuid=uuid, host=message.host).first()
        kept = Stretch(log.offset, log.text.encode()) if log else None
        joined = join(kept, Stretch(message.offset, message.text.encode()))
        if kept is not None and joined == kept:
            return
        values = {
            "host": message.host,
            "offset": joined.offset,
            "text": console_text.to_text(joined.raw),
            "updated_at": database_now(),
        }
        ConsoleLog.objects.using(cell).update_or_create(instance_uuid=uuid, defaults=values)
        _tell(cell, instance, joined.end)


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


def _tell(cell: str, instance: Instance, end: int) -> None:
    """One event per console is enough: it says where to look, and the next one says it again."""
    topic = f"server:{instance.uuid}"
    Event.objects.using(cell).filter(topic=topic, kind=KIND).delete()
    events.append(cell, events.about_instance(instance.uuid, instance.project_id), KIND, {"end": end})
