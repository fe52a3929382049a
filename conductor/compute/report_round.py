"""Gathers the reports of an agent's hosts, and sends those of one round together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from conductor.rpc.messages import ConsolesOffered, HostReported

HostMessage = HostReported | ConsolesOffered
SendReports = Callable[[Sequence[tuple[str, HostMessage]]], None]  # each with its cell

MOST_REPORTS = 256  # in one message
LONGEST_WAIT_SECONDS = 0.25  # of a report, where the round takes longer


class ReportRound:
    """Reports that were not sent yet; thread-safe."""

    def __init__(self, send_reports: SendReports) -> None:
        self._send_reports = send_reports
        self._lock = threading.Lock()
        self._gathered: list[tuple[str, HostMessage]] = []
        self._since = 0.0

    def add(self, cell: str, report: HostMessage) -> None:
        """Add a report. It is sent at the end of the round, or when there are many."""
        with self._lock:
            if not self._gathered:
                self._since = time.monotonic()
            self._gathered.append((cell, report))
            is_full = len(self._gathered) >= MOST_REPORTS or time.monotonic() - self._since > LONGEST_WAIT_SECONDS
        if is_full:
            self.send()

    def send(self) -> None:
        """Send the gathered reports. Raises what `send_reports` raises. The reports are then lost, and the next ones
        follow.
        """
        with self._lock:
            reports, self._gathered = self._gathered, []
        if reports:
            self._send_reports(reports)
