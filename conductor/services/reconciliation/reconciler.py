"""One pass: look, wait for what may pass by itself, look once more, repair, and put on record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from django.db import DatabaseError

from conductor.core.errors import NovellaError
from conductor.services.reconciliation import facts as facts_of
from conductor.services.reconciliation import records
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind
from conductor.services.reconciliation.kinds import KINDS

log = logging.getLogger(__name__)

# Where everything is wrong something else is wrong: the rest has its turn in the next pass.
MOST_REPAIRS = 500


class Outcome(StrEnum):
    """What became of a finding in this pass."""

    REPAIRED = "repaired"
    WAITING = "waiting"  # its grace period is not over
    REPAIRABLE = "repairable"  # a dry run found what a real one would repair
    LEFT = "left"  # a person must look


@dataclass(frozen=True, slots=True)
class Judged:
    kind: Kind
    found: Found
    outcome: Outcome
    said: str = ""


@dataclass
class Report:
    """What a pass has found, and the cells that did not answer."""

    judged: list[Judged] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> list[Judged]:
        return [one for one in self.judged if one.outcome != Outcome.REPAIRED]


def look(facts: Facts) -> dict[tuple[str, str], tuple[Kind, Found]]:
    """All that does not agree and that no workflow is at work on, by kind and subject."""
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
) -> Report:
    """Compare everything, in all cells or those named, and repair what is safe; a dry run changes nothing.

    A finding is acted upon once it has been there for the grace period of its kind, or `grace_seconds`.
    `before_write` is called before each change, and ends the pass by what it raises.
    """
    wanted = list(cells)
    facts = facts_of.load(wanted)
    seen = look(facts)
    report = Report(silent=dict(facts.silent))
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
        # Once more: a workflow that began or ended while we read makes two halves that do not fit.
        again = facts_of.load(wanted)
        later = look(again)
        seen = {key: later[key] for key in seen if key in later}
    repairs = 0
    for key, (kind, found) in seen.items():
        may_repair = key in due and repairs < MOST_REPAIRS
        if may_repair and kind.repair is not None and not is_dry_run:
            before_write()
        judged = _judge(again, kind, found, may_repair=may_repair, is_dry_run=is_dry_run)
        repairs += judged.outcome == Outcome.REPAIRED
        report.judged.append(judged)
        if not is_dry_run and judged.said:
            records.say(kind, found, judged.said, is_repaired=judged.outcome == Outcome.REPAIRED)
    return report


def repair(kind_name: str, subject: str) -> Judged | None:
    """Repair one thing that is on record as found; None when it is not there any more or a workflow is at work on it.

    To be on record is the first look, this the second. What has not been there for its grace period is left waiting.
    """
    facts = facts_of.load([])
    key = (kind_name, subject)
    seen = look(facts).get(key)
    if seen is None:
        return None
    kind, found = seen
    is_due = records.ages([key]).get(key, 0.0) >= kind.grace_seconds
    judged = _judge(facts, kind, found, may_repair=is_due, is_dry_run=False)
    if judged.said:
        records.say(kind, found, judged.said, is_repaired=judged.outcome == Outcome.REPAIRED)
    return judged


def _judge(facts: Facts, kind: Kind, found: Found, *, may_repair: bool, is_dry_run: bool) -> Judged:
    if kind.repair is None:
        return Judged(kind, found, Outcome.LEFT)
    if not may_repair:
        return Judged(kind, found, Outcome.WAITING)
    if is_dry_run:
        return Judged(kind, found, Outcome.REPAIRABLE)
    try:
        said = kind.repair(facts, found)
    except NovellaError as error:
        return Judged(kind, found, Outcome.LEFT, error.message)
    except DatabaseError as error:
        log.warning("not repaired: kind=%s subject=%s", kind.name, found.subject, exc_info=error)
        return Judged(kind, found, Outcome.LEFT, "The database did not answer.")
    return Judged(kind, found, Outcome.REPAIRED if said else Outcome.LEFT, said)
