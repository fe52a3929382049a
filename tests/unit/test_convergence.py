"""Verdicts on a live migration, from its figures."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.services.server_migrations import convergence
from conductor.services.server_migrations.convergence import Sample

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
GB = 1 << 30


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def samples(rows: Iterable[tuple[float, float, float]]) -> list[Sample]:
    """Seconds, GB moved, GB left."""
    return [Sample(at(seconds), 8 * GB, int(moved * GB), int(left * GB)) for seconds, moved, left in rows]


def test_an_idle_guest_converges_in_a_range() -> None:
    verdict = convergence.judge(samples([(0, 0, 8), (10, 4, 4)]), at(10))
    assert verdict.text == "Converging: about 10–16 s."
    assert (verdict.low, verdict.high) == (pytest.approx(10), pytest.approx(16))


def test_a_guest_that_changes_more_than_the_link_moves_is_reported_in_numbers() -> None:
    verdict = convergence.judge(samples([(0, 0, 8), (10, 9, 11)]), at(10))
    assert verdict.text == "Not converging: the server changes 1.2 GiB/s, the link moves 921.6 MiB/s."
    assert verdict.low is None


def test_the_dirty_rate_that_the_hypervisor_reports_is_used() -> None:
    lines = [Sample(at(0), 8 * GB, 0, 8 * GB, dirty_rate=2.0 * GB), Sample(at(10), 8 * GB, 4 * GB, 4 * GB, 2.0 * GB)]
    assert convergence.judge(lines, at(10)).text.startswith("Not converging: the server changes 2.0 GiB/s")
    assert convergence.rates_of(lines)[0].dirtied == 2.0 * GB


def test_a_migration_without_progress_is_stalled() -> None:
    verdict = convergence.judge(samples([(0, 0, 8), (5, 1, 7), (6, 1, 7)]), at(40))
    assert verdict.text == "Stalled: nothing has moved for 35 s."


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "The migration has just started: there is nothing to measure yet."),
        ([(0, 0, 8)], "The migration has just started: there is nothing to measure yet."),
        ([(0, 0, 8), (9, 8, 0)], "All memory has arrived. The server is switching over."),
    ],
)
def test_the_ends_are_reported_as_they_are(rows: list[tuple[float, float, float]], text: str) -> None:
    assert convergence.judge(samples(rows), at(9)).text == text


def test_figures_without_a_total_are_no_sample() -> None:
    assert convergence.sample_of(BEGIN, {"memory_remaining": 5}) is None
    one = convergence.sample_of(BEGIN, {"memory_total": 8, "memory_remaining": 3, "memory_pass": 2})
    assert one is not None
    assert (one.moved, one.left, one.pass_number) == (5, 3, 2)
    earlier = convergence.sample_of(BEGIN, {"memory_total": 8, "memory_passes": 0})
    assert earlier is not None
    assert (earlier.pass_number, earlier.dirty_rate, earlier.is_post_copy_forced) == (None, None, False)


def passes(*rows: tuple[float, float, int]) -> list[Sample]:
    """Return samples of (seconds, GB left, pass); one GB takes a second, and the guest's dirty rate is lower."""
    return [
        Sample(at(seconds), 8 * GB, int(seconds * GB), int(left * GB), 0.4 * GB, number)
        for seconds, left, number in rows
    ]


def test_a_guest_that_writes_the_same_memory_over_and_over_does_not_converge() -> None:
    busy = passes((0, 8, 1), (8, 0.1, 1), (8.2, 3.9, 2), (12, 0.1, 2), (12.2, 3.8, 3))
    assert convergence.judge(busy, at(12.2)).text == (
        "Not converging: the server changes 409.6 MiB/s, the link moves 1.0 GiB/s."
    )
    calm = passes((0, 8, 1), (8, 0.1, 1), (8.2, 3.9, 2), (12, 0.1, 2), (12.2, 1.9, 3))
    assert convergence.judge(calm, at(12.2)).text.startswith("Converging")
    assert convergence.judge(busy[:4], at(12)).text.startswith("Converging"), "one pass is none to compare with"


@given(st.lists(st.tuples(st.floats(0, 600), st.integers(0, 99), st.integers(0, 99)), max_size=12), st.floats(0, 900))
def test_an_estimate_is_always_a_range_and_never_negative(rows: list[tuple[float, int, int]], now: float) -> None:
    verdict = convergence.judge(samples(sorted(rows)), at(now))
    assert verdict.text
    if verdict.low is not None and verdict.high is not None:
        assert 0 <= verdict.low <= verdict.high
    for rate in convergence.rates_of(samples(sorted(rows))):
        assert rate.moved >= 0
        assert rate.dirtied >= 0
