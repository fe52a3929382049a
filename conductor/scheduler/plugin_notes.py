"""Stores what this process noted about single plugins, and of each plugin keeps only the last."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.db import DatabaseError, InterfaceError

from conductor.api_db.models import PluginNote
from conductor.core.plugin_choice import PluginKey
from conductor.plugins.notes import AT_MOST, FAULT, SOURCES, Note, notes
from conductor.transactions import write_tx

log = logging.getLogger(__name__)

ALIAS = "default"


def store() -> None:
    """Take what was noted and store it; what cannot be stored now is noted again for the next time."""
    taken = notes.take()
    if not taken:
        return
    try:
        keep(taken)
    except (DatabaseError, InterfaceError):
        for key, found in taken.items():
            for one in found:
                notes.add(key, one)
        raise


def keep(taken: Mapping[PluginKey, Sequence[Note]]) -> None:
    """Store these. Raises what the database raises."""
    with write_tx(ALIAS):
        for key, found in sorted(taken.items()):
            _store(key, found)


def _store(key: PluginKey, found: Sequence[Note]) -> None:
    kind, name = key[0][:16], key[1][:255]
    for source in SOURCES:
        new = [one for one in found if one.source == source]
        if not new:
            continue
        rows = PluginNote.objects.filter(kind=kind, name=name, source=source)
        known = {_said(row): row for row in rows} if source == FAULT else {}
        for one in new:  # an error that comes again and again is one; lines and differences stay in their order
            began_at = last_at = _moment(one)
            row = known.get(_said(one)) or PluginNote(kind=kind, name=name, source=source, times=0, began_at=began_at)
            row.level, row.text, row.place = _said(one)
            row.times, row.last_at = row.times + one.times, last_at
            row.save()
            if source == FAULT:
                known[_said(row)] = row
        too_old = rows.order_by("-last_at", "-id")[AT_MOST:].values_list("id", flat=True)
        PluginNote.objects.filter(id__in=list(too_old)).delete()


def _said(one: Note | PluginNote) -> tuple[str, str, str]:
    return one.level, one.text, one.place


def _moment(one: Note) -> datetime:
    return datetime.fromtimestamp(one.at, UTC)
