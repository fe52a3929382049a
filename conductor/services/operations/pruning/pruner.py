"""A pruning pass over all kinds and databases, one batch per transaction; one process at a time per database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import journal_aliases
from conductor.cells.targeting import target_cell
from conductor.db.transactions import write_tx
from conductor.journal import periodic_leases
from conductor.services.operations.pruning import needed as needed_of
from conductor.services.operations.pruning.kinds import KINDS, PruningRule
from conductor.services.operations.pruning.needed import ReferencedRuns

log = logging.getLogger(__name__)

NAME = "prune"
EVERY_SECONDS = 3600.0
BATCH = 500
# Between two batches other writers get their turn.
PAUSE_SECONDS = 0.02
DAY_SECONDS = 86_400.0


@dataclass
class PruneResult:
    """Deleted rows by database and kind, and databases skipped because they, or others, did not respond."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    down: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(sum(kinds.values()) for kinds in self.counts.values())


def prune(
    aliases: Iterable[str] = (), *, is_dry_run: bool = False, goes_on: Callable[[str], bool] = lambda alias: True
) -> PruneResult:
    """Delete prunable rows of these databases, or all; a dry run only counts.

    `goes_on(alias)` is called between two batches; False stops.
    """
    needed = needed_of.load()
    pruned = PruneResult(down=list(needed.down))
    for alias in list(aliases) or journal_aliases():
        if alias in needed.down:
            continue
        try:
            pruned.counts[alias] = _prune_one(alias, needed, is_dry_run=is_dry_run, goes_on=goes_on)
        except (DatabaseError, InterfaceError):
            log.exception("pruning given up for now: alias=%s", alias)
            pruned.down.append(alias)
    return pruned


def _prune_one(
    alias: str, needed: ReferencedRuns, *, is_dry_run: bool, goes_on: Callable[[str], bool]
) -> dict[str, int]:
    counts: dict[str, int] = {}
    with target_cell(alias):
        for kind in KINDS:
            days = getattr(settings, kind.setting)
            if not days or not kind.is_in(alias) or (kind.asks_all and needed.down):
                continue
            if is_dry_run:
                count = kind.over(alias, days * DAY_SECONDS, needed).count()
            else:
                count = _in_batches(alias, kind, days * DAY_SECONDS, needed, goes_on)
            if count:
                counts[kind.name] = count
    return counts


def _in_batches(
    alias: str, kind: PruningRule, seconds: float, needed: ReferencedRuns, goes_on: Callable[[str], bool]
) -> int:
    total = 0
    while goes_on(alias):
        rows = kind.over(alias, seconds, needed).order_by(kind.order)
        batch = list(rows.values_list("pk", flat=True)[:BATCH])
        if not batch:
            break
        with write_tx(alias):
            # All conditions again: a row that became live meanwhile stays.
            gone = kind.remove(alias, kind.over(alias, seconds, needed).filter(pk__in=batch))
        total += len(batch) if gone else 0
        if len(batch) < BATCH or not gone:
            break
        time.sleep(PAUSE_SECONDS)
    return total


def carry_out(aliases: Iterable[str], owner: str) -> int:
    """Prune those of these databases where it is due and no other process does it; returns the number of rows."""
    with ExitStack() as stack:
        held = {
            alias: stack.enter_context(periodic_leases.hold(alias, NAME, owner, every_seconds=EVERY_SECONDS))
            for alias in aliases
        }
        mine = {alias: lease for alias, lease in held.items() if lease is not None}
        if not mine:
            return 0
        pruned = prune(mine, goes_on=lambda alias: mine[alias].renew())
        for alias, lease in mine.items():
            lease.is_done = alias not in pruned.down
    if pruned.total:
        log.info("pruned: %s", pruned.counts)
    return pruned.total
