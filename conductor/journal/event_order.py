"""Safe read position of the event log: a follower that reads on from the last number misses no event.

SQLite commits in the order of the numbers. PostgreSQL assigns a number when a row is written and shows it when its
transaction commits: a reader at 6 would never see a 5 that commits later. There each writer takes an advisory lock
before its first number. The lock names the newest number of that moment and ends with the transaction. Events above the
lowest of these may still get predecessors, and are not read yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from django.db.models import QuerySet

from conductor.journal import statements

if TYPE_CHECKING:
    from conductor.journal.models import Event


def is_by_commit(alias: str) -> bool:
    """Whether numbers rise in commit order: then all events before a visible one are visible too."""
    return connections[alias].vendor == "sqlite"


def after(events: QuerySet[Event], number: int) -> QuerySet[Event]:
    """Return the settled events after `number`, in order."""
    later = events.filter(pk__gt=number).order_by("pk")
    most = bound(events.db)
    return later if most is None else later.filter(pk__lte=most)


def bound(alias: str) -> int | None:
    """Return the number above which nothing is read yet. None where all visible events may be read.

    Run it in a statement before the reading one.
    """
    return None if is_by_commit(alias) else _settled(alias)


def end(events: QuerySet[Event]) -> int:
    """Return the number up to which the log is settled."""
    if not is_by_commit(events.db):
        return _settled(events.db)
    return next(iter(events.order_by("-pk").values_list("pk", flat=True)[:1]), 0)


def _settled(alias: str) -> int:
    """Return the settled number, in a separate statement. The next statement sees all events up to it."""
    return statements.settled_number(connections[alias])
