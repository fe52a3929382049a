"""Leases of periodic work that one process does for all, such as pruning a journal or the comparison.

A row per database and kind of work says which process has it now and when it was last done. The row's lease elects one
of all processes; the time of the last end keeps the others from doing it again at once. A lease is as short as that of
a run, is renewed by the same heartbeat while the work goes on, and ends with its holder: the death watch ends the
leases of a process that died, and a clean end gives them back.
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

from conductor.journal.models import Duty
from conductor.transactions import database_now, write_tx

log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another process has the work by now: this one must not write any more."""


class PeriodicLease:
    """One process's lease of one kind of work in one database."""

    def __init__(self, alias: str, name: str, owner: str) -> None:
        self.alias = alias
        self.name = name
        self.owner = owner
        self.is_done = True  # set it to False before the end where the work is to be begun again soon

    def renew(self) -> bool:
        """Renew the lease; False when another process has the work by now, and this one must stop."""
        return renew(self.alias, self.owner, [self.name]) == 1

    def require(self) -> None:
        """Renew the lease before a write. Raises LeaseLost when another process has the work by now."""
        if not self.renew():
            raise LeaseLost(f"{self.name} in {self.alias}")


_held: set[PeriodicLease] = set()
_held_lock = threading.Lock()


@contextmanager
def hold(alias: str, name: str, owner: str, *, every_seconds: float) -> Iterator[PeriodicLease | None]:
    """Hold the lease of `name` while inside; None where the work is another process's now, or is not due.

    It is due when it was not done within the last `every_seconds`. An error gives the work back as not done, and
    LeaseLost ends the block without an error. A process that dies inside writes nothing: its lease runs out.
    """
    if not _take(alias, name, owner, every_seconds):
        yield None
        return
    lease = PeriodicLease(alias, name, owner)
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
    """Renew what this process holds: one statement per database and owner."""
    at_work: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with _held_lock:
        for lease in _held:
            at_work[lease.alias, lease.owner].append(lease.name)
    for (alias, owner), names in at_work.items():
        try:
            renew(alias, owner, names)
        except (OperationalError, InterfaceError):  # the next heartbeat tries again, or the lease runs out
            log.warning("leases of periodic work not renewed: alias=%s", alias, exc_info=True)


def renew(alias: str, owner: str, names: list[str]) -> int:
    """Renew those of these leases that `owner` has still; how many."""
    with write_tx(alias):
        mine = Duty.objects.using(alias).filter(name__in=names, owner=owner)
        return mine.update(lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS))


def end(alias: str, whose: Q) -> int:
    """End leases in `alias` before they run out: the next process that asks may have the work; how many."""
    ended = Duty.objects.using(alias).exclude(owner="").filter(whose)
    if not ended.exists():  # most often: no write then
        return 0
    with write_tx(alias):
        return ended.update(owner="", lease_expires_at=None)


def _take(alias: str, name: str, owner: str, every_seconds: float) -> bool:
    rows = Duty.objects.using(alias)
    if not rows.filter(name=name).exists():
        with write_tx(alias):
            rows.get_or_create(name=name)
    free = Q(owner="") | Q(owner=owner) | Q(lease_expires_at__lt=database_now())
    due = Q(done_at__isnull=True) | Q(done_at__lte=database_now(-every_seconds))
    wanted = rows.filter(free, due, name=name)
    if not wanted.exists():  # the usual answer, which needs no write
        return False
    with write_tx(alias):
        return bool(wanted.update(owner=owner, lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS)))


def _give_back(lease: PeriodicLease, *, is_done: bool) -> None:
    values = {"owner": "", "lease_expires_at": None, **({"done_at": database_now()} if is_done else {})}
    with write_tx(lease.alias):
        Duty.objects.using(lease.alias).filter(name=lease.name, owner=lease.owner).update(**values)
