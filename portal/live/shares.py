"""Limits on long-lived connections, per process and per user."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from portal.callers import Caller

REFUSAL_SECONDS = 3.0  # a client that is refused immediately retries immediately


class Full(Exception):
    """No connection is left: of the user's own (`is_own`), or of the process."""

    def __init__(self, most: int, *, is_own: bool) -> None:
        super().__init__(most)
        self.most, self.is_own = most, is_own

    @property
    def status(self) -> int:
        return 429 if self.is_own else 503


class Shares:
    """Counts connections of one kind by user. For the event loop's thread only."""

    def __init__(self, most: int, most_of_a_user: int) -> None:
        self.most, self.most_of_a_user = most, most_of_a_user
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._open.total()

    def take(self, user_id: str) -> None:
        """Count a connection. Raises Full."""
        self.require_room(user_id)
        self._open[user_id] += 1

    async def require(self, caller: Caller | None) -> None:
        """Refuse a known caller whose connections are used up, before any other work. Raises Full after a delay."""
        if caller is None or not caller.user_id:
            return
        try:
            self.require_room(caller.user_id)
        except Full:
            await asyncio.sleep(REFUSAL_SECONDS)
            raise

    def require_room(self, user_id: str) -> None:
        """Raises Full if no connection is left."""
        if self._open[user_id] >= self.most_of_a_user:
            raise Full(self.most_of_a_user, is_own=True)
        if self.count >= self.most:
            raise Full(self.most, is_own=False)

    def give_back(self, user_id: str) -> None:
        self._open[user_id] -= 1
        if self._open[user_id] <= 0:
            del self._open[user_id]

    @contextmanager
    def one(self, user_id: str) -> Iterator[None]:
        """Count a connection for the duration of the block. Raises Full."""
        self.take(user_id)
        try:
            yield
        finally:
            self.give_back(user_id)
