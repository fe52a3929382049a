"""What must stay however old it is: work without an end, and what that work came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from conductor.cell_db.models import Drain
from conductor.cells.lookup import API_ALIAS, CELL0, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.states import FINAL_RUN_STATES
from conductor.journal.models import ForeignFence, OutboxMessage, WorkflowRun

TIMEOUT_SECONDS = 30.0
MOST_FENCES = 2000


@dataclass(frozen=True)
class Needed:
    """Uuids of workflows that have not ended, of those that they came from, and of those that something names.

    `silent` are the databases that did not answer: where they would have to be asked nothing is removed.
    """

    run_uuids: frozenset[UUID]
    there: frozenset[UUID] = frozenset()  # of workflows that fences are for, those that a journal still has
    fences: Mapping[str, frozenset[UUID]] = field(default_factory=dict)
    silent: Sequence[str] = ()

    def gone(self, alias: str) -> list[UUID]:
        """Workflows that have left a fence in `alias` and that no journal has any more."""
        return sorted(self.fences.get(alias, frozenset()) - self.there)


def load() -> Needed:
    """Five queries in each database."""
    gathered = scatter_gather(_in, journal_aliases(), timeout_seconds=TIMEOUT_SECONDS)
    fences = scatter_gather(_fenced, gathered.answers, timeout_seconds=TIMEOUT_SECONDS)
    fenced = sorted(frozenset().union(*fences.answers.values()))
    there = scatter_gather(lambda alias: _has(alias, fenced), gathered.answers, timeout_seconds=TIMEOUT_SECONDS)
    return Needed(
        run_uuids=frozenset().union(*gathered.answers.values()),
        there=frozenset().union(*there.answers.values()),
        fences=fences.answers,
        silent=sorted({**gathered.failures, **fences.failures, **there.failures}),
    )


def _fenced(alias: str) -> frozenset[UUID]:
    """Some of them, drawn anew in each pass: they say nothing about their age."""
    rows = ForeignFence.objects.using(alias).order_by("?").values_list("run_uuid", flat=True)
    return frozenset(rows[:MOST_FENCES])


def _has(alias: str, uuids: list[UUID]) -> frozenset[UUID]:
    return frozenset(WorkflowRun.objects.using(alias).filter(uuid__in=uuids).values_list("uuid", flat=True))


def _in(alias: str) -> frozenset[UUID]:
    unfinished = WorkflowRun.objects.using(alias).exclude(state__in=FINAL_RUN_STATES)
    found: set[UUID | None] = {uuid for row in unfinished.values_list("uuid", "parent_uuid") for uuid in row}
    found |= set(OutboxMessage.objects.using(alias).filter(is_owed=True).values_list("run_uuid", flat=True))
    if alias not in (API_ALIAS, CELL0):
        found |= set(Drain.objects.using(alias).values_list("run_uuid", flat=True))
    return frozenset(uuid for uuid in found if uuid)
