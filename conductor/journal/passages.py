"""From one step to the next in one write: alone in one statement, or with others' in one shared commit.

On SQLite the sync at the end of a transaction is the dearest part of a step, and only one connection writes at a time.
So workers that come to the gate together let one of them write for all, and each goes on once that commit is there.
PostgreSQL groups commits by itself; there the whole passage is one statement and one round trip.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.core.states import RunState
from conductor.journal import checkpoints
from conductor.sql.dialect import Row, run, run_many
from conductor.transactions import bare_tx
from conductor.write_gate import LONGEST_WAIT_SECONDS

# The fence, with what else must be as its owner knows it: a run that was asked to stop goes the long way.
_AS_KNOWN = "WHERE id = %s AND fencing_token = %s AND NOT is_cancel_requested"
_KEPT = f"lease_expires_at = {{later}} {_AS_KNOWN}"
_CLOSED = "UPDATE journal_steprecord SET state = %s, result = %s, finished_at = {now} WHERE step_key = %s"
_FREED = "DELETE FROM journal_resourcelock WHERE run_id = %s"
MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Way:
    """What is written of the run, and of the record of the step that it leaves."""

    move: str
    close: str


ON = Way(f"UPDATE journal_workflowrun SET position = %s, variables = %s, {_KEPT}", _CLOSED)
BACK = Way(
    f"UPDATE journal_workflowrun SET direction = 'undo', state = '{RunState.UNDOING}', position = %s, error = %s, "
    f"{_KEPT}",
    "UPDATE journal_steprecord SET state = %s, error = %s, finished_at = {now} WHERE step_key = %s",
)
# The end of a run that is done; on SQLite alone, where nobody begins to wait for its locks while they are freed.
END = Way(
    f"UPDATE journal_workflowrun SET position = %s, variables = %s, state = '{RunState.DONE}', error = NULL, "
    f"orders = NULL, owner = NULL, lease_expires_at = NULL, finished_at = {{now}} {_AS_KNOWN}",
    _CLOSED,
)


@dataclass(slots=True)
class Passage:
    """One step left and the next one opened: rows for the statements of its way, for a new record and for events.

    `free` is the row that frees the locks of a run that ends. What follows it is known once the passage is written.
    """

    way: Way
    move: Row
    close: Row
    step: Row | None
    events: Sequence[Row]
    free: Row | None = None
    is_written: bool = False
    step_id: int = 0
    numbers: list[int] = field(default_factory=list)


class _NotAsKnown(Exception):
    """One of the runs has another owner, or was asked to stop."""


def share_commits(alias: str) -> bool:
    """Whether passages of several runs are written in one transaction, by one of their workers."""
    return connections[alias].vendor == "sqlite"


def write(alias: str, passage: Passage) -> bool:
    """Write a passage and commit it; False, and nothing is written, when the run is not as its owner knows it.

    Nor is the end of a run written while any run waits for a lock: that may be one that it frees.
    """
    connection = connections[alias]
    if connection.vendor == "postgresql":
        return _write_at_once(connection, passage)
    return _group_of(alias).write(connection, passage)


class _Waiting:
    """A passage on its way to the disk, and the thread that waits for it."""

    __slots__ = ("error", "is_settled", "is_written", "passage", "turn")

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.is_settled = self.is_written = False
        self.error: BaseException | None = None
        self.turn = threading.Lock()  # released when the passage is settled, or when it is this thread's to lead
        self.turn.acquire()

    def settle(self) -> None:
        self.is_settled, self.is_written = True, self.passage.is_written

    def fail(self, error: BaseException) -> None:
        self.is_settled, self.error = True, None if isinstance(error, _NotAsKnown) else error


class _Group:
    """The passages of one SQLite file. Who finds nobody leading leads: writes for all that wait, and hands on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._is_led = False

    def write(self, connection: BaseDatabaseWrapper, passage: Passage) -> bool:
        mine = _Waiting(passage)
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        if not leads and not mine.turn.acquire(timeout=LONGEST_WAIT_SECONDS):
            self._stand_back(mine)
        if not mine.is_settled:
            self._lead(connection)
        if mine.error is not None:
            raise mine.error
        return mine.is_written

    def _lead(self, connection: BaseDatabaseWrapper) -> None:
        """Write what waits: one commit for all, or one for each when that fails, so that nobody suffers for another.

        Who comes while this leader waits for his turn to write is written too. His own passage is the oldest.
        """
        batch: list[_Waiting] = []
        try:
            with bare_tx(connection.alias):
                batch = self._taken()
                _write(connection, [waiting.passage for waiting in batch])
        except BaseException as error:
            batch = batch or self._taken()
            if len(batch) == 1:
                batch[0].fail(error)
            else:
                _write_each(connection, batch)
        else:
            for waiting in batch:
                waiting.settle()
        finally:
            self._hand_on(batch)

    def _taken(self) -> list[_Waiting]:
        with self._lock:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        return batch

    def _hand_on(self, batch: Sequence[_Waiting]) -> None:
        with self._lock:
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].turn.release()
        for waiting in batch:
            waiting.turn.release()

    def _stand_back(self, mine: _Waiting) -> None:
        """Give up waiting, unless the turn has come in that moment: nobody else would lead then."""
        with self._lock:
            if mine.turn.acquire(blocking=False):
                return
            if mine in self._waiting:
                self._waiting.remove(mine)
        raise OperationalError("A commit did not end: what became of it is not known.")


