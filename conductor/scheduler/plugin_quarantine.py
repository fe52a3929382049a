"""Shuts plugins out for a while, and lets them in again: stored, so that all schedulers agree."""

from __future__ import annotations

import logging
from datetime import datetime

from conductor.api_db.models import PluginChoice, PluginQuarantine
from conductor.core.plugin_choice import PluginKey
from conductor.transactions import database_now, database_time, write_tx

log = logging.getLogger(__name__)

ALIAS = "default"
FAULTS = "faults"
OVERRUNS = "overruns"
OPERATOR = "operator"
LONGEST_REASON = 255


def choice_row(kind: str) -> PluginChoice:
    """The row of a kind, held until the transaction ends: whoever changes anything about plugins comes after."""
    row, _ = PluginChoice.objects.select_for_update().get_or_create(kind=kind)
    return row


def begin(key: PluginKey, *, cause: str, reason: str, seconds: float = 0.0) -> bool:
    """Shut a plugin out for `seconds`, or until somebody releases it; False where it is shut out already."""
    kind, name = key
    with write_tx(ALIAS):
        choice = choice_row(kind)
        row = PluginQuarantine.objects.filter(kind=kind, name=name).first() or PluginQuarantine(kind=kind, name=name)
        now = database_time(ALIAS)
        if row.pk and is_open(row, now):
            return False
        row.cause, row.reason = cause, reason[:LONGEST_REASON]
        row.times += 1
        row.began_at, row.released_at = now, None
        row.until = database_now(seconds) if seconds else None
        row.save()
        _touch(choice)
    log.error("plugin quarantined: kind=%s name=%s cause=%s reason=%s seconds=%g", kind, name, cause, reason, seconds)
    return True


def end(key: PluginKey) -> bool:
    """Let a plugin in again; False where it was not shut out."""
    kind, name = key
    with write_tx(ALIAS):
        choice = choice_row(kind)
        now = database_time(ALIAS)
        row = PluginQuarantine.objects.filter(kind=kind, name=name).first()
        if row is None or not is_open(row, now):
            return False
        row.released_at = now
        row.save()
        _touch(choice)
    log.warning("plugin released from quarantine: kind=%s name=%s", kind, name)
    return True


def is_open(row: PluginQuarantine, now: datetime) -> bool:
    """Whether the plugin is shut out at that time."""
    return row.released_at is None and (row.until is None or now < row.until)


def _touch(choice: PluginChoice) -> None:
    choice.quarantine_number += 1
    choice.touched_at = database_now()
    choice.save(update_fields=["quarantine_number", "touched_at"])
