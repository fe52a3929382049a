"""Periodic work that one conductor does for all: its holder dies, sleeps past its lease, or takes long.

The rules need no knowledge of how a lease is kept: what a dead process had is taken up within the time of one lease,
two processes never write at once, and a process that is at work keeps the work.
"""

from __future__ import annotations

import random
from datetime import timedelta

from django.conf import settings

from conductor.journal import periodic_leases
from conductor.journal.models import PeriodicLease
from conductor.journal.periodic_leases import HeldLease
from conductor.workflows.engine import recovery
from tests.chaos.parts import CELL, Killed

WORK = "work of the campaign"
PARTS = 3


class Round:
    """One pass of the work, with the fault of its first holder."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"round {seed}")
        self._lives = 0
        self._writer = ""
        self.wrong: list[str] = []

    def play(self) -> str:
        """Return the holder's fault; errors are in `wrong`."""
        struck = self._random.choice(("kill", "freeze", "take long"))
        try:
            is_begun = self._work(struck, at=self._random.randrange(PARTS))
        except Killed:
            is_begun = True
        if not is_begun:
            self.wrong.append("periodic work that is due was not begun")
        return f"{struck} the holder of the periodic work"

    def _work(self, struck: str = "", at: int = 0) -> bool:
        """Return whether a process that has just started gets the work; it writes in parts."""
        self._lives += 1
        me = f"{self._lives:08x}"
        with periodic_leases.hold(CELL, WORK, f"rack:1:{me}", every_seconds=0.0) as lease:
            if lease is None:
                return False
            self._writer = me
            for part in range(PARTS):
                if struck and part == at:
                    self._meet(struck, me)
                self._write(lease, me)
        return True

    def _write(self, lease: HeldLease, me: str) -> None:
        lease.require()
        if self._writer != me:
            self.wrong.append(f"{me} wrote for the periodic work that {self._writer} had by then")

    def _meet(self, struck: str, me: str) -> None:
        if struck == "take long":
            for _ in range(3):
                _pass_time(settings.NOVELLA_LEASE_SECONDS * 0.7)
                periodic_leases.renew_all()
            if self._work():
                self.wrong.append(f"periodic work was begun while {me} was at it")
            return
        if struck == "kill" and self._random.random() < 0.5:
            recovery.take_over_from(CELL, me)  # its death is noticed
        else:
            _pass_time(settings.NOVELLA_LEASE_SECONDS + 1.0)
        if not self._work():
            self.wrong.append(f"periodic work waits for {me}, which is gone, for longer than a lease")
        if struck == "kill":
            raise Killed


def _pass_time(seconds: float) -> None:
    for row in PeriodicLease.objects.using(CELL).exclude(lease_expires_at=None):
        expires_at = row.lease_expires_at - timedelta(seconds=seconds)
        PeriodicLease.objects.using(CELL).filter(pk=row.pk).update(lease_expires_at=expires_at)
