"""Scheduling decision as stored and shown: the funnel, the hosts with their reasons, the weights, the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from conductor.core.host_state import HostTable
from conductor.core.messages import pack, unpack
from conductor.core.scheduling import filtering
from conductor.core.scheduling.advice import advise
from conductor.core.scheduling.alternates import heaviest
from conductor.core.scheduling.filtering import Stage
from conductor.core.scheduling.nearest import NearMiss, nearest_misses
from conductor.core.scheduling.select import Round, SelectionResult
from conductor.core.scheduling.weighing import Weighing
from conductor.core.selection import Selection
from conductor.core.verdict import PASS, Verdict

WEIGHTS_KEPT = 20
ATTEMPT_WEIGHTS_KEPT = 5
# Hosts whose reasons are kept: all of a small fleet, a sample of a large one.
REASONS_KEPT = 100
REASONS_KEPT_ON_FAILURE = 1000
REASONS_COUNTED = 25  # of each filter at least: advice counts them
VERDICT_TEXTS = ("reason", "need", "have")
SEEDS = 2**32  # exclusive upper bound of seeds


class StageCount(NamedTuple):  # created often; a frozen dataclass takes four times as long
    """Counts of one stage of the funnel."""

    filter: str
    before: int
    after: int
    rejected: int
    milliseconds: float = 0.0


class HostOutcome(NamedTuple):
    """Result of one host in the round that is shown."""

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
    """All that is stored of one pass of the scheduler. Immutable; `summary` and `details` are its JSON."""

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
    milliseconds: float = 0.0  # to decide and to explain the decision
    round: int = 0  # how many instances had a host before the round that is shown
    drawn_among: int = 1  # the number of best hosts that it was drawn from, where more than one

    @property
    def is_successful(self) -> bool:
        return len(self.selections) == self.num_instances

    def summary(self) -> dict[str, Any]:
        """Return the part that every user may see: counts and advice, no host's name."""
        return {
            "seed": self.seed,
            "snapshot_age_seconds": self.snapshot_age_seconds,
            "num_instances": self.num_instances,
            "num_hosts": self.num_hosts,
            "funnel": [stage._asdict() for stage in self.funnel],
            "advice": [pack(reported) for reported in self.advice],
            "faults": [dict(fault) for fault in self.faults],
            "missing_cells": dict(self.missing_cells),
            "is_detailed": self.is_detailed,
            "milliseconds": self.milliseconds,
            "round": self.round,
            "drawn_among": self.drawn_among,
        }

    def attempt(self) -> dict[str, Any]:
        """Return what is stored of a pass whose claim failed: enough to distinguish it from the next pass."""
        return {
            "seed": self.seed,
            "snapshot_age_seconds": self.snapshot_age_seconds,
            "drawn_among": self.drawn_among,
            "chosen": [picked[0].host for picked in self.selections],
            "funnel": [stage._asdict() for stage in self.funnel],
            "weights": [dict(weight) for weight in self.weights[:ATTEMPT_WEIGHTS_KEPT]],
        }

    def named_hosts(self) -> set[str]:
        """Return the names of the hosts in the decision."""
        return {host.host for host in self.hosts} | {str(weight["host"]) for weight in self.weights}

    def abridged(self) -> Decision:
        """Return the decision without the hosts that were not chosen. A success outside the sample is stored in this
        form.
        """
        chosen = {selection.host for picked in self.selections for selection in picked}
        return replace(
            self,
            hosts=tuple(host for host in self.hosts if host.host in chosen),
            weights=tuple(weight for weight in self.weights if weight["host"] in chosen),
            nearest=(),
            is_detailed=False,
        )

    def is_in_sample(self, share: float) -> bool:
        """Whether the whole decision is stored: every failure, and a `share` of the successes that the seed draws."""
        return not self.is_successful or self.seed < share * SEEDS

    def details(self) -> dict[str, Any]:
        """Return the additional part for operators."""
        return {
            "hosts": [_packed(host._asdict()) for host in self.hosts],
            "weights": [dict(weight) for weight in self.weights],
            "nearest": [_packed(asdict(miss)) for miss in self.nearest],
        }


def _packed(host: dict[str, Any]) -> dict[str, Any]:
    """Return a host's result, with its messages as they are stored."""
    return {**host, **{name: pack(host[name]) for name in VERDICT_TEXTS}}


def unpacked(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored host's result, with its messages restored."""
    return {**host, **{name: unpack(host.get(name, "")) for name in VERDICT_TEXTS}}


def explain(outcome: SelectionResult, missing_cells: Mapping[str, str] | None = None) -> Decision:
    """Return the decision with its explanation. Filters run once more on the hosts that they rejected."""
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
    """Return the reasons to store. Those of the latest stages come first; earlier stages judge only as many as
    needed.
    """
    found = []
    for stage in reversed(shown.filtering.stages):
        requested = _reasons(shown, stage, max(limit, REASONS_COUNTED))
        found.append((stage, requested))
        limit -= len(requested)
    return found[::-1]


def _reasons(shown: Round, stage: Stage, limit: int) -> dict[int, Verdict]:
    """Return row → verdict, for the first hosts that the stage rejected."""
    return {int(row): why(shown, stage, int(row)) for row in stage.rejected_rows[:limit]}


def why(shown: Round, stage: Stage, row: int) -> Verdict:
    """Return the stage's verdict on a host that it rejected."""
    return filtering.why(shown.filtering, stage, shown.hosts, shown.spec, row)


def _rejected(
    hosts: HostTable, reasons: Sequence[tuple[Stage, Mapping[int, Verdict]]], limit: int
) -> list[HostOutcome]:
    """Return the rejected hosts, those of the latest stages first."""
    listed = (
        _outcome(hosts, row, stage.filter.name, verdict)
        for stage, by_row in reversed(reasons)
        for row, verdict in by_row.items()
    )
    return [host for host, _ in zip(listed, range(limit), strict=False)]


def _outcome(hosts: HostTable, row: int, rejected_by: str = "", verdict: Verdict | None = None) -> HostOutcome:
    state = hosts.states[row]
    reported = PASS if verdict is None else verdict
    return HostOutcome(
        host=state.host,
        cell=state.cell,
        zone=state.availability_zone,
        is_simulated=state.is_simulated,
        passed=verdict is None,
        rejected_by=rejected_by,
        reason=reported.reason,
        need=reported.need,
        have=reported.have,
    )


def _weights(hosts: HostTable, weighing: Weighing, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return these hosts, each with every weigher's numbers."""
    by_part = [(part.weigher, part.of_rows(rows)) for part in weighing.parts]
    totals = weighing.totals[list(rows)].tolist()
    return [
        {
            "host": hosts.states[row].host,
            "total": totals[index],
            "parts": [_part(weigher, *reported[index]) for weigher, reported in by_part],
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


def _fault_json(outcome: SelectionResult) -> list[dict[str, Any]]:
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
