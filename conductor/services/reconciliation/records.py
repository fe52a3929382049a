"""The findings on record: since when each is there, how often it was seen, and what became of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from django.db.models import F, Q

from conductor import events
from conductor.api_db.models import Finding
from conductor.cells.lookup import API_ALIAS
from conductor.events import Subject
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind, Severity
from conductor.transactions import database_now, database_time, write_tx

log = logging.getLogger(__name__)

Key = tuple[str, str]  # kind, subject
IS_OPEN = Q(repaired_at__isnull=True, gone_at__isnull=True)
LONGEST_TEXT = 1000
LONGEST_SUBJECT = 255


def ages(seen: Iterable[Key]) -> dict[Key, float]:
    """Seconds since each of these was first seen; 0 for one that is new. Writes nothing."""
    now, wanted = database_time(API_ALIAS), set(seen)
    rows = Finding.objects.filter(IS_OPEN).values_list("kind", "subject", "first_seen_at")
    return {
        (kind, subject): (now - first_seen_at).total_seconds()
        for kind, subject, first_seen_at in rows
        if (kind, subject) in wanted
    }


def keep(seen: Mapping[Key, tuple[Kind, Found]], facts: Facts) -> dict[Key, float]:
    """Put what was seen on record, close what is not there any more; the age of each as `ages` gives it."""
    with write_tx(API_ALIAS):
        rows = {(row.kind, row.subject): row for row in Finding.objects.select_for_update().filter(IS_OPEN)}
        still = [row.pk for key, row in rows.items() if key in seen]
        Finding.objects.filter(pk__in=still).update(last_seen_at=database_now(), times_seen=F("times_seen") + 1)
        for key, row in rows.items():
            if key not in seen and _was_looked_for(row, facts):
                Finding.objects.filter(pk=row.pk).update(gone_at=database_now())
                _tell(row.kind, row.subject, str(row.instance_uuid or ""), "finding.gone", {})
        for key, (kind, found) in seen.items():
            if key not in rows:
                _open(kind, found)
    return ages(seen)


def _was_looked_for(row: Finding, facts: Facts) -> bool:
    """A cell that was not asked or did not answer proves nothing about its own."""
    return row.cell in facts.cells or (not row.cell and facts.is_complete)


def _open(kind: Kind, found: Found) -> None:
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
    _tell(
        kind.name, found.subject, found.instance_uuid, "finding.found",
        {"severity": kind.severity, "detail": found.detail[:LONGEST_TEXT]},
    )  # fmt: skip


LENGTH_OF_UUID = 36


def say(kind: Kind, found: Found, said: str, *, is_repaired: bool) -> None:
    """What was done about a finding, or why nothing could be."""
    with write_tx(API_ALIAS):
        rows = Finding.objects.filter(IS_OPEN, kind=kind.name, subject=found.subject[:LONGEST_SUBJECT])
        changed = {"repaired_at": database_now()} if is_repaired else {}
        rows.update(outcome=said[:LONGEST_TEXT], **changed)
        if is_repaired:
            log.warning("repaired: kind=%s subject=%s: %s", kind.name, found.subject, said)
            _tell(kind.name, found.subject, found.instance_uuid, "finding.repaired", {"outcome": said[:LONGEST_TEXT]})


def _tell(kind: str, subject: str, instance_uuid: str, what: str, data: Mapping[str, str]) -> None:
    """To operators only: no project is named, so no member's page is told."""
    about = Subject(f"finding:{kind}", instance_uuid=instance_uuid if len(instance_uuid) == LENGTH_OF_UUID else None)
    events.append(API_ALIAS, about, what, {"subject": subject, **data})
