"""Stack of unused open connections, per process and database.

Not psycopg's pool: while a server is down, that lets every caller wait for its time limit. Here a connection is
refused as fast as the server refuses it, so a dead cell does not slow the others down; and no thread is needed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict, deque
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

MOST_SPARES = 8
LONGEST_IDLE_SECONDS = 60.0
# A liveness check costs a round trip: a connection that worked this recently is not checked.
BELIEVED_SECONDS = 1.0

Connection = psycopg.Connection[Any]


class _Spare(NamedTuple):
    connection: Connection
    since: float


class SpareConnections:
    """Connections by key. The one returned last is taken first, so that a quiet process keeps few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: defaultdict[object, deque[_Spare]] = defaultdict(deque)
        os.register_at_fork(after_in_child=self._forget)

    def take(self, key: object) -> Connection | None:
        """Return a live connection, or None. A dead one removes all others with it, as their server died."""
        with self._lock:
            spare = self._stacks[key].pop() if self._stacks[key] else None
        if spare is None or _lives(spare):
            return spare.connection if spare else None
        spare.connection.close()
        self.drop(key)
        return None

    def keep(self, key: object, connection: Connection) -> bool:
        """Store the connection. False where the caller must close it."""
        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            return False
        now = time.monotonic()
        tired = []
        with self._lock:
            stack = self._stacks[key]
            while stack and now - stack[0].since > LONGEST_IDLE_SECONDS:
                tired.append(stack.popleft())
            is_kept = len(stack) < MOST_SPARES
            if is_kept:
                stack.append(_Spare(connection, now))
        for spare in tired:
            spare.connection.close()
        return is_kept

    def drop(self, key: object) -> None:
        """Close every spare connection of one database."""
        with self._lock:
            stack = self._stacks.pop(key, deque())
        for spare in stack:
            spare.connection.close()

    def _forget(self) -> None:
        """Drop connections in a forked child. The sockets are the parent's, and closing them would end its sessions."""
        self._lock = threading.Lock()
        self._stacks = defaultdict(deque)


def _lives(spare: _Spare) -> bool:
    if time.monotonic() - spare.since < BELIEVED_SECONDS and not spare.connection.closed:
        return True
    try:
        spare.connection.execute("")
    except psycopg.Error:
        return False
    return True


SPARES = SpareConnections()
