"""A decision as it is kept and shown: the funnel, the hosts with their reasons, the weights, the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from conductor.core.host_state import HostTable
from conductor.core.scheduling import filtering
from conductor.core.scheduling.advice import advise
from conductor.core.scheduling.alternates import heaviest
from conductor.core.scheduling.filtering import Stage
from conductor.core.scheduling.nearest import NearMiss, nearest_misses
from conductor.core.scheduling.select import Outcome, Round
from conductor.core.scheduling.weighing import Weighing
from conductor.core.selection import Selection
from conductor.core.verdict import PASS, Verdict

WEIGHTS_KEPT = 20
ATTEMPT_WEIGHTS_KEPT = 5
# Hosts whose reasons are kept: all of a small fleet, a fair part of a large one.
REASONS_KEPT = 100
REASONS_KEPT_ON_FAILURE = 1000
REASONS_COUNTED = 25  # of each filter at least: advice counts them
SEEDS = 2**32  # seeds are below it


class StageCount(NamedTuple):  # many are made, and a dataclass that is frozen takes four times as long
    """One bar of the funnel."""

    filter: str
    before: int
    after: int
    rejected: int
    milliseconds: float = 0.0


class HostOutcome(NamedTuple):
    """What became of one host in the round that is shown."""

    host: str
    cell: str
    zone: str
    is_simulated: bool
    passed: bool
    rejected_by: str = ""
    reason: str = ""
    need: str = ""
    have: str = ""


@dataclass(frozen=True)
class Decision:
    """All that is kept of one pass of the scheduler. Immutable; `summary` and `details` are its JSON."""

    selections: tuple[tuple[Selection, ...], ...]
    num_instances: int
    seed: int
    snapshot_age_seconds: float
    num_hosts: int
    funnel: tuple[StageCount, ...]
    hosts: tuple[HostOutcome, ...]
    weights: tuple[Mapping[str, Any], ...]
    nearest: tuple[NearMiss, ...]
    advice: tuple[str, ...]
    faults: tuple[Mapping[str, Any], ...] = ()
    missing_cells: Mapping[str, str] = field(default_factory=dict)
    is_detailed: bool = True
    milliseconds: float = 0.0  # to decide and to explain it
    round: int = 0  # how many instances had found a host before the round that is shown
    drawn_among: int = 1  # so many of the best hosts, where more than one

    @property
    def is_successful(self) -> bool:
        return len(self.selections) == self.num_instances

    def summary(self) -> dict[str, Any]:
        """What everybody may see: counts and advice, no host's name."""
        return {
            "seed": self.seed,
            "snapshot_age_seconds": self.snapshot_age_seconds,
            "num_instances": self.num_instances,
            "num_hosts": self.num_hosts,
            "funnel": [stage._asdict() for stage in self.funnel],
            "advice": list(self.advice),
            "faults": [dict(fault) for fault in self.faults],
            "missing_cells": dict(self.missing_cells),
            "is_detailed": self.is_detailed,
            "milliseconds": self.milliseconds,
            "round": self.round,
            "drawn_among": self.drawn_among,
        }

    def attempt(self) -> dict[str, Any]:
        """What is kept of a pass whose claim came too late: as much as tells it from the next one."""
        return {
            "seed": self.seed,
            "snapshot_age_seconds": self.snapshot_age_seconds,
            "drawn_among": self.drawn_among,
            "chosen": [picked[0].host for picked in self.selections],
            "funnel": [stage._asdict() for stage in self.funnel],
            "weights": [dict(weight) for weight in self.weights[:ATTEMPT_WEIGHTS_KEPT]],
        }

    def named_hosts(self) -> set[str]:
        """The hosts that it says something of."""
        return {host.host for host in self.hosts} | {str(weight["host"]) for weight in self.weights}

    def abridged(self) -> Decision:
        """Without the hosts that were not chosen: what is kept of a success that is not in the sample."""
        chosen = {selection.host for picked in self.selections for selection in picked}
        return replace(
            self,
            hosts=tuple(host for host in self.hosts if host.host in chosen),
            weights=tuple(weight for weight in self.weights if weight["host"] in chosen),
            nearest=(),
            is_detailed=False,
        )

    def is_in_sample(self, share: float) -> bool:
        """Whether all of it is kept: every failure, and `share` of the successes, drawn by the seed."""
        return not self.is_successful or self.seed < share * SEEDS

    def details(self) -> dict[str, Any]:
        """What operators see besides."""
        return {
            "hosts": [host._asdict() for host in self.hosts],
            "weights": [dict(weight) for weight in self.weights],
            "nearest": [asdict(miss) for miss in self.nearest],
        }


