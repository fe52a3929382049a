"""Processes that share a PostgreSQL server watch each other's advisory locks, which end with their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections

from conductor.core.errors import Unavailable
from conductor.core.membership import Member
from conductor.membership.polled import Lives, PolledMembership

LOCK_CLASS = 7001
LONGEST_NAME = 63  # of a session's application name

_LOCKS = f"l.locktype = 'advisory' AND l.classid = {LOCK_CLASS} AND l.objsubid = 2 AND l.granted"
_ALIVE = f"SELECT l.objid::bigint FROM pg_locks l WHERE {_LOCKS}"
_NAMES = (
    "SELECT l.objid::bigint, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    f"WHERE {_LOCKS} ORDER BY a.application_name"
)
_HOLD = f"SELECT pg_try_advisory_lock({LOCK_CLASS}, %s)"
_SAY = "SELECT set_config('application_name', %s, false)"
# If a holder's cable is cut, the server frees its lock after about ten seconds, and not after two hours.
_SESSION = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET statement_timeout = '5s'"
)


class SessionWatch(PolledMembership):
    """One session on the server behind `alias`. It holds this process's lock, and reads the locks of all others."""

    # It polls with short statements. A session that blocks on the locks of others would keep the server from vacuuming
    # deleted rows.
    poll_seconds = 0.03
    failures = (psycopg.Error,)

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._alias = alias

    @contextmanager
    def entered(self, me: Member) -> Iterator[Lives]:
        with _session(self._alias) as session:
            session.execute(_SAY, [f"{me.worker} {me.name}"[-LONGEST_NAME:]])

            def lives() -> set[str]:
                alive = {_life(number) for (number,) in session.execute(_ALIVE)}
                if me.life not in alive:  # at the first time, or while an earlier session of ours still exists
                    session.execute(_HOLD, [_key(me.life)])
                return alive

            yield lives

    def members(self) -> Sequence[Member]:
        try:
            with _session(self._alias) as session:
                rows = session.execute(_NAMES).fetchall()
        except psycopg.Error:
            raise Unavailable(f"The database server of {self._alias} does not answer.") from None
        return [_member(number, message) for number, message in rows]


def _session(alias: str) -> psycopg.Connection[Any]:
    """Open a dedicated connection. Django could hand one of its own to another thread, with the lock on it."""
    session: psycopg.Connection[Any] = psycopg.connect(**connections[alias].get_connection_params(), autocommit=True)
    session.prepare_threshold = 5
    session.execute(_SESSION)
    return session


def _key(life: str) -> int:
    """Return the second key of an advisory lock for a life: a signed number."""
    number = int(life, 16)
    return number - (1 << 32) if number >= 1 << 31 else number


def _life(number: int) -> str:
    """Return the life of a lock in pg_locks, which shows the number unsigned."""
    return f"{number:08x}"


def _member(number: int, message: str) -> Member:
    worker, _, name = message.partition(" ")
    life = _life(number)
    return Member(worker=worker if worker.endswith(life) else life, name=name)
