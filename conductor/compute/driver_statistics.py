"""Collects durations, errors and log lines of a host's driver between two reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from conductor.compute.failures import MAX_MESSAGE_LENGTH, redact
from conductor.core.compute_driver import DRIVER, MAX_CALLS_PER_REPORT
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, MigrationAborted, NovellaError
from conductor.plugins.log import Note, notes

# Errors caused by the request or by an intended abort, not by the driver.
NOT_COUNTED = (BuildAborted, GuestMissing, MigrationAborted)


class DriverStatistics:
    """Statistics of one host's driver. Each value is reported once; unreported values are restored."""

    def __init__(self, driver: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = (DRIVER, driver)
        self._clock = clock
        self._lock = threading.Lock()
        self._milliseconds: list[float] = []
        self._faults = 0

    @contextmanager
    def measure(self, method: str, secrets: Iterable[str] = ()) -> Iterator[None]:
        """Record duration and error of a call; `secrets` are removed from the error's text."""
        began = self._clock()
        try:
            yield
        except Exception as error:
            self.record_error(method, error, secrets)
            raise
        finally:
            with self._lock:
                if len(self._milliseconds) < MAX_CALLS_PER_REPORT:
                    self._milliseconds.append(round((self._clock() - began) * 1000, 3))

    def record_error(self, method: str, error: BaseException, secrets: Iterable[str] = ()) -> None:
        """Record an error of the driver; of an unexpected one only its class and where it was raised."""
        is_unexpected = not isinstance(error, NovellaError)
        if isinstance(error, NOT_COUNTED) or not (is_unexpected or isinstance(error, DriverError)):
            return
        with self._lock:
            self._faults += 1
        text = f"{type(error).__name__} in {method}"
        if isinstance(error, DriverError):
            text = f"{text}: {redact(error.message, secrets)[:MAX_MESSAGE_LENGTH]}"
        notes.fault(self._key, text, error)

    def take(self) -> dict[str, Any]:
        """Return the statistics for a report and reset them; empty where there are none."""
        noted = notes.take_of(self._key)
        with self._lock:
            milliseconds, self._milliseconds = self._milliseconds, []
            faults, self._faults = self._faults, 0
        if not (noted or milliseconds or faults):
            return {}
        return {"milliseconds": milliseconds, "faults": faults, "notes": [asdict(one) for one in noted]}

    def restore(self, taken: Mapping[str, Any]) -> None:
        """Add statistics back whose report could not be sent."""
        for one in taken.get("notes", ()):
            notes.add(self._key, Note(**one))
        with self._lock:
            self._milliseconds = [*taken.get("milliseconds", ()), *self._milliseconds][:MAX_CALLS_PER_REPORT]
            self._faults += taken.get("faults", 0)
