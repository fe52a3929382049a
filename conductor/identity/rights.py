"""Follows whether tokens still stand for what they stood for, without asking the database for each request.

One row holds a number that is drawn anew in the transaction of every change that takes or gives rights. What a token
was found to grant is remembered beside the number of that moment and holds as long as the number does. A process looks
at the number at most once in `settings.NOVELLA_TOKEN_RECHECK_SECONDS`; after a change of its own it looks at once.
"""

from __future__ import annotations

import secrets
import threading
import time

from django.conf import settings
from django.db import connections, transaction

from conductor.identity.models import RightsVersion
from conductor.sql.dialect import run

_ROW = 1
_NUMBER = f"SELECT number FROM {RightsVersion._meta.db_table} WHERE id = %s"
_lock = threading.Lock()
_seen: tuple[int, float] | None = None  # the number, and when it was asked for
_changes = 0  # of this process: an answer that was on its way while something changed is not kept


def changed() -> None:
    """Call last in the transaction of a change: with its commit nothing that was remembered counts any more."""
    # Any other number does: drawn, so that no two changes can ever meet on the same one.
    number = secrets.randbits(62) + 1
    if not RightsVersion.objects.filter(id=_ROW).update(number=number):
        RightsVersion.objects.update_or_create(id=_ROW, defaults={"number": number})
    _forget()
    transaction.on_commit(_forget)


def now() -> int:
    """The number of this very moment, for whoever takes rights for what they are and not for what they were."""
    rows = run(connections["default"], _NUMBER, (_ROW,))
    return int(rows[0][0]) if rows else 0


def version() -> int:
    """The number, as old as the setting allows."""
    global _seen
    asked = time.monotonic()
    with _lock:
        if _seen is not None and asked - _seen[1] < settings.NOVELLA_TOKEN_RECHECK_SECONDS:
            return _seen[0]
        before = _changes
    number = now()
    with _lock:
        if _changes == before:
            _seen = (number, asked)
    return number


def _forget() -> None:
    global _seen, _changes
    with _lock:
        _seen = None
        _changes += 1
