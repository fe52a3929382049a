"""Health of plugins over many decisions: their calls and errors, their quarantine, and their notes."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from conductor.api_db.models import PluginChoice, PluginMetric, PluginNote, PluginQuarantine
from conductor.core.plugin_choice import PluginKey
from conductor.core.scheduling import durations
from conductor.core.scheduling.watching import PluginUse
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.plugins.log import AT_MOST, FAULT, SOURCES, Note, notes

log = logging.getLogger(__name__)

ALIAS = "default"
FLUSH_SECONDS = 30.0
KEPT = timedelta(days=7)
LONGEST_NAME = 255
COUNTS = ("calls", "faults", "overruns", "rejected", "differed")


class _Busy(Exception):
    """Another scheduler is storing its statistics."""


@dataclass
class _Account:
    """Statistics of one plugin since the last flush."""

    calls: int = 0
    faults: int = 0
    overruns: int = 0
    rejected: int = 0
    differed: int = 0
    milliseconds: list[float] = field(default_factory=list)

    def add(self, use: PluginUse) -> None:
        self.calls += use.turns
        self.faults += use.faults
        self.overruns += use.overruns
        self.rejected += use.rejected
        self.milliseconds += use.milliseconds


class PluginWatch:
    """Collects statistics of plugins in memory, and stores them rarely; one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[PluginKey, _Account] = {}
        self._troubles: dict[PluginKey, deque[PluginUse]] = {}
        self._flushed_at = time.monotonic()

    def note(self, uses: Iterable[PluginUse], differed: Collection[PluginKey] = ()) -> None:
        """Record the plugins of a decision. Quarantine those that failed too often, or hung. Never raises.

        `differed` has the shadow plugins that would have decided otherwise.
        """
        must_go, lost = [], []
        with self._lock:
            for use in uses:
                account = self._accounts.setdefault(use.key, _Account())
                account.add(use)
                account.differed += use.key in differed
                if use.losses:
                    lost.append(use)
                elif not use.is_trusted and use.turns and self._is_too_much(use):
                    must_go.append(use.key)
        try:
            for use in lost:
                self._shut_out_at_once(use)
            for key in must_go:
                self._shut_out(key)
            self.flush_if_due()
        except (DatabaseError, InterfaceError):
            log.exception("plugins cannot be accounted for now")

    def flush_if_due(self) -> None:
        """Store the statistics, if that is due."""
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Add the statistics to the stored ones. Statistics that cannot be stored now are kept for the next time."""
        with self._lock:
            accounts, self._accounts = self._accounts, {}
            self._flushed_at = time.monotonic()
        store()
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
        """Reset all statistics, with the next flush far off. For tests, which share a process."""
        with self._lock:
            self._accounts, self._troubles, self._flushed_at = {}, {}, time.monotonic()
        notes.take()

    def _keep(self, accounts: dict[PluginKey, _Account]) -> None:
        """Keep statistics for the next flush, together with newer ones."""
        with self._lock:
            for key, account in accounts.items():
                kept = self._accounts.setdefault(key, _Account())
                for name in (*COUNTS, "milliseconds"):
                    setattr(kept, name, getattr(account, name) + getattr(kept, name))

    def _is_too_much(self, use: PluginUse) -> bool:
        """Whether the plugin failed in so many of its last decisions that it goes into quarantine."""
        window = settings.NOVELLA_QUARANTINE_WINDOW
        last = self._troubles.get(use.key)
        if last is None or last.maxlen != window:
            self._troubles[use.key] = last = deque(last or (), maxlen=window)
        last.append(use)
        return 0 < settings.NOVELLA_QUARANTINE_AFTER <= sum(_is_trouble(one) for one in last)

    def _shut_out(self, key: PluginKey) -> None:
        with self._lock:
            last = self._troubles.pop(key, deque())  # released plugins start without a record
        faults, overruns = sum(bool(one.faults) for one in last), sum(bool(one.overruns) for one in last)
        begin(
            key,
            cause=FAULTS if faults >= overruns else OVERRUNS,
            reason=f"In its last {len(last)} decisions it failed in {faults} and took too long in {overruns}.",
            seconds=settings.NOVELLA_QUARANTINE_SECONDS,
        )

    def _shut_out_at_once(self, use: PluginUse) -> None:
        """Quarantine a plugin after one hang, which delays a decision by seconds: for a short time, and longer if it
        recurs.
        """
        if settings.NOVELLA_QUARANTINE_AFTER:
            hung = "It did not come back in its time and was stopped."
            begin(
                use.key,
                cause=LOSSES,
                reason=hung if use.overruns or not use.faults else "It ended its process.",
                seconds=settings.NOVELLA_QUARANTINE_SECONDS,
                first=settings.NOVELLA_QUARANTINE_FIRST_SECONDS,
            )


def _is_trouble(use: PluginUse) -> bool:
    return bool(use.faults or use.overruns)


def _store(accounts: dict[PluginKey, _Account]) -> None:
    """Store the statistics with few statements, as all schedulers add to these rows. Raises _Busy while another one
    does.
    """
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


FAULTS = "faults"
OVERRUNS = "overruns"
LOSSES = "losses"  # worker processes that were lost by a hang or an exit
OPERATOR = "operator"
LONGEST_REASON = 255


def choice_row(kind: str) -> PluginChoice:
    """Return the row of a kind, locked until the transaction ends. The lock serializes all changes of plugins."""
    row, _ = PluginChoice.objects.select_for_update().get_or_create(kind=kind)
    return row


def begin(key: PluginKey, *, cause: str, reason: str, seconds: float = 0.0, first: float | None = None) -> bool:
    """Quarantine a plugin for `seconds`, or until an operator releases it. False if it is in quarantine already.

    With `first`, `seconds` is the maximum: the quarantine lasts `first` seconds, or twice as long as the previous one
    if the plugin was recently released from one with the same cause.
    """
    kind, name = key
    with write_tx(ALIAS):
        choice = choice_row(kind)
        row = PluginQuarantine.objects.filter(kind=kind, name=name).first() or PluginQuarantine(kind=kind, name=name)
        now = database_time(ALIAS)
        if row.pk and is_open(row, now):
            return False
        if seconds and first is not None:
            seconds = _backoff(row, cause, now, first, seconds)
        row.cause, row.reason = cause, reason[:LONGEST_REASON]
        row.times += 1
        row.began_at, row.released_at = now, None
        row.until = database_now(seconds) if seconds else None
        row.save()
        _touch(choice)
    log.error("plugin quarantined: kind=%s name=%s cause=%s reason=%s seconds=%g", kind, name, cause, reason, seconds)
    return True


def _backoff(row: PluginQuarantine, cause: str, now: datetime, first: float, most: float) -> float:
    """Return the duration in seconds, from the last quarantine."""
    if not row.pk or row.cause != cause or row.until is None or (now - row.until).total_seconds() > most:
        return min(first, most)
    return min(2 * (row.until - row.began_at).total_seconds(), most)


def end(key: PluginKey) -> bool:
    """Release a plugin. False if it was not in quarantine."""
    kind, name = key
    with write_tx(ALIAS):
        choice = choice_row(kind)
        now = database_time(ALIAS)
        row = PluginQuarantine.objects.filter(kind=kind, name=name).first()
        if row is None or not is_open(row, now):
            return False
        row.released_at = now
        row.save()
        _touch(choice)
    log.warning("plugin released from quarantine: kind=%s name=%s", kind, name)
    return True


def is_open(row: PluginQuarantine, now: datetime) -> bool:
    """Whether the plugin is in quarantine at that time."""
    return row.released_at is None and (row.until is None or now < row.until)


def _touch(choice: PluginChoice) -> None:
    choice.quarantine_number += 1
    choice.touched_at = database_now()
    choice.save(update_fields=["quarantine_number", "touched_at"])


def store() -> None:
    """Store the notes. Notes that cannot be stored now are kept for the next time."""
    taken = notes.take()
    if not taken:
        return
    try:
        keep(taken)
    except (DatabaseError, InterfaceError):
        for key, found in taken.items():
            for one in found:
                notes.add(key, one)
        raise


def keep(taken: Mapping[PluginKey, Sequence[Note]]) -> None:
    """Store these notes. Raises what the database raises."""
    with write_tx(ALIAS):
        for key, found in sorted(taken.items()):
            _store_notes(key, found)


def _store_notes(key: PluginKey, found: Sequence[Note]) -> None:
    kind, name = key[0][:16], key[1][:255]
    for source in SOURCES:
        new = [one for one in found if one.source == source]
        if not new:
            continue
        rows = PluginNote.objects.filter(kind=kind, name=name, source=source)
        known = {_key_of(row): row for row in rows} if source == FAULT else {}
        for one in new:  # a repeated error becomes one note; lines and differences stay in their order
            began_at = last_at = _moment(one)
            row = known.get(_key_of(one)) or PluginNote(kind=kind, name=name, source=source, times=0, began_at=began_at)
            row.level, row.text, row.place = _key_of(one)
            row.times, row.last_at = row.times + one.times, last_at
            row.save()
            if source == FAULT:
                known[_key_of(row)] = row
        too_old = rows.order_by("-last_at", "-id")[AT_MOST:].values_list("id", flat=True)
        PluginNote.objects.filter(id__in=list(too_old)).delete()


def _key_of(one: Note | PluginNote) -> tuple[str, str, str]:
    return one.level, one.text, one.place


def _moment(one: Note) -> datetime:
    return datetime.fromtimestamp(one.at, UTC)
