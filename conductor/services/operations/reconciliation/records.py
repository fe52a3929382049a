"""Records of findings: since when each exists, how often it was seen, and its outcome."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from django.db.models import F, Q

from conductor import events
from conductor.api_db.models import Finding
from conductor.cells.lookup import API_ALIAS
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.events import EventSubject
from conductor.services.operations.reconciliation.facts import ReconciliationFacts
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity

log = logging.getLogger(__name__)

Key = tuple[str, str]  # kind, subject
IS_OPEN = Q(repaired_at__isnull=True, gone_at__isnull=True)
LONGEST_TEXT = 1000
LONGEST_SUBJECT = 255


def ages(seen: Iterable[Key]) -> dict[Key, float]:
    """Return the seconds since each of these was first seen. 0 for a new one. Writes nothing."""
    now, wanted = database_time(API_ALIAS), set(seen)
    rows = Finding.objects.filter(IS_OPEN).values_list("kind", "subject", "first_seen_at")
    return {
        (kind, subject): (now - first_seen_at).total_seconds()
        for kind, subject, first_seen_at in rows
        if (kind, subject) in wanted
    }


def keep(seen: Mapping[Key, tuple[DiscrepancyKind, Discrepancy]], facts: ReconciliationFacts) -> dict[Key, float]:
    """Record the current findings and close those that are gone; returns the ages as `ages` does."""
    with write_tx(API_ALIAS):
        rows = {(row.kind, row.subject): row for row in Finding.objects.select_for_update().filter(IS_OPEN)}
        still = [row.pk for key, row in rows.items() if key in seen]
        Finding.objects.filter(pk__in=still).update(last_seen_at=database_now(), times_seen=F("times_seen") + 1)
        for key, row in rows.items():
            if key not in seen and _was_looked_for(row, facts):
                Finding.objects.filter(pk=row.pk).update(gone_at=database_now())
                _emit(row.kind, row.subject, str(row.instance_uuid or ""), "finding.gone", {})
        for key, (kind, found) in seen.items():
            if key not in rows:
                _open(kind, found)
    return ages(seen)


def _was_looked_for(row: Finding, facts: ReconciliationFacts) -> bool:
    """Whether the finding's cell was compared. A cell that was not queried or is down proves nothing."""
    return row.cell in facts.cells or (not row.cell and facts.is_complete)


def _open(kind: DiscrepancyKind, found: Discrepancy) -> None:
    now = database_now()
    values = {
        "severity": kind.severity,
        "cell": found.cell,
        "instance_uuid": found.instance_uuid if len(found.instance_uuid) == LENGTH_OF_UUID else None,
        "detail": found.detail[:LONGEST_TEXT],
        "outcome": "",
        "times_seen": 1,
        "first_seen_at": now,
        "last_seen_at": now,
        "repaired_at": None,
        "gone_at": None,
    }
    Finding.objects.update_or_create(kind=kind.name, subject=found.subject[:LONGEST_SUBJECT], defaults=values)
    level = logging.ERROR if kind.severity == Severity.CRITICAL else logging.WARNING
    log.log(level, "found: kind=%s subject=%s: %s", kind.name, found.subject, found.detail)
    _emit(
        kind.name, found.subject, found.instance_uuid, "finding.found",
        {"severity": kind.severity, "detail": found.detail[:LONGEST_TEXT]},
    )  # fmt: skip


LENGTH_OF_UUID = 36


def log_finding(kind: DiscrepancyKind, found: Discrepancy, message: str, *, is_repaired: bool) -> None:
    """Record how a finding was repaired, or why it was not."""
    with write_tx(API_ALIAS):
        rows = Finding.objects.filter(IS_OPEN, kind=kind.name, subject=found.subject[:LONGEST_SUBJECT])
        changed = {"repaired_at": database_now()} if is_repaired else {}
        rows.update(outcome=message[:LONGEST_TEXT], **changed)
        if is_repaired:
            log.warning("repaired: kind=%s subject=%s: %s", kind.name, found.subject, message)
            _emit(
                kind.name, found.subject, found.instance_uuid, "finding.repaired", {"outcome": message[:LONGEST_TEXT]}
            )


def _emit(kind: str, subject: str, instance_uuid: str, what: str, data: Mapping[str, str]) -> None:
    """Emit an event to operators only. It names no project, so no member's page gets it."""
    about = EventSubject(
        f"finding:{kind}", instance_uuid=instance_uuid if len(instance_uuid) == LENGTH_OF_UUID else None
    )
    events.append(API_ALIAS, about, what, {"subject": subject, **data})
