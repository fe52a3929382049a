"""One reconciliation pass: compare, wait for the grace period, compare again, repair, and record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from django.conf import settings
from django.db import DatabaseError

from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import NovellaError
from conductor.journal import periodic_leases
from conductor.services.operations.reconciliation import facts as facts_of
from conductor.services.operations.reconciliation import records
from conductor.services.operations.reconciliation.facts import ReconciliationFacts
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind
from conductor.services.operations.reconciliation.kinds import KINDS

log = logging.getLogger(__name__)
LEASE = "reconcile"

# If everything is wrong, there is another cause: the rest waits for the next pass.
MOST_REPAIRS = 500


class RepairOutcome(StrEnum):
    """Result of a finding in this pass."""

    REPAIRED = "repaired"
    WAITING = "waiting"  # its grace period is not over
    REPAIRABLE = "repairable"  # found in a dry run; a real one would repair it
    LEFT = "left"  # an operator must decide


@dataclass(frozen=True, slots=True)
class ReconciledFinding:
    kind: DiscrepancyKind
    found: Discrepancy
    outcome: RepairOutcome
    note: str = ""


@dataclass
class ReconciliationReport:
    """Findings of a pass, and the cells that are down."""

    judged: list[ReconciledFinding] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> list[ReconciledFinding]:
        return [one for one in self.judged if one.outcome != RepairOutcome.REPAIRED]


def look(facts: ReconciliationFacts) -> dict[tuple[str, str], tuple[DiscrepancyKind, Discrepancy]]:
    """Return all discrepancies that no workflow is working on, by kind and subject."""
    return {
        (kind.name, found.subject): (kind, found)
        for kind in KINDS
        for found in kind.find(facts)
        if facts.busy.isdisjoint(found.touches)
    }


def reconcile(
    cells: Iterable[str] = (),
    *,
    is_dry_run: bool = False,
    grace_seconds: float | None = None,
    before_write: Callable[[], None] = lambda: None,
) -> ReconciliationReport:
    """Compare everything, in all cells or those named, and repair what is safe; a dry run changes nothing.

    A finding is repaired once it is older than the grace period of its kind, or `grace_seconds`. `before_write` is
    called before each change, and ends the pass by raising.
    """
    wanted = list(cells)
    facts = facts_of.load(wanted)
    seen = look(facts)
    report = ReconciliationReport(down=dict(facts.down))
    if not is_dry_run:
        before_write()
    ages = records.ages(seen) if is_dry_run else records.keep(seen, facts)
    due = {
        key
        for key, (kind, _) in seen.items()
        if ages.get(key, 0.0) >= (kind.grace_seconds if grace_seconds is None else grace_seconds)
    }
    again = facts
    if not is_dry_run and any(seen[key][0].repair for key in due):
        # Again: facts read while a workflow began or ended are inconsistent.
        again = facts_of.load(wanted)
        later = look(again)
        seen = {key: later[key] for key in seen if key in later}
    repairs = 0
    for key, (kind, found) in seen.items():
        may_repair = key in due and repairs < MOST_REPAIRS
        if may_repair and kind.repair is not None and not is_dry_run:
            before_write()
        judged = _judge(again, kind, found, may_repair=may_repair, is_dry_run=is_dry_run)
        repairs += judged.outcome == RepairOutcome.REPAIRED
        report.judged.append(judged)
        if not is_dry_run and judged.note:
            records.log_finding(kind, found, judged.note, is_repaired=judged.outcome == RepairOutcome.REPAIRED)
    return report


def repair(kind_name: str, subject: str) -> ReconciledFinding | None:
    """Repair one recorded finding; returns None when it is gone or a workflow is working on it.

    The record was the first comparison, this is the second. A finding younger than its grace period is left waiting.
    """
    facts = facts_of.load([])
    key = (kind_name, subject)
    seen = look(facts).get(key)
    if seen is None:
        return None
    kind, found = seen
    is_due = records.ages([key]).get(key, 0.0) >= kind.grace_seconds
    judged = _judge(facts, kind, found, may_repair=is_due, is_dry_run=False)
    if judged.note:
        records.log_finding(kind, found, judged.note, is_repaired=judged.outcome == RepairOutcome.REPAIRED)
    return judged


def _judge(
    facts: ReconciliationFacts, kind: DiscrepancyKind, found: Discrepancy, *, may_repair: bool, is_dry_run: bool
) -> ReconciledFinding:
    if kind.repair is None:
        return ReconciledFinding(kind, found, RepairOutcome.LEFT)
    if not may_repair:
        return ReconciledFinding(kind, found, RepairOutcome.WAITING)
    if is_dry_run:
        return ReconciledFinding(kind, found, RepairOutcome.REPAIRABLE)
    try:
        note = kind.repair(facts, found)
    except NovellaError as error:
        return ReconciledFinding(kind, found, RepairOutcome.LEFT, error.message)
    except DatabaseError as error:
        log.warning("not repaired: kind=%s subject=%s", kind.name, found.subject, exc_info=error)
        return ReconciledFinding(kind, found, RepairOutcome.LEFT, "The database did not answer.")
    return ReconciledFinding(kind, found, RepairOutcome.REPAIRED if note else RepairOutcome.LEFT, note)


def carry_out(owner: str) -> bool:
    """Reconcile if that is due and no other process does it; returns whether this process did."""
    every = settings.NOVELLA_RECONCILE_SECONDS
    if not every:
        return False
    with periodic_leases.hold(API_ALIAS, LEASE, owner, every_seconds=every) as lease:
        if lease is None:
            return False
        report = reconcile(before_write=lease.require)
        if report.down:
            log.warning("reconciled without the cells that did not answer: %s", ", ".join(sorted(report.down)))
    return True
