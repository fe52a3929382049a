"""Reads the event log for what other processes appended: the net where no channel layer spans them.

commit here ──▶ ring ──┐
every 0.3 s ───────────┴─▶ what came after our place in the log ──▶ hub ──▶ sockets of this process
"""

from __future__ import annotations

import logging
import threading

from django.db import close_old_connections

from conductor.events import Announcement
from conductor.services import event_log
from portal.live import hub

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.3
LONGEST_LOOK_SECONDS = 5.0  # between looks at a log that fails
MOST_AT_ONCE = 1000


class Follower:
    """One thread per process, which begins with the first socket: before, there is nobody to tell."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None

    def hear(self, announcement: Announcement) -> None:
        """Something was committed in this process: look at once, as pages expect their own actions soon."""
        self._rung.set()

    def begin(self) -> None:
        with self._gate:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-follower", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        place: event_log.Cursor | None = None
        pause, is_failing = LOOK_SECONDS, False
        while True:
            try:
                place = event_log.here() if place is None else self._look(place)
                pause, is_failing = LOOK_SECONDS, False
            except Exception:
                if not is_failing:  # said once, not three times a second
                    log.exception("the event log cannot be read: pages show what is new a little later")
                pause, is_failing = min(pause * 2, LONGEST_LOOK_SECONDS), True
            finally:
                close_old_connections()
            self._rung.wait(pause)
            self._rung.clear()

    def _look(self, place: event_log.Cursor) -> event_log.Cursor:
        """Pass on what is new; the place after it."""
        found, place = event_log.after(place, MOST_AT_ONCE)
        for announcement in found:
            hub.pass_on(announcement)
        if len(found) >= MOST_AT_ONCE:
            self._rung.set()  # there may be more
        return place


def follow_the_log() -> None:
    """Have this process's sockets told from the log alone; calling it again changes nothing."""
    if hub.source is None:
        hub.source = Follower()
