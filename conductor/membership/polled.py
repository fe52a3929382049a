"""Memberships that poll a group service, and their thread."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar

from conductor.core.membership import Member, OnGone

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
# After an outage of the group: a member that vanishes now may only have lost its session, and come back soon. A session
# lasts four to six seconds (servers round up to their ticks), and a busy process takes as long to be back.
QUIET_SECONDS = 10.0
STOP_SECONDS = 5.0

# Return the live members; None while that is unknown.
Lives = Callable[[], set[str] | None]


class PolledMembership(ABC):
    """Joins a group, watches it, and joins again after a failure. Logs the beginning and the end of each outage once.

    Known members are forgotten with each join, as the loss of a whole group is no death.
    """

    poll_seconds: ClassVar[float]
    failures: ClassVar[tuple[type[Exception], ...]]  # exceptions of an unreachable group

    def __init__(self, label: str) -> None:
        self._label = label
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_complaining = False

    @abstractmethod
    def entered(self, me: Member) -> AbstractContextManager[Lives]:
        """Join the group for the block. The function that it yields returns the live members. Raises `failures`."""

    def join(self, me: Member, on_gone: OnGone) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(me, on_gone), name=f"death-watch-{self._label}", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self, me: Member, on_gone: OnGone) -> None:
        while not self._stopped.is_set():
            try:
                with self.entered(me) as lives:
                    self._watch(lives, me, on_gone)
            except self.failures as error:
                self._complain((str(error).splitlines() or [""])[0] or type(error).__name__)
            self._stopped.wait(RETRY_SECONDS)

    def _watch(self, lives: Lives, me: Member, on_gone: OnGone) -> None:
        """Watch until this process is no longer a member. Then it must join again."""
        seen: set[str] = set()
        quiet_until = 0.0
        while not self._stopped.wait(self.poll_seconds):
            alive = lives()
            if alive is None:
                quiet_until = time.monotonic() + QUIET_SECONDS
                self._complain("the connection is lost")
                continue
            if me.life in seen and me.life not in alive:
                return
            for life in seen - alive if time.monotonic() > quiet_until else ():
                on_gone(life)
            seen = alive
            self._recover()

    def _complain(self, reason: str) -> None:
        if not self._is_complaining:
            log.warning("deaths are noticed by leases only, for now: group=%s: %s", self._label, reason)
        self._is_complaining = True

    def _recover(self) -> None:
        if self._is_complaining:
            log.warning("deaths are noticed at once again: group=%s", self._label)
        self._is_complaining = False
