"""Version number of rights: cached tokens stay valid as long as it does not change.

One row holds a number that is drawn anew in the transaction of every change that takes or gives rights. The grants of a
token are cached together with the number of that moment, and are valid as long as the number stays. A process reads the
number at most once in `settings.NOVELLA_TOKEN_RECHECK_SECONDS`; after a change of its own it reads it at once.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connections, transaction

from conductor.db.transactions import one_at_a_time, write_tx
from conductor.identity import statements
from conductor.identity.models import RightsVersion

Check = Callable[[], None]  # raises Forbidden

_ROW = 1
_lock = threading.Lock()
_seen: tuple[int, float] | None = None  # the number, and when it was read
_changes = 0  # of this process: a number read before a change must not be kept


@contextmanager
def changing(check: Check | None = None) -> Iterator[None]:
    """Run a write transaction that changes users, groups or role assignments, one at a time.

    `check` runs first. Its result stays true until the change is written, as no other change can come between.
    """
    with write_tx():
        one_at_a_time("default", "rights")
        if check is not None:
            check()
        yield
        changed()


def changed() -> None:
    """Call last in the transaction of a change: its commit invalidates all cached grants."""
    # Any other number will do. It is drawn at random, so that no two changes ever draw the same one.
    number = secrets.randbits(62) + 1
    if not RightsVersion.objects.filter(id=_ROW).update(number=number):
        RightsVersion.objects.update_or_create(id=_ROW, defaults={"number": number})
    _forget()
    transaction.on_commit(_forget)


def now() -> int:
    """Return the current number, for callers that need current rights."""
    return statements.rights_version(connections["default"], _ROW)


def version() -> int:
    """Return the number, as old as the setting allows."""
    global _seen
    requested = time.monotonic()
    with _lock:
        if _seen is not None and requested - _seen[1] < settings.NOVELLA_TOKEN_RECHECK_SECONDS:
            return _seen[0]
        before = _changes
    number = now()
    with _lock:
        if _changes == before:
            _seen = (number, requested)
    return number


def _forget() -> None:
    global _seen, _changes
    with _lock:
        _seen = None
        _changes += 1
