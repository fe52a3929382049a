"""What a simulated hypervisor was told to do wrong: fail so many times, be late or hang, at calls of a name."""

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
# Every call of a driver can be told to fail, but for those that begin and end it.
VERBS = tuple(
    name
    for name, value in vars(ComputeDriver).items()
    if callable(value) and not name.startswith("_") and name not in ("start", "stop")
)
# What guests can be told to do by themselves, and the power state that they are in afterwards.
EVENTS: Mapping[str, PowerState] = {"shutdown": PowerState.SHUTDOWN, "crash": PowerState.CRASHED}
HANG_TICK_SECONDS = 0.1
READ_TRIES = 10
READ_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One rule. It fails the first `fail_times` calls that it matches, and delays every one.

    `hangs` holds every one until it is aborted, nobody wants it any more, or the rule is gone. `after_effect` lets the
    call do its work first. `match_name` and `match_host` are regular expressions, found anywhere in the guest's name
    and the host's.
    """

    fail_times: int = option(0, least=0)
    error: str = option("DriverError", choices=tuple(ERRORS))
    message: str = option("The simulated hypervisor was told to fail.")
    delay_seconds: float = option(0.0, least=0.0)
    hangs: bool = option(False)
    after_effect: bool = option(False)
    match_name: str = option("")
    match_host: str = option("")

    def matches(self, host: str, name: str) -> bool:
        return bool(re.search(self.match_name, name) and re.search(self.match_host, host))


class Faults:
    """The rules of one host: its own, and those of a file that is read anew at each call.

    The file's count is kept in a second file beside it: however many hosts and processes share the rules, a fault
    happens `fail_times` times in all. Writing the file again begins to count again.
    """

    def __init__(self, host: str, rules: Mapping[str, Any], file: Path | None) -> None:
        self._host = host
        self._rules = _parsed(rules)
        self._file = file
        self._gate = threading.Lock()
        self._counts: dict[str, int] = {}

    def meet(
        self, verb: str, name: str = "", pause: Callable[[float], None] = time.sleep, *, is_after: bool = False
    ) -> None:
        """Be late, hang or fail, where a rule says so. Raises the rule's error, or what `pause` raises."""
        for key, fault, is_own in self._all(verb):
            if fault.after_effect != is_after or not fault.matches(self._host, name):
                continue
            if fault.delay_seconds:
                pause(fault.delay_seconds)
            if fault.hangs:
                self._hang(verb, fault, pause)
            if fault.fail_times and self._is_next(key, fault.fail_times, is_own):
                raise ERRORS[fault.error](fault.message)

    def happens(self, event: str, name: str) -> bool:
        """Whether a guest was told to do `event` (of EVENTS) now; `fail_times` guests do."""
        return any(
            fault.matches(self._host, name) and self._is_next(key, fault.fail_times, is_own)
            for key, fault, is_own in self._all(event)
        )

    def has(self, verb: str) -> bool:
        return any(True for _ in self._all(verb))

    def _hang(self, verb: str, fault: Fault, pause: Callable[[float], None]) -> None:
        while any(fault == known for _, known, _ in self._all(verb)):
            pause(HANG_TICK_SECONDS)

    def _all(self, verb: str) -> Iterator[tuple[str, Fault, bool]]:
        for index, fault in enumerate(self._rules.get(verb, ())):
            yield f"{verb}:{index}", fault, True
        stamp, rules = self._from_file()
        for index, fault in enumerate(rules.get(verb, ())):
            yield f"{stamp}:{verb}:{index}", fault, False

    def _from_file(self) -> tuple[int, Mapping[str, tuple[Fault, ...]]]:
        if self._file is None:
            return 0, {}
        for _ in range(READ_TRIES):
            try:
                with self._file.open() as file:
                    stamp = os.fstat(file.fileno()).st_mtime_ns
                    return stamp, _parsed(json.load(file))
            except FileNotFoundError:
                return 0, {}
            except ValueError:  # somebody is writing it just now
                time.sleep(READ_PAUSE_SECONDS)
            except Invalid as error:
                raise DriverError(f"The faults file is wrong: {error.message}") from None
        raise DriverError("The faults file is not JSON.")

    def _is_next(self, key: str, fail_times: int, is_own: bool) -> bool:
        """Is this one of the calls that fail? Counts it."""
        if is_own:
            with self._gate:
                self._counts[key] = self._counts.get(key, 0) + 1
                return self._counts[key] <= fail_times
        with self._shared_counts() as file:
            counts = _loaded(file)
            if counts.get(key, 0) >= fail_times:
                return False
            stamp = key.partition(":")[0]
            kept = {known: count for known, count in counts.items() if known.partition(":")[0] == stamp}
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


def _parsed(rules: Any) -> dict[str, tuple[Fault, ...]]:
    """{"spawn": rule or list of rules, …} as rules. Raises Invalid."""
    if not isinstance(rules, Mapping):
        raise Invalid("Faults are a mapping of calls to rules.")
    for verb in rules:
        if verb not in (*VERBS, *EVENTS):
            raise Invalid(f"Faults: there is no call {verb!r}. There are: {', '.join((*VERBS, *EVENTS))}.")
    return {verb: tuple(_rules_of(verb, given)) for verb, given in rules.items()}


def _rules_of(verb: str, given: Any) -> Iterable[Fault]:
    for rule in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(rule, Mapping):
            raise Invalid(f"Faults: a rule of {verb} is a mapping, not {rule!r}.")
        fault = parse(Fault, rule, f"fake.faults.{verb}")
        for pattern in (fault.match_name, fault.match_host):
            try:
                re.compile(pattern)
            except re.error:
                raise Invalid(f"Faults: {pattern!r} is not a regular expression.") from None
        yield fault
