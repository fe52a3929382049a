"""Records that pruning must keep however old they are: unfinished runs, their parents, and runs in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from conductor.cell_db.models import Drain
from conductor.cells.lookup import API_ALIAS, CELL0, journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.states import FINAL_RUN_STATES
from conductor.journal.models import ForeignFence, OutboxMessage, WorkflowRun

TIMEOUT_SECONDS = 30.0
MOST_FENCES = 2000


@dataclass(frozen=True)
class ReferencedRuns:
    """Uuids of unfinished workflow runs, of their parents, and of runs that other rows refer to.

    `down` are databases that did not respond: rules that need them delete nothing.
    """

    run_uuids: frozenset[UUID]
    there: frozenset[UUID] = frozenset()  # runs of fences that a journal still has
    fences: Mapping[str, frozenset[UUID]] = field(default_factory=dict)
    down: Sequence[str] = ()
    # the number of each database's first young event, once it is known
    young_events: dict[str, int] = field(default_factory=dict)

    def gone(self, alias: str) -> list[UUID]:
        """Return runs with a fence in `alias` that are in no journal any more."""
        return sorted(self.fences.get(alias, frozenset()) - self.there)


def load() -> ReferencedRuns:
    """Read the referenced runs, with five queries in each database."""
    gathered = scatter_gather(_in, journal_aliases(), timeout_seconds=TIMEOUT_SECONDS)
    fences = scatter_gather(_fenced, gathered.answers, timeout_seconds=TIMEOUT_SECONDS)
    fenced = sorted(frozenset().union(*fences.answers.values()))
    there = scatter_gather(lambda alias: _has(alias, fenced), gathered.answers, timeout_seconds=TIMEOUT_SECONDS)
    return ReferencedRuns(
        run_uuids=frozenset().union(*gathered.answers.values()),
        there=frozenset().union(*there.answers.values()),
        fences=fences.answers,
        down=sorted({**gathered.failures, **fences.failures, **there.failures}),
    )


def _fenced(alias: str) -> frozenset[UUID]:
    """Return some fenced runs, from a random one on, as fences do not store their age."""
    rows = ForeignFence.objects.using(alias).order_by("run_uuid").values_list("run_uuid", flat=True)
    start = uuid4()
    sample = list(rows.filter(run_uuid__gte=start)[:MOST_FENCES])
    return frozenset([*sample, *rows.filter(run_uuid__lt=start)[: MOST_FENCES - len(sample)]])


def _has(alias: str, uuids: list[UUID]) -> frozenset[UUID]:
    return frozenset(WorkflowRun.objects.using(alias).filter(uuid__in=uuids).values_list("uuid", flat=True))


def _in(alias: str) -> frozenset[UUID]:
    unfinished = WorkflowRun.objects.using(alias).exclude(state__in=FINAL_RUN_STATES)
    found: set[UUID | None] = {uuid for row in unfinished.values_list("uuid", "parent_uuid") for uuid in row}
    found |= set(OutboxMessage.objects.using(alias).filter(is_deferred=True).values_list("run_uuid", flat=True))
    if alias not in (API_ALIAS, CELL0):
        found |= set(Drain.objects.using(alias).values_list("run_uuid", flat=True))
    return frozenset(uuid for uuid in found if uuid)
