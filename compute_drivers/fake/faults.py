"""Fault injection for the fake driver: failures, delays and hangs of driver methods, by rules."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from compute_drivers.options import option, parse
from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, Invalid
from conductor.core.states import PowerState

ERRORS: Mapping[str, type[DriverError]] = {
    "DriverError": DriverError,
    "BuildAborted": BuildAborted,
    "GuestMissing": GuestMissing,
}
# Every driver method can fail, except those that start and stop the driver.
METHODS = tuple(
    name
    for name, value in vars(ComputeDriver).items()
    if callable(value) and not name.startswith("_") and name not in ("start", "stop")
)
# Events that guests can undergo by themselves, and their power state afterwards.
EVENTS: Mapping[str, PowerState] = {"shutdown": PowerState.SHUTDOWN, "crash": PowerState.CRASHED}
HANG_TICK_SECONDS = 0.1
MAX_READ_ATTEMPTS = 10
READ_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class SimulatedFault:
    """One rule. It delays every call that it matches, and fails the first `fail_times` of them.

    Attributes:
        hangs: Hold every call until it is aborted, a newer command makes it stale, or the rule is removed.
        after_effect: Let the call do its work first.
        match_name, match_host: Regular expressions, searched in the guest's and the host's name.
    """

    fail_times: int = option(0, least=0)
    error: str = option("DriverError", choices=tuple(ERRORS))
    message: str = option("The simulated hypervisor fails as configured.")
    delay_seconds: float = option(0.0, least=0.0)
    hangs: bool = option(False)
    after_effect: bool = option(False)
    match_name: str = option("")
    match_host: str = option("")

    def matches(self, host: str, name: str) -> bool:
        return bool(re.search(self.match_name, name) and re.search(self.match_host, host))


class Faults:
    """The rules of one host: its own, and those of a file that is read again at each call.

    A second file beside it counts the failures of all hosts and processes together, so that a fault happens
    `fail_times` times in all. Writing the rules again resets the counts.
    """

    def __init__(self, host: str, rules: Mapping[str, Any], file: Path | None) -> None:
        self._host = host
        self._rules = _parsed(rules)
        self._file = file
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def meet(
        self, method: str, name: str = "", sleep: Callable[[float], None] = time.sleep, *, is_after: bool = False
    ) -> None:
        """Delay, hang or fail, where a rule says so. Raises the rule's error, or what `sleep` raises."""
        for key, fault, is_own in self._all(method):
            if fault.after_effect != is_after or not fault.matches(self._host, name):
                continue
            if fault.delay_seconds:
                sleep(fault.delay_seconds)
            if fault.hangs:
                self._hang(method, fault, sleep)
            if fault.fail_times and self._is_next(key, fault.fail_times, is_own):
                raise ERRORS[fault.error](fault.message)

    def happens(self, event: str, name: str) -> bool:
        """Return whether `event` (of EVENTS) happens to the guest now; it happens to `fail_times` guests."""
        return any(
            fault.matches(self._host, name) and self._is_next(key, fault.fail_times, is_own)
            for key, fault, is_own in self._all(event)
        )

    def has_any(self, methods: Iterable[str]) -> bool:
        """Return whether there is a rule for one of `methods`."""
        _, rules = self._from_file()
        return any(method in self._rules or method in rules for method in methods)

    def _hang(self, method: str, fault: SimulatedFault, sleep: Callable[[float], None]) -> None:
        while any(fault == known for _, known, _ in self._all(method)):
            sleep(HANG_TICK_SECONDS)

    def _all(self, method: str) -> Iterator[tuple[str, SimulatedFault, bool]]:
        for index, fault in enumerate(self._rules.get(method, ())):
            yield f"{method}:{index}", fault, True
        version, rules = self._from_file()
        for index, fault in enumerate(rules.get(method, ())):
            yield f"{version}:{method}:{index}", fault, False

    def _from_file(self) -> tuple[int, Mapping[str, tuple[SimulatedFault, ...]]]:
        if self._file is None:
            return 0, {}
        for _ in range(MAX_READ_ATTEMPTS):
            try:
                with self._file.open() as file:
                    version = os.fstat(file.fileno()).st_mtime_ns
                    return version, _parsed(json.load(file))
            except FileNotFoundError:
                return 0, {}
            except ValueError:  # being written
                time.sleep(READ_PAUSE_SECONDS)
            except Invalid as error:
                raise DriverError(f"The faults file is wrong: {error.message}") from None
        raise DriverError("The faults file is not JSON.")

    def _is_next(self, key: str, fail_times: int, is_own: bool) -> bool:
        """Count the call; return whether it is one of those that fail."""
        if is_own:
            with self._lock:
                self._counts[key] = self._counts.get(key, 0) + 1
                return self._counts[key] <= fail_times
        with self._shared_counts() as file:
            counts = _loaded(file)
            if counts.get(key, 0) >= fail_times:
                return False
            version = key.partition(":")[0]
            kept = {known: count for known, count in counts.items() if known.partition(":")[0] == version}
            kept[key] = kept.get(key, 0) + 1
            file.seek(0)
            file.truncate()
            json.dump(kept, file)
            return True

    @contextmanager
    def _shared_counts(self) -> Iterator[IO[str]]:
        assert self._file is not None
        with self._file.with_name(f"{self._file.name}.counts").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _loaded(file: IO[str]) -> dict[str, int]:
    file.seek(0)
    try:
        counts = json.load(file)
    except ValueError:  # new, or its writer was killed
        return {}
    return counts if isinstance(counts, dict) else {}


def _parsed(rules: Any) -> dict[str, tuple[SimulatedFault, ...]]:
    """Parse {"spawn": rule or list of rules, …}. Raises Invalid."""
    if not isinstance(rules, Mapping):
        raise Invalid("Faults are a mapping of calls to rules.")
    for method in rules:
        if method not in (*METHODS, *EVENTS):
            raise Invalid(f"Faults: there is no call {method!r}. There are: {', '.join((*METHODS, *EVENTS))}.")
    return {method: tuple(_rules_of(method, given)) for method, given in rules.items()}


def _rules_of(method: str, given: Any) -> Iterable[SimulatedFault]:
    for rule in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(rule, Mapping):
            raise Invalid(f"Faults: a rule of {method} is a mapping, not {rule!r}.")
        fault = parse(SimulatedFault, rule, f"fake.faults.{method}")
        for pattern in (fault.match_name, fault.match_host):
            try:
                re.compile(pattern)
            except re.error:
                raise Invalid(f"Faults: {pattern!r} is not a regular expression.") from None
        yield fault
