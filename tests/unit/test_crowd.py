"""Who loses claims draws among more hosts for a while; who loses none takes the best."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import crowd as module
from conductor.scheduler.crowd import QUIET_SECONDS, Crowd, widened
from tests.unit.scheduling.fleets import SHIPPED

PIPELINE = Pipeline(SHIPPED.filters, SHIPPED.weighers)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def crowd(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    made = Crowd(clock)
    monkeypatch.setattr(module, "crowd", made)
    assert made.width("one") == 1
    return made


def test_who_wins_all_claims_takes_the_best(crowd: Crowd) -> None:
    for _ in range(100):
        crowd.won()
        assert crowd.width("one") == 1
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=0) is PIPELINE


def test_each_loss_widens_up_to_the_bound_and_each_win_narrows_down_to_the_best(crowd: Crowd, settings: Any) -> None:
    settings.NOVELLA_CROWD_SUBSET_SIZE = 100
    widths = []
    for _ in range(4):
        crowd.lost()
        widths.append(crowd.width("one"))
    assert widths == [8, 64, 100, 100]
    crowd.won()
    assert crowd.width("one") == 95
    for _ in range(100):
        crowd.won()
    assert crowd.width("one") == 1


def test_after_a_minute_without_a_loss_and_in_another_database_it_is_over(crowd: Crowd, clock: Clock) -> None:
    crowd.lost()
    clock.now += QUIET_SECONDS
    assert crowd.width("one") == 8
    clock.now += 1
    assert crowd.width("one") == 1
    crowd.lost()
    assert crowd.width("one") == 8
    assert crowd.width("two") == 1


def test_operators_may_keep_it_from_drawing(crowd: Crowd, settings: Any) -> None:
    settings.NOVELLA_CROWD_SUBSET_SIZE = 1
    crowd.lost()
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=1) is PIPELINE


def test_a_batch_draws_once_it_has_lost_and_nobody_draws_among_fewer_than_operators_say(crowd: Crowd) -> None:
    crowd.lost()
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=0).host_subset_size == 8
    assert widened(PIPELINE, epoch="one", is_batch=True, lost=0) is PIPELINE
    assert widened(PIPELINE, epoch="one", is_batch=True, lost=1).host_subset_size == 8
    wide = Pipeline(SHIPPED.filters, SHIPPED.weighers, host_subset_size=30)
    assert widened(wide, epoch="one", is_batch=False, lost=0) is wide
