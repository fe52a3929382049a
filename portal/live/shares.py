"""How many connections that stay open a process takes, and how many of them one user may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Full(Exception):
    """There is no connection left: of the user's own (`is_own`), or of the process."""

    def __init__(self, most: int, *, is_own: bool) -> None:
        super().__init__(most)
        self.most, self.is_own = most, is_own

    @property
    def status(self) -> int:
        return 429 if self.is_own else 503


class Shares:
    """Counts connections of one kind by user. For the event loop's thread alone."""

    def __init__(self, most: int, most_of_a_user: int) -> None:
        self.most, self.most_of_a_user = most, most_of_a_user
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._open.total()

    def take(self, user_id: str) -> None:
        """Count one more. Raises Full."""
        if self._open[user_id] >= self.most_of_a_user:
            raise Full(self.most_of_a_user, is_own=True)
        if self.count >= self.most:
            raise Full(self.most, is_own=False)
        self._open[user_id] += 1

    def give_back(self, user_id: str) -> None:
        self._open[user_id] -= 1
        if self._open[user_id] <= 0:
            del self._open[user_id]

    @contextmanager
    def one(self, user_id: str) -> Iterator[None]:
        """A connection that lasts as long as what runs inside. Raises Full."""
        self.take(user_id)
        try:
            yield
        finally:
            self.give_back(user_id)
