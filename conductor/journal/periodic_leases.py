"""Leases of periodic work that one process does for all, such as pruning a journal or reconciliation.

A row per database and kind of work has the current process and when the work was last done. The row's lease elects one
process; the time of the last end keeps the others from repeating the work at once. A lease is as short as that of a
run, is renewed by the same heartbeat while the work goes on, and ends with its holder: the death watch expires the
leases of a process that died, and a clean end releases them.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q

from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import PeriodicLease

log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another process has the lease by now: this one must stop writing."""


class HeldLease:
    """One process's lease of one kind of work in one database, while it holds it."""

    def __init__(self, alias: str, name: str, owner: str) -> None:
        self.alias = alias
        self.name = name
        self.owner = owner
        self.is_done = True  # set to False before the end where the work is to be done again soon

    def renew(self) -> bool:
        """Renew the lease. False when another process has it by now, and this one must stop."""
        return renew(self.alias, self.owner, [self.name]) == 1

    def record_done(self) -> None:
        """Record that the work was done now, and keep the lease for more of it."""
        with write_tx(self.alias):
            PeriodicLease.objects.using(self.alias).filter(name=self.name, owner=self.owner).update(
                done_at=database_now()
            )

    def require(self) -> None:
        """Renew the lease before a write. Raises LeaseLost when another process has it by now."""
        if not self.renew():
            raise LeaseLost(f"{self.name} in {self.alias}")


_held: set[HeldLease] = set()
_held_lock = threading.Lock()


@contextmanager
def hold(alias: str, name: str, owner: str, *, every_seconds: float) -> Iterator[HeldLease | None]:
    """Hold the lease of `name` for the block. None where another process has it, or the work is not due.

    It is due when it was not done within the last `every_seconds`. An error releases the lease with the work not done,
    and LeaseLost ends the block without an error. A process that dies inside writes nothing: its lease expires.
    """
    if not _take(alias, name, owner, every_seconds):
        yield None
        return
    lease = HeldLease(alias, name, owner)
    with _held_lock:
        _held.add(lease)
    try:
        yield lease
    except LeaseLost:
        log.warning("periodic work stopped, another process has it now: work=%s alias=%s", name, alias)
    except Exception:
        _give_back(lease, is_done=False)
        raise
    else:
        _give_back(lease, is_done=lease.is_done)
    finally:
        with _held_lock:
            _held.discard(lease)


def renew_all() -> None:
    """Renew the leases of this process: one statement per database and owner."""
    at_work: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with _held_lock:
        for lease in _held:
            at_work[lease.alias, lease.owner].append(lease.name)
    for (alias, owner), names in at_work.items():
        try:
            renew(alias, owner, names)
        except (OperationalError, InterfaceError):  # the next heartbeat tries again, or the lease expires
            log.warning("leases of periodic work not renewed: alias=%s", alias, exc_info=True)


def renew(alias: str, owner: str, names: list[str]) -> int:
    """Renew those of these leases that `owner` still has. Return how many."""
    with write_tx(alias):
        mine = PeriodicLease.objects.using(alias).filter(name__in=names, owner=owner)
        return mine.update(lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS))


def end(alias: str, whose: Q) -> int:
    """End leases in `alias` before they expire, so that the next process can take them. Return how many."""
    ended = PeriodicLease.objects.using(alias).exclude(owner="").filter(whose)
    if not ended.exists():  # the typical case: no write then
        return 0
    with write_tx(alias):
        return ended.update(owner="", lease_expires_at=None)


def _take(alias: str, name: str, owner: str, every_seconds: float) -> bool:
    rows = PeriodicLease.objects.using(alias)
    if not rows.filter(name=name).exists():
        with write_tx(alias):
            rows.get_or_create(name=name)
    free = Q(owner="") | Q(owner=owner) | Q(lease_expires_at__lt=database_now())
    due = Q(done_at__isnull=True) | Q(done_at__lte=database_now(-every_seconds))
    wanted = rows.filter(free, due, name=name)
    if not wanted.exists():  # the typical case, which needs no write
        return False
    with write_tx(alias):
        return bool(wanted.update(owner=owner, lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS)))


def _give_back(lease: HeldLease, *, is_done: bool) -> None:
    values = {"owner": "", "lease_expires_at": None, **({"done_at": database_now()} if is_done else {})}
    with write_tx(lease.alias):
        PeriodicLease.objects.using(lease.alias).filter(name=lease.name, owner=lease.owner).update(**values)