def explain(outcome: Outcome, missing_cells: Mapping[str, str] | None = None) -> Decision:
    """Put an outcome into words. Filters are asked once more about the hosts that they turned away."""
    shown = outcome.shown
    missing = dict(missing_cells or {})
    limit = REASONS_KEPT if outcome.is_successful else REASONS_KEPT_ON_FAILURE
    reasons = _all_reasons(shown, limit)
    nearest, miss_counts = ((), {}) if outcome.is_successful else nearest_misses(shown)
    best = heaviest(shown.weighing.totals, limit)
    return Decision(
        selections=outcome.selections(),
        num_instances=outcome.num_instances,
        seed=outcome.seed,
        snapshot_age_seconds=round(shown.hosts.age_seconds, 3),
        num_hosts=len(shown.hosts),
        funnel=tuple(_counted(stage) for stage in shown.filtering.stages),
        hosts=(
            *(_outcome(shown.hosts, row) for row in best),
            *_rejected(shown.hosts, reasons, limit),
        ),
        weights=tuple(_weights(shown.hosts, shown.weighing, best[:WEIGHTS_KEPT])),
        nearest=nearest,
        advice=tuple(advise(outcome, reasons=reasons, miss_counts=miss_counts, missing_cells=missing)),
        faults=tuple(_fault_json(outcome)),
        missing_cells=missing,
        round=shown.index,
    )


def _counted(stage: Stage) -> StageCount:
    return StageCount(stage.filter.name, stage.before, stage.after, stage.rejected, round(stage.seconds * 1000, 3))


def _all_reasons(shown: Round, limit: int) -> list[tuple[Stage, dict[int, Verdict]]]:
    """What is kept is of those who came furthest; of earlier stages as much is asked as it takes to say why."""
    found = []
    for stage in reversed(shown.filtering.stages):
        asked = _reasons(shown, stage, max(limit, REASONS_COUNTED))
        found.append((stage, asked))
        limit -= len(asked)
    return found[::-1]


def _reasons(shown: Round, stage: Stage, limit: int) -> dict[int, Verdict]:
    """Row → why, for the first hosts that the stage turned away."""
    return {int(row): why(shown, stage, int(row)) for row in stage.rejected_rows[:limit]}


def why(shown: Round, stage: Stage, row: int) -> Verdict:
    """The stage's verdict about a host that it turned away."""
    return filtering.why(shown.filtering, stage, shown.hosts, shown.spec, row)


def _rejected(
    hosts: HostTable, reasons: Sequence[tuple[Stage, Mapping[int, Verdict]]], limit: int
) -> list[HostOutcome]:
    """Those who came furthest first."""
    listed = (
        _outcome(hosts, row, stage.filter.name, verdict)
        for stage, by_row in reversed(reasons)
        for row, verdict in by_row.items()
    )
    return [host for host, _ in zip(listed, range(limit), strict=False)]


def _outcome(hosts: HostTable, row: int, rejected_by: str = "", verdict: Verdict | None = None) -> HostOutcome:
    state = hosts.states[row]
    said = PASS if verdict is None else verdict
    return HostOutcome(
        host=state.host,
        cell=state.cell,
        zone=state.availability_zone,
        is_simulated=state.is_simulated,
        passed=verdict is None,
        rejected_by=rejected_by,
        reason=said.reason,
        need=said.need,
        have=said.have,
    )


def _weights(hosts: HostTable, weighing: Weighing, rows: Sequence[int]) -> list[dict[str, Any]]:
    """These hosts, each with what every weigher said."""
    by_part = [(part.weigher, part.of_rows(rows)) for part in weighing.parts]
    totals = weighing.totals[list(rows)].tolist()
    return [
        {
            "host": hosts.states[row].host,
            "total": totals[index],
            "parts": [_part(weigher, *said[index]) for weigher, said in by_part],
        }
        for index, row in enumerate(rows)
    ]


def _part(weigher: str, raw: float, normalized: float, multiplier: float) -> dict[str, Any]:
    return {
        "weigher": weigher,
        "raw": raw,
        "normalized": normalized,
        "multiplier": multiplier,
        "weight": normalized * multiplier,
    }


def _fault_json(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {
            "kind": fault.kind,
            "plugin": fault.plugin,
            "count": fault.count,
            "error": fault.error,
            "consequence": fault.consequence,
        }
        for fault in outcome.faults
    ]
