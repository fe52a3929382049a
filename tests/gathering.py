"""Writers that meet at the group commit of a SQLite file, for tests of shared commits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import connections

from conductor import events
from conductor.db.group_commit import write_lock_of
from conductor.db.transactions import write_tx
from conductor.journal.models import Event
from tests.waiting import wait_until

ALIAS = "cell1"
Write = Callable[[], None]


def closing(work: Callable[[], Any]) -> Callable[[], Any]:
    def wrapped() -> Any:
        try:
            return work()
        finally:
            connections.close_all()

    return wrapped


def emit(kind: str) -> None:
    events.append(ALIAS, events.EventSubject("host:a"), kind)


def emitted() -> list[str]:
    return list(Event.objects.using(ALIAS).order_by("pk").values_list("kind", flat=True))


def emitting(kind: str) -> Write:
    def write() -> None:
        with write_tx(ALIAS):
            emit(kind)

    return write


def together(pool: ThreadPoolExecutor, *writes: Write) -> list[Future[Any]]:
    """Queue all writes at the group commit, in this order, while another one is written."""
    with write_tx(ALIAS):
        emit("first")
        return coming(pool, *writes)


def coming(pool: ThreadPoolExecutor, *writes: Callable[[], Any]) -> list[Future[Any]]:
    """Queue all writes as `together` does, while the caller itself writes."""
    write_lock, futures = write_lock_of(ALIAS), []
    for number, write in enumerate(writes, start=1):
        futures.append(pool.submit(closing(write)))
        wait_until("the write is queued at the write_lock", lambda number=number: len(write_lock._queue) == number)  # type: ignore[misc]
    return futures


def path() -> str:
    return str(connections[ALIAS].settings_dict["NAME"])


def assert_write_lock_is_free() -> None:
    write_lock = write_lock_of(ALIAS)
    assert (write_lock._holder, len(write_lock._queue), write_lock.open) == (None, 0, None)
    connection = connections[ALIAS]
    assert (connection.in_atomic_block, connection.needs_rollback, connection.run_on_commit) == (False, False, [])
