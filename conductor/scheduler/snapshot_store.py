"""Keeps what a decision saw of the hosts: one copy of all of them, and per decision the rows that differ from it."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings

from conductor.api_db.models import HostSnapshot, SchedulingDecision
from conductor.core.errors import NotFound
from conductor.core.host_state import HostState, HostTable
from conductor.core.scheduling import snapshots
from conductor.core.scheduling.snapshots import Unreadable
from conductor.transactions import database_now, write_tx

log = logging.getLogger(__name__)

ALIAS = "default"
# A copy serves until so many rows differ, times the root of their number: then the sum of both is about least.
ROWS_PER_ROOT = 4
LONGEST_SECONDS = 6 * 3600.0  # well within the shortest retention of a copy, which is a day


@dataclass(frozen=True, slots=True)
class Kept:
    """How a decision finds again what it saw. Without a `digest` the rows are all there is of them."""

    digest: str = ""
    rows: bytes | None = None


@dataclass(frozen=True)
class Seen:
    """The hosts that a decision saw. `is_partial`: those that it names, of a fleet too large to keep whole."""

    table: HostTable
    is_partial: bool


@dataclass(frozen=True)
class _Copy:
    digest: str
    states: Sequence[HostState]
    epoch: str
    made_at: float


class SnapshotStore:
    """One per process; safe for threads. It remembers the copy that it made last."""

    def __init__(self) -> None:
        self._copy: _Copy | None = None

    def keep(self, table: HostTable, named: Iterable[str], *, epoch: str) -> Kept:
        """Store the table, or of a large fleet the `named` hosts. Outside of the decision's transaction.

        `epoch` tells databases apart. A table that cannot be written down is not kept: the decision goes on.
        """
        try:
            if len(table) > settings.NOVELLA_SNAPSHOT_HOSTS:
                return Kept(rows=snapshots.pack(table.states, table.rows_of(set(named))))
            copy = self._copy
            rows = _rows_beyond(copy, table.states, epoch) if copy else None
            if copy is None or rows is None:  # two threads may both make one: equal ones are stored once
                self._copy = copy = _copied(table.states, epoch)
                rows = []
            return Kept(copy.digest, snapshots.pack(table.states, rows) if rows else None)
        except (TypeError, ValueError):  # a value of a third party's plugin or driver
            log.exception("hosts not kept with the decision: hosts=%d", len(table))
            return Kept()


def _rows_beyond(copy: _Copy, states: Sequence[HostState], epoch: str) -> list[int] | None:
    """The rows that differ from the copy; None where a new one is due."""
    if copy.epoch != epoch or time.monotonic() - copy.made_at > LONGEST_SECONDS:
        return None
    return snapshots.changed_rows(copy.states, states, int(ROWS_PER_ROOT * math.sqrt(len(states))))


def seen(row: SchedulingDecision) -> Seen:
    """The hosts that a decision saw. Raises NotFound when they were not kept, or are not kept any more."""
    changes = _unpacked(bytes(row.snapshot_rows), row) if row.snapshot_rows else None
    age = float(row.summary.get("snapshot_age_seconds", 0.0))
    if not row.snapshot_digest:
        if changes is None:
            raise NotFound(f"What decision {row.uuid} saw of the hosts was not kept.")
        return Seen(HostTable.from_states(changes.states, age_seconds=age), is_partial=True)
    copy = HostSnapshot.objects.filter(digest=row.snapshot_digest).first()
    if copy is None:
        days = settings.NOVELLA_KEEP_SNAPSHOTS_DAYS
        raise NotFound(f"What decision {row.uuid} saw of the hosts is not kept any more: it is for {days} days.")
    states = list(_unpacked(bytes(copy.content), row).states)
    if changes is not None:
        for index, state in zip(changes.rows, changes.states, strict=True):
            states[index] = state
    return Seen(HostTable.from_states(states, age_seconds=age), is_partial=False)


def _unpacked(content: bytes, row: SchedulingDecision) -> snapshots.Packed:
    try:
        return snapshots.unpack(content)
    except Unreadable as error:
        raise NotFound(f"What decision {row.uuid} saw of the hosts cannot be read: {error}.") from None


def _copied(states: Sequence[HostState], epoch: str) -> _Copy:
    """All hosts, stored; equal ones are there once."""
    frozen = tuple(states)  # those of a table at work change in place
    content = snapshots.pack(frozen)
    digest = hashlib.sha256(content).hexdigest()
    with write_tx(ALIAS):
        HostSnapshot.objects.update_or_create(
            digest=digest,
            defaults={"created_at": database_now()},  # needed again from now on
            create_defaults={"num_hosts": len(frozen), "content": content, "created_at": database_now()},
        )
    return _Copy(digest, frozen, epoch, time.monotonic())


snapshot_store = SnapshotStore()
