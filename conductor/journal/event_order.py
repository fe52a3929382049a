"""How far the event log may be read, so that a reader who goes on from the last number misses none.

SQLite commits in the order of the numbers. PostgreSQL gives a number when a row is written and shows it when its
transaction commits: a reader that stood at 6 would never see a 5 that commits later. There whoever is about to take
a number first says so with an advisory lock, which names the newest number of that moment and goes with the
transaction. What lies above the lowest of these may still get company below it, and is not read yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from django.db.models import QuerySet

from conductor.sql.dialect import run

if TYPE_CHECKING:
    from conductor.journal.models import Event

# The upper bits of these locks' keys; the lower 40 are a number of the log.
WRITING = 7002
NUMBER_BITS = 40

# For the schema migration. A transaction says once where it began: its setting goes with it, as the lock does, also
# when only a savepoint is rolled back.
CREATE_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION journal_event_newest() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM journal_event_id_seq
$$;
CREATE OR REPLACE FUNCTION journal_event_number() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF coalesce(current_setting('novella.writes_events', true), '') = '' THEN
        PERFORM pg_advisory_xact_lock_shared(({WRITING}::bigint << {NUMBER_BITS}) | journal_event_newest());
        PERFORM set_config('novella.writes_events', 'yes', true);
    END IF;
    RETURN nextval('journal_event_id_seq');
END $$;
CREATE OR REPLACE FUNCTION journal_event_settled() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    newest bigint := journal_event_newest();  -- first: who locks after we look takes numbers above this one
    lowest bigint;
BEGIN
    SELECT min(((classid::bigint << 32) | objid::bigint) & ((1::bigint << {NUMBER_BITS}) - 1)) INTO lowest
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> {NUMBER_BITS - 32} = {WRITING}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(newest, lowest);
END $$;
"""


def is_by_commit(alias: str) -> bool:
    """Whether numbers rise in the order of the commits: then all before an event that is there are there too."""
    return connections[alias].vendor == "sqlite"


def after(events: QuerySet[Event], number: int) -> QuerySet[Event]:
    """The events after `number` that are settled, in order."""
    later = events.filter(pk__gt=number).order_by("pk")
    most = bound(events.db)
    return later if most is None else later.filter(pk__lte=most)


def bound(alias: str) -> int | None:
    """The number above which nothing is read yet; None where all that is there may be.

    To be asked for in a statement before that which reads.
    """
    return None if is_by_commit(alias) else _settled(alias)


def end(events: QuerySet[Event]) -> int:
    """The number up to which the log is settled."""
    if not is_by_commit(events.db):
        return _settled(events.db)
    return next(iter(events.order_by("-pk").values_list("pk", flat=True)[:1]), 0)


def _settled(alias: str) -> int:
    """A statement of its own: what it finds settled is there for the next statement to see, not yet for this one."""
    ((number,),) = run(connections[alias], "SELECT journal_event_settled()")
    return int(number)
