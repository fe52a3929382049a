"""Number of reasons that are requested when a large fleet has rejected many hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conductor.core.scheduling import decision
from conductor.core.scheduling.decision import REASONS_COUNTED, REASONS_KEPT, explain
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.watching import Rules
from tests.unit.scheduling.fleets import SHIPPED, host, spec, table

FULL, DOWN, FITTING = 150, 150, 3
PIPELINE = Pipeline(SHIPPED.filters, SHIPPED.weighers, rules=Rules(clock=lambda: 0.0))
FLEET = table(
    *(host(f"full-{index}", memory_mb_used=16384) for index in range(FULL)),
    *(host(f"down-{index}", is_up=False) for index in range(DOWN)),
    *(host(f"fits-{index}") for index in range(FITTING)),
)


def test_hosts_that_passed_most_filters_have_reasons_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[int] = []
    why = decision.why
    monkeypatch.setattr(decision, "why", lambda shown, stage, row: requested.append(row) or why(shown, stage, row))  # type: ignore[func-returns-value]
    reported = explain(decide(FLEET, spec(), ["new"], pipeline=PIPELINE, seed=1))
    assert len(requested) == REASONS_KEPT + REASONS_COUNTED
    assert [stage.rejected for stage in reported.funnel if stage.rejected] == [FULL, DOWN]
    turned_away = [one for one in reported.hosts if not one.passed]
    assert {one.rejected_by for one in turned_away} == {"ComputeFilter"}
    assert len(turned_away) == REASONS_KEPT
    counts = sorted(int(line.split()[0]) for line in reported.advice)
    assert counts == [FITTING, DOWN, FULL], "the advice speaks of all of them"


def test_a_failure_names_more_hosts() -> None:
    nowhere = decide(FLEET, replace(spec(), requested_host="nobody"), ["new"], pipeline=PIPELINE, seed=1)
    assert len(explain(nowhere).hosts) == FULL + DOWN + FITTING
