"""What a host's driver did since the last report: its calls, its errors and its own log lines, for the catalogue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from conductor.compute.failures import LONGEST_MESSAGE, hide
from conductor.core.driver_doings import DRIVER, MOST_CALLS
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, MigrationAborted, NovellaError
from conductor.plugins.notes import Note, notes

# What somebody asked for was at fault, or nobody was.
NOT_ITS_FAULT = (BuildAborted, GuestMissing, MigrationAborted)


class DriverAccount:
    """One per host. What is told is not told again; what could not be told is given back."""

    def __init__(self, driver: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = (DRIVER, driver)
        self._clock = clock
        self._gate = threading.Lock()
        self._milliseconds: list[float] = []
        self._faults = 0

    @contextmanager
    def call(self, doing: str, secrets: Iterable[str] = ()) -> Iterator[None]:
        """Note how long it took, and what it raised."""
        began = self._clock()
        try:
            yield
        except Exception as error:
            self.fault(doing, error, secrets)
            raise
        finally:
            with self._gate:
                if len(self._milliseconds) < MOST_CALLS:
                    self._milliseconds.append(round((self._clock() - began) * 1000, 3))

    def fault(self, doing: str, error: BaseException, secrets: Iterable[str] = ()) -> None:
        """One of the driver's own; of a foreign error the kind is told, and where it was raised."""
        is_foreign = not isinstance(error, NovellaError)
        if isinstance(error, NOT_ITS_FAULT) or not (is_foreign or isinstance(error, DriverError)):
            return
        with self._gate:
            self._faults += 1
        text = f"{type(error).__name__} in {doing}"
        if isinstance(error, DriverError):
            text = f"{text}: {hide(error.message, secrets)[:LONGEST_MESSAGE]}"
        notes.fault(self._key, text, error)

    def take(self) -> dict[str, Any]:
        """As reports tell it; empty where there is nothing."""
        noted = notes.take_of(self._key)
        with self._gate:
            milliseconds, self._milliseconds = self._milliseconds, []
            faults, self._faults = self._faults, 0
        if not (noted or milliseconds or faults):
            return {}
        return {"milliseconds": milliseconds, "faults": faults, "notes": [asdict(one) for one in noted]}

    def give_back(self, taken: Mapping[str, Any]) -> None:
        """It could not be told."""
        for one in taken.get("notes", ()):
            notes.add(self._key, Note(**one))
        with self._gate:
            self._milliseconds = [*taken.get("milliseconds", ()), *self._milliseconds][:MOST_CALLS]
            self._faults += taken.get("faults", 0)
