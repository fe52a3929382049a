"""Keeps account of plugins over many decisions: what they did, and when one must be shut out for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from conductor.api_db.models import PluginMetric
from conductor.core.plugin_choice import PluginKey
from conductor.core.scheduling import durations
from conductor.core.scheduling.watching import Use
from conductor.plugins.notes import notes
from conductor.scheduler import plugin_notes, plugin_quarantine
from conductor.transactions import database_time, write_tx

log = logging.getLogger(__name__)

ALIAS = "default"
FLUSH_SECONDS = 30.0
KEPT = timedelta(days=7)
LONGEST_NAME = 255
COUNTS = ("calls", "faults", "overruns", "rejected", "differed")


class _Busy(Exception):
    """Another scheduler is storing its accounts."""


@dataclass
class _Account:
    """What one plugin did since the last flush."""

    calls: int = 0
    faults: int = 0
    overruns: int = 0
    rejected: int = 0
    differed: int = 0
    milliseconds: list[float] = field(default_factory=list)

    def add(self, use: Use) -> None:
        self.calls += use.turns
        self.faults += use.faults
        self.overruns += use.overruns
        self.rejected += use.rejected
        self.milliseconds += use.milliseconds


class PluginWatch:
    """One per process. Notes are taken in memory; what is stored is stored rarely."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[PluginKey, _Account] = {}
        self._troubles: dict[PluginKey, deque[Use]] = {}
        self._flushed_at = time.monotonic()

    def note(self, uses: Iterable[Use], differed: Collection[PluginKey] = ()) -> None:
        """Take down what plugins did in a decision; shut out those that made trouble too often. Never raises.

        Those in the shadow that would have decided otherwise are in `differed`.
        """
        must_go = []
        with self._lock:
            for use in uses:
                account = self._accounts.setdefault(use.key, _Account())
                account.add(use)
                account.differed += use.key in differed
                if not use.is_trusted and use.turns and self._is_too_much(use):
                    must_go.append(use.key)
        try:
            for key in must_go:
                self._shut_out(key)
            self.flush_if_due()
        except (DatabaseError, InterfaceError):
            log.exception("plugins cannot be accounted for now")

    def flush_if_due(self) -> None:
        """Store what was noted, if that was not done lately."""
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Add what was noted to what is stored; what cannot be stored now is kept for the next time."""
        with self._lock:
            accounts, self._accounts = self._accounts, {}
            self._flushed_at = time.monotonic()
        plugin_notes.store()
        if not accounts:
            return
        try:
            _store(accounts)
        except _Busy:
            self._keep(accounts)
        except (DatabaseError, InterfaceError):
            self._keep(accounts)
            raise

    def forget(self) -> None:
        """Begin anew, with nothing noted and the next flush far off: for tests, which share a process."""
        with self._lock:
            self._accounts, self._troubles, self._flushed_at = {}, {}, time.monotonic()
        notes.take()

    def _keep(self, accounts: dict[PluginKey, _Account]) -> None:
        """For the next time, with what was noted meanwhile."""
        with self._lock:
            for key, account in accounts.items():
                kept = self._accounts.setdefault(key, _Account())
                for name in (*COUNTS, "milliseconds"):
                    setattr(kept, name, getattr(account, name) + getattr(kept, name))

    def _is_too_much(self, use: Use) -> bool:
        """Whether the plugin made trouble in so many of its last decisions that it has to go."""
        window = settings.NOVELLA_QUARANTINE_WINDOW
        last = self._troubles.get(use.key)
        if last is None or last.maxlen != window:
            self._troubles[use.key] = last = deque(last or (), maxlen=window)
        last.append(use)
        return 0 < settings.NOVELLA_QUARANTINE_AFTER <= sum(_is_trouble(one) for one in last)

    def _shut_out(self, key: PluginKey) -> None:
        with self._lock:
            last = self._troubles.pop(key, deque())  # whoever comes back begins with a clean sheet
        faults, overruns = sum(bool(one.faults) for one in last), sum(bool(one.overruns) for one in last)
        plugin_quarantine.begin(
            key,
            cause=plugin_quarantine.FAULTS if faults >= overruns else plugin_quarantine.OVERRUNS,
            reason=f"In its last {len(last)} decisions it failed in {faults} and took too long in {overruns}.",
            seconds=settings.NOVELLA_QUARANTINE_SECONDS,
        )


def _is_trouble(use: Use) -> bool:
    return bool(use.faults or use.overruns)


def _store(accounts: dict[PluginKey, _Account]) -> None:
    """In few statements, as all schedulers add to these rows. Raises _Busy where another is at it: no decision waits
    for accounts."""
    hour = database_time(ALIAS).replace(minute=0, second=0, microsecond=0)
    with write_tx(ALIAS):
        rows = _rows(hour)
        missing = [key for key in sorted({_stored(key) for key in accounts}) if key not in rows]
        if missing:
            new = [PluginMetric(kind=kind, name=name, hour=hour) for kind, name in missing]
            PluginMetric.objects.bulk_create(new, ignore_conflicts=True)
            rows = _rows(hour)
        for key, account in accounts.items():
            row = rows[_stored(key)]
            for name in COUNTS:
                setattr(row, name, getattr(row, name) + getattr(account, name))
            row.durations = durations.added(row.durations, durations.counted(account.milliseconds))
        changed = [rows[key] for key in sorted({_stored(key) for key in accounts})]
        PluginMetric.objects.bulk_update(changed, [*COUNTS, "durations"])
        PluginMetric.objects.filter(hour__lt=hour - KEPT).delete()


def _stored(key: PluginKey) -> PluginKey:
    kind, name = key
    return kind, name[:LONGEST_NAME]


def _rows(hour: datetime) -> dict[PluginKey, PluginMetric]:
    rows = PluginMetric.objects.select_for_update(skip_locked=True).filter(hour=hour).order_by("kind", "name")
    found = {(row.kind, row.name): row for row in rows}
    if len(found) < PluginMetric.objects.filter(hour=hour).count():
        raise _Busy
    return found


plugin_watch = PluginWatch()
