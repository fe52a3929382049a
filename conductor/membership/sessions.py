"""Processes that share a PostgreSQL server watch each other's advisory locks, which end with their sessions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import psycopg
from django.db import connections

from conductor.core.errors import Unavailable
from conductor.core.membership import Member, OnGone

log = logging.getLogger(__name__)

LOCK_CLASS = 7001
# Asked this often, each time by a short statement: a session that waited inside of one for the others' locks would
# keep the server from cleaning up what was deleted meanwhile.
POLL_SECONDS = 0.03
RETRY_SECONDS = 1.0
STOP_SECONDS = 5.0
LONGEST_NAME = 63  # of what a session says it is

_LOCKS = f"FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = {LOCK_CLASS} AND l.objsubid = 2 AND l.granted"
_ALIVE = f"SELECT l.objid::bigint {_LOCKS}"
_NAMES = (
    "SELECT l.objid::bigint, a.application_name FROM pg_stat_activity a JOIN pg_locks l USING (pid) "
    f"{_LOCKS.partition('pg_locks l ')[2]} ORDER BY a.application_name"
)
_HOLD = f"SELECT pg_try_advisory_lock({LOCK_CLASS}, %s)"
# A holder whose cable was cut: the server lets go of its lock after about ten seconds, and not after two hours.
_SESSION = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET statement_timeout = '5s'"
)

Session = psycopg.Connection[tuple[object, ...]]


class SessionWatch:
    """One session on the server behind `alias`: it holds this process's lock, and sees those of all others."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_complaining = False

    def join(self, me: Member, on_gone: OnGone) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(me, on_gone), name=f"death-watch-{self._alias}", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def members(self) -> Sequence[Member]:
        try:
            with _session(self._alias) as session:
                rows = session.execute(_NAMES).fetchall()
        except psycopg.Error:
            raise Unavailable(f"The database server of {self._alias} does not answer.") from None
        return [_member(int(str(number)), str(said)) for number, said in rows]

    def _run(self, me: Member, on_gone: OnGone) -> None:
        while not self._stopped.is_set():
            try:
                with _session(self._alias) as session:
                    self._watch(session, me, on_gone)
            except psycopg.Error as error:
                self._complain(error)
                self._stopped.wait(RETRY_SECONDS)

    def _watch(self, session: Session, me: Member, on_gone: OnGone) -> None:
        """Until this session ends. What it has seen ends with it: with the server, all locks go at once."""
        session.execute("SELECT set_config('application_name', %s, false)", [f"{me.worker} {me.name}"[-LONGEST_NAME:]])
        seen: set[str] = set()
        while not self._stopped.wait(POLL_SECONDS):
            alive = {_life(int(str(number))) for (number,) in session.execute(_ALIVE)}
            if me.life not in alive:  # the first time, or an earlier session of this process is not given up yet
                session.execute(_HOLD, [_key(me.life)])
            for life in seen - alive - {me.life}:
                on_gone(life)
            seen = alive
            self._recover()

    def _complain(self, error: psycopg.Error) -> None:
        if not self._is_complaining:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            log.warning("deaths are noticed by leases only, for now: alias=%s: %s", self._alias, reason)
        self._is_complaining = True

    def _recover(self) -> None:
        if self._is_complaining:
            log.warning("deaths are noticed at once again: alias=%s", self._alias)
        self._is_complaining = False


def _session(alias: str) -> Session:
    """A connection of our own: one of Django's would come back as another's, with our lock on it."""
    session = psycopg.connect(**connections[alias].get_connection_params(), autocommit=True)
    session.execute(_SESSION)
    return session


def _key(life: str) -> int:
    """A life as the second key of an advisory lock, which is a number with a sign."""
    number = int(life, 16)
    return number - (1 << 32) if number >= 1 << 31 else number


def _life(number: int) -> str:
    """The same from pg_locks, which shows it without one."""
    return f"{number:08x}"


def _member(number: int, said: str) -> Member:
    worker, _, name = said.partition(" ")
    life = _life(number)
    return Member(worker=worker if worker.endswith(life) else life, name=name)
