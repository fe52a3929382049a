"""Groups that are asked who is there, again and again, and the thread that does so."""

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
# After an outage of the group: whoever vanishes now may have lost his place only, and is just coming back. A place is
# kept for four to six seconds (servers round up to their ticks), and a busy process takes as long to be back.
QUIET_SECONDS = 10.0
STOP_SECONDS = 5.0

# Who is there; None when that cannot be told just now.
Lives = Callable[[], set[str] | None]


class Polled(ABC):
    """Enters a group, watches it, and enters it again when that fails; says so once, and once that it is over.

    Who was seen is forgotten with each entry: when a whole group is lost, nobody has died.
    """

    poll_seconds: ClassVar[float]
    failures: ClassVar[tuple[type[Exception], ...]]  # what a group that cannot be reached raises

    def __init__(self, label: str) -> None:
        self._label = label
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_complaining = False

    @abstractmethod
    def entered(self, me: Member) -> AbstractContextManager[Lives]:
        """While inside, this process is seen in the group; the function given asks who is. Raises `failures`."""

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
        """Until this process is not seen any more: then it must enter again."""
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