def _write_each(connection: BaseDatabaseWrapper, batch: Sequence[_Waiting]) -> None:
    for waiting in batch:
        try:
            with bare_tx(connection.alias):
                _write(connection, [waiting.passage])
        except BaseException as error:
            waiting.fail(error)
        else:
            waiting.settle()


def _write(connection: BaseDatabaseWrapper, wanted: Sequence[Passage]) -> None:
    is_blocked = any(passage.free for passage in wanted) and checkpoints.is_any_waiting(connection)
    for passage in wanted:
        passage.is_written = not (passage.free and is_blocked)
    passages = [passage for passage in wanted if passage.is_written]
    if not passages:
        return
    for way in {passage.way for passage in passages}:
        those = [passage for passage in passages if passage.way is way]
        if run_many(connection, way.move, [passage.move for passage in those]) != len(those):
            raise _NotAsKnown
        run_many(connection, way.close, [passage.close for passage in those])
    if frees := [passage.free for passage in passages if passage.free]:
        run_many(connection, _FREED, frees)
    steps = [passage.step for passage in passages if passage.step]
    ids = iter(checkpoints.open_steps(connection, steps) if steps else ())
    numbers = checkpoints.append_events(connection, [row for passage in passages for row in passage.events])
    for passage in passages:
        passage.step_id = next(ids) if passage.step else 0
        passage.numbers, numbers = numbers[: len(passage.events)], numbers[len(passage.events) :]


def _write_at_once(connection: BaseDatabaseWrapper, passage: Passage) -> bool:
    """The same as one statement, a transaction by itself: when the fence does not hold, all of it writes nothing."""
    assert passage.step is not None, "ends are not written at once"
    steps, step_params = checkpoints.STEPS.selected(connection, [passage.step], "held")
    events, event_params = checkpoints.EVENTS.selected(connection, passage.events, "held")
    way = passage.way
    text = (
        f"WITH held AS ({way.move} RETURNING id), closed AS ({way.close} AND EXISTS (SELECT 1 FROM held)), "
        f"opened AS ({steps}), told AS ({events}) "
        "SELECT (SELECT id FROM opened), (SELECT array_agg(id ORDER BY id) FROM told) FROM held"
    )
    rows = run(connection, text, [*passage.move, *passage.close, *step_params, *event_params])
    if rows:
        ((passage.step_id, passage.numbers),) = rows
    return bool(rows)


_groups: dict[str, _Group] = {}
_groups_lock = threading.Lock()
os.register_at_fork(after_in_child=_groups.clear)  # whoever led one is not there


def _group_of(alias: str) -> _Group:
    group = _groups.get(alias)
    if group is None:
        with _groups_lock:
            group = _groups.setdefault(alias, _Group())
    return group
