"""Duration statistics of workflows and steps: p50 and p95 of the last hundred successful runs."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from conductor.cells.lookup import journal_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.states import RunState, StepState
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.workflows.types import RunView

RUNS_OF_A_KIND = 100
# Number of recent runs to search. Reading these short rows takes a few milliseconds, and needs no index.
LOOK_BACK = 3000
FRESH_SECONDS = 30.0
LEAST_KNOWN = 3  # fewer are not significant

Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class DurationStatistics:
    """Durations in seconds of the last `count` runs: half of them took less than `p50`, nineteen of twenty less than
    `p95`.
    """

    p50: float
    p95: float
    count: int

    def __add__(self, other: DurationStatistics) -> DurationStatistics:
        return DurationStatistics(self.p50 + other.p50, self.p95 + other.p95, min(self.count, other.count))


@dataclass
class _Kept:
    """Cached statistics, valid for FRESH_SECONDS."""

    at: float
    runs: Mapping[str, DurationStatistics]
    newest: Mapping[str, Mapping[str, list[int]]]  # alias → flow → ids of its newest runs
    steps: dict[str, Mapping[str, DurationStatistics]] = field(default_factory=dict)


_lock = threading.Lock()
_kept: _Kept | None = None


def of_flows() -> Mapping[str, DurationStatistics]:
    """Return statistics by flow, for flows with enough recent runs. One query per database, or none."""
    return _look().runs


def of_presenter(run: RunView) -> DurationStatistics | None:
    """Return statistics of a run and its children together. None when a part is unknown."""
    kinds = [run.flow, *dict.fromkeys(child.flow for child in run.children)]
    known = of_flows()
    found = [known[kind] for kind in kinds if kind in known]
    if len(found) < len(kinds):
        return None
    total = found[0]
    for typical in found[1:]:
        total += typical
    return total


def of_steps(flows: Iterable[str]) -> Mapping[str, Mapping[str, DurationStatistics]]:
    """Return statistics by flow and step; one more query per database for flows that are not cached."""
    kept = _look()
    wanted = set(flows)
    missing = sorted(wanted - set(kept.steps))
    if missing:
        found = _steps_of(kept, missing)
        kept.steps.update({flow: found.get(flow, {}) for flow in missing})
    return {flow: kept.steps[flow] for flow in wanted}


def forget() -> None:
    """Clear the cache."""
    global _kept
    with _lock:
        _kept = None


def summed_up(seconds: Sequence[float]) -> DurationStatistics | None:
    """Return p50 and p95, by nearest rank. None for too few values."""
    if len(seconds) < LEAST_KNOWN:
        return None
    ordered = sorted(seconds)
    return DurationStatistics(_rank(ordered, 0.5), _rank(ordered, 0.95), len(ordered))


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _look() -> _Kept:
    global _kept
    kept = _kept
    if kept is None or time.monotonic() - kept.at > FRESH_SECONDS:
        kept = _look_anew()
        with _lock:
            _kept = kept
    return kept


def _look_anew() -> _Kept:
    answers = scatter_gather(_newest_done, journal_aliases()).answers
    seconds: dict[str, list[float]] = defaultdict(list)
    newest: dict[str, dict[str, list[int]]] = {alias: defaultdict(list) for alias in answers}
    for alias, rows in answers.items():
        for pk, flow, created_at, finished_at in rows:
            if len(newest[alias][flow]) < RUNS_OF_A_KIND:
                newest[alias][flow].append(pk)
                seconds[flow].append((finished_at - created_at).total_seconds())
    summed = {flow: summed_up(values) for flow, values in seconds.items()}
    return _Kept(time.monotonic(), {flow: typical for flow, typical in summed.items() if typical}, newest)


def _newest_done(alias: str) -> list[tuple[int, str, datetime, datetime]]:
    """Return successful runs among the newest LOOK_BACK."""
    newest = WorkflowRun.objects.using(alias).order_by("-pk").values_list("pk", flat=True).first() or 0
    done = WorkflowRun.objects.using(alias).filter(
        pk__gt=newest - LOOK_BACK, state=RunState.DONE, finished_at__isnull=False
    )
    return list(done.order_by("-pk").values_list("pk", "flow", "created_at", "finished_at"))  # type: ignore[arg-type]


def _steps_of(kept: _Kept, flows: Sequence[str]) -> Mapping[str, Mapping[str, DurationStatistics]]:
    of_run = {
        (alias, pk): flow for alias, by_flow in kept.newest.items() for flow in flows for pk in by_flow.get(flow, ())
    }
    wanted: dict[str, list[int]] = defaultdict(list)
    for alias, pk in of_run:
        wanted[alias].append(pk)

    def ask(alias: str) -> list[tuple[int, str, Span]]:
        done = StepRecord.objects.using(alias).filter(
            run_id__in=wanted[alias], direction="do", state=StepState.DONE, finished_at__isnull=False
        )
        rows = done.values_list("run_id", "name", "started_at", "finished_at")
        return [(pk, name, (begun, ended)) for pk, name, begun, ended in rows if ended is not None]

    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for alias, rows in scatter_gather(ask, wanted).answers.items():
        for pk, name, (begun, ended) in rows:
            seconds[of_run[alias, pk]][name].append((ended - begun).total_seconds())
    return {
        flow: {name: typical for name, values in by_name.items() if (typical := summed_up(values))}
        for flow, by_name in seconds.items()
    }
