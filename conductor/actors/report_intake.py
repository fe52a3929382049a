"""Intake of host reports: gathers them, and records them in sets on a thread of its own.

So many reports cost few transactions, and a storm of them delays neither the workers that run workflows nor each other.
A report is only a notification: one that is lost here, or replaced by a newer one of its host, is followed by the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from django.db import close_old_connections

from conductor.actors.error_logging import ErrorLogger
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.report_round import HostMessage
from conductor.core.errors import NotFound
from conductor.rpc import envelope, keys, trust
from conductor.rpc.codec import encode
from conductor.rpc.messages import ConsolesOffered, HostReported
from conductor.services.consoles import connections
from conductor.services.fleet import report_sets, reports
from conductor.services.hosts import keys as host_keys
from conductor.services.plugins import driver_reports

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.1  # after a set, until the next one
MOST_AT_ONCE = 256  # reports in one transaction, or comparison
COMPARE_SECONDS = 5.0  # between two sets of full comparisons
SINGLE_THREADS = 4  # for reports with changes
STOP_SECONDS = 5.0


def record(cell: str, message: HostReported) -> None:
    """Record one report, and send the host what it lacks."""
    _settle(message, is_stored=reports.record(cell, message))


def _settle(message: HostReported, *, is_stored: bool) -> None:
    if is_stored:
        driver_reports.store(message)
    host_keys.settle(message, is_stored=is_stored)


def _settle_or_log(message: HostReported, *, is_stored: bool) -> None:
    try:
        _settle(message, is_stored=is_stored)
    except Exception:
        log.exception("a report was not answered: host=%s", message.host)


Key = tuple[str, str, int]  # cell and host, and the number of a report that no later one replaces


def _key(cell: str, message: HostReported) -> Key:
    return cell, message.host, message.report_number if message.driver_statistics else 0


class ReportIntake:
    """Gathers reports of all cells that this process serves; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Key, HostReported] = {}
        self._due: defaultdict[str, dict[str, HostReported]] = defaultdict(dict)  # full comparisons, by cell and host
        self._consoles: defaultdict[str, dict[str, ConsolesOffered]] = defaultdict(dict)  # by cell and host
        self._with_changes: dict[Key, HostReported] = {}
        self._singly = KeyedExecutor("host-report", SINGLE_THREADS)
        self._compared_at = 0.0
        self._complaints = ErrorLogger()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def has_reports(self) -> bool:
        """Return whether reports wait to be recorded."""
        return bool(self._waiting or self._with_changes)

    def start(self) -> None:
        self._singly = KeyedExecutor("host-report", SINGLE_THREADS)
        self._thread = threading.Thread(target=self._run, name="host-reports", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Record no more; reports that wait are lost."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join(STOP_SECONDS)
            self._singly.stop(STOP_SECONDS)

    def put(self, cell: str, message: HostReported) -> None:
        """Add a report that was authorized. It replaces an earlier one of the host without statistics of the driver."""
        with self._changed:
            self._waiting[_key(cell, message)] = message
            self._changed.notify()

    def put_own(self, messages: Iterable[tuple[str, HostMessage]]) -> None:
        """Add messages of hosts of this process, with their cells: they pass no broker.

        Refused ones are counted as those that came from a broker.
        """
        for cell, message in messages:
            try:
                trust.require_own(keys.signer_of_host(message.host), cell, encode(message))
            except envelope.Refused as refused:
                trust.report(refused)
            except NotFound as error:
                log.error("report not sent: %s", error.message)
            else:
                if isinstance(message, HostReported):
                    self.put(cell, message)
                else:
                    self._put_consoles(cell, message)

    def _put_consoles(self, cell: str, message: ConsolesOffered) -> None:
        with self._changed:
            self._consoles[cell][message.host] = message

    def record_waiting(self) -> None:
        """Record the reports that wait. Never raises: what the database does not take now follows later."""
        for cell, messages in self._take_sets():
            with self._complaints.about(f"reports of hosts in {cell}"):
                self._record(cell, messages)
        self._compare_if_due()

    def _run(self) -> None:
        while self._wait():
            with self._complaints.about("reports of hosts"):  # a thread that ended here would be missing for ever
                self.record_waiting()
            close_old_connections()
            time.sleep(GATHER_SECONDS)

    def _wait(self) -> bool:
        """Wait for reports; False once stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self.is_running)
            return self.is_running

    def _take_sets(self) -> list[tuple[str, list[HostReported]]]:
        """Return the reports that wait, by cell, at most one of a host in each set."""
        with self._changed:
            waiting, self._waiting = self._waiting, {}
        found: defaultdict[tuple[str, int], list[HostReported]] = defaultdict(list)
        seen: defaultdict[tuple[str, str], int] = defaultdict(int)
        for (cell, host, _), message in sorted(waiting.items(), key=lambda item: item[1].report_number):
            found[cell, seen[cell, host]].append(message)
            seen[cell, host] += 1
        return [
            (cell, messages[start : start + MOST_AT_ONCE])
            for (cell, _), messages in sorted(found.items(), key=lambda item: item[0])
            for start in range(0, len(messages), MOST_AT_ONCE)
        ]

    def _record(self, cell: str, messages: Sequence[HostReported]) -> None:
        recorded = report_sets.record_all(cell, messages)
        self._due[cell].update({message.host: message for message in recorded.due})
        self._queue_singly(cell, recorded.others)
        self._settle_all([*recorded.stored, *recorded.due])

    def _queue_singly(self, cell: str, messages: Iterable[HostReported]) -> None:
        """Have threads record reports with changes, in the order of the hosts' first ones that wait."""
        for message in messages:
            key = _key(cell, message)
            with self._changed:
                is_new = key not in self._with_changes
                self._with_changes[key] = message
            if is_new:
                self._singly.submit((cell, message.host), "report", partial(self._record_singly, key))

    def _record_singly(self, key: Key) -> None:
        with self._changed:
            message = self._with_changes.pop(key)
        cell = key[0]
        with self._complaints.about(f"reports of hosts with changes in {cell}"):
            is_stored = report_sets.record_or_log(cell, message)
            _settle_or_log(message, is_stored=is_stored)
        close_old_connections()

    def _compare_if_due(self) -> None:
        if time.monotonic() - self._compared_at < COMPARE_SECONDS:
            return
        self._compared_at = time.monotonic()
        with self._changed:
            consoles, self._consoles = self._consoles, defaultdict(dict)
        for cell, announced in consoles.items():
            with self._complaints.about(f"consoles of hosts in {cell}"):
                connections.record_all(cell, list(announced.values()))
        due, self._due = self._due, defaultdict(dict)
        for cell, by_host in due.items():
            messages = list(by_host.values())
            for start in range(0, len(messages), MOST_AT_ONCE):
                with self._complaints.about(f"comparison of hosts in {cell}"):
                    compared = report_sets.compare_all(cell, messages[start : start + MOST_AT_ONCE])
                    self._queue_singly(cell, compared.others)

    def _settle_all(self, messages: Iterable[HostReported]) -> None:
        for message in messages:
            _settle_or_log(message, is_stored=True)


INTAKE = ReportIntake()
