"""Batched writes to SQLite: one thread writes the items of all waiting threads in one transaction.

Group commit (`group_commit`) shares the sync of a commit; a batch also shares the statements. The first thread that
finds no leader leads: it waits for its turn to write, takes the items that have come meanwhile, and hands on the lead.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.group_commit import LONGEST_WAIT_SECONDS
from conductor.db.transactions import bare_tx

MOST_AT_ONCE = 64
Item = TypeVar("Item")


class BatchWriter(Generic[Item]):
    """Writes items by `write(connection, items)`, which runs inside the transaction and may raise for any of them."""

    def __init__(self, write: Callable[[BaseDatabaseWrapper, Sequence[Item]], None]) -> None:
        self._write = write
        self._queues: defaultdict[str, Queue[Item]] = defaultdict(Queue)
        os.register_at_fork(after_in_child=self._queues.clear)  # the leading thread does not exist in the child

    def queue_of(self, alias: str) -> Queue[Item]:
        return self._queues[alias]

    def write(self, connection: BaseDatabaseWrapper, item: Item) -> None:
        """Write the item and commit it. Raises what `write` raised for this item."""
        queue, mine = self._queues[connection.alias], _Waiting(item)
        leads = queue.join(mine)
        if not leads and not mine.turn.acquire(timeout=LONGEST_WAIT_SECONDS):
            queue.leave(mine)
        if not mine.is_settled:
            self._lead(connection, queue)
        if mine.error is not None:
            raise mine.error

    def _lead(self, connection: BaseDatabaseWrapper, queue: Queue[Item]) -> None:
        """Commit once for all items. If that fails, commit each by itself, so that none fails by another's fault."""
        batch: list[_Waiting[Item]] = []
        try:
            with bare_tx(connection.alias):
                batch = queue.take()  # the leader's own item is the oldest
                self._write(connection, [waiting.item for waiting in batch])
        except BaseException as error:
            batch = batch or queue.take()
            if len(batch) == 1:
                batch[0].error = error
            else:
                self._write_each(connection, batch)
        finally:
            for waiting in batch:
                waiting.is_settled = True
            queue.hand_on()
            for waiting in batch:
                waiting.turn.release()

    def _write_each(self, connection: BaseDatabaseWrapper, batch: Sequence[_Waiting[Item]]) -> None:
        for waiting in batch:
            try:
                with bare_tx(connection.alias):
                    self._write(connection, [waiting.item])
            except BaseException as error:
                waiting.error = error


class _Waiting(Generic[Item]):
    """An item to be written, and the thread that waits for it."""

    __slots__ = ("error", "is_settled", "item", "turn")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_settled = False
        self.error: BaseException | None = None
        self.turn = threading.Lock()  # released when the item is done, or when this thread leads next
        self.turn.acquire()


class Queue(Generic[Item]):
    """Items to be written to one file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Waiting[Item]] = []
        self._is_led = False

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, mine: _Waiting[Item]) -> bool:
        """Wait with the other threads. Return whether this thread leads."""
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        return leads

    def take(self) -> list[_Waiting[Item]]:
        with self._lock:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        return batch

    def hand_on(self) -> None:
        """Let the thread with the oldest item lead next."""
        with self._lock:
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].turn.release()

    def leave(self, mine: _Waiting[Item]) -> None:
        """Give up waiting, unless this thread has just become the leader: no other thread would lead then."""
        with self._lock:
            if mine.turn.acquire(blocking=False):
                return
            if mine in self._waiting:
                self._waiting.remove(mine)
        raise OperationalError("A commit did not end: what became of it is not known.")
