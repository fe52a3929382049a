"""Contention: a scheduler that loses claims chooses among more hosts for a while; otherwise it takes the best."""

from __future__ import annotations

import random
from typing import Any

import pytest

from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import contention as module
from conductor.scheduler.contention import QUIET_SECONDS, ContentionTracker, widened
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
def contention(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ContentionTracker:
    made = ContentionTracker(clock)
    monkeypatch.setattr(module, "tracker", made)
    assert made.width("one") == 1
    return made


def test_a_scheduler_that_wins_all_claims_takes_the_best_host(contention: ContentionTracker) -> None:
    for _ in range(100):
        contention.won()
        assert contention.width("one") == 1
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=0) is PIPELINE


def test_each_loss_widens_up_to_the_bound_and_each_win_narrows_down_to_the_best(
    contention: ContentionTracker, settings: Any
) -> None:
    settings.NOVELLA_CONTENTION_SUBSET_SIZE = 100
    widths = []
    for _ in range(4):
        contention.lost()
        widths.append(contention.width("one"))
    assert widths == [16, 100, 100, 100]
    contention.won()
    assert contention.width("one") == 98
    for _ in range(300):
        contention.won()
    assert contention.width("one") == 1


def test_after_a_minute_without_a_loss_and_in_another_database_it_is_over(
    contention: ContentionTracker, clock: Clock
) -> None:
    contention.lost()
    clock.now += QUIET_SECONDS
    assert contention.width("one") == 16
    clock.now += 1
    assert contention.width("one") == 1
    contention.lost()
    assert contention.width("one") == 16
    assert contention.width("two") == 1


def test_operators_may_keep_it_from_drawing(contention: ContentionTracker, settings: Any) -> None:
    settings.NOVELLA_CONTENTION_SUBSET_SIZE = 1
    contention.lost()
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=1) is PIPELINE


def test_a_batch_draws_once_it_has_lost_and_never_among_fewer_than_operators_configure(
    contention: ContentionTracker,
) -> None:
    contention.lost()
    assert widened(PIPELINE, epoch="one", is_batch=False, lost=0).host_subset_size == 16
    assert widened(PIPELINE, epoch="one", is_batch=True, lost=0) is PIPELINE
    assert widened(PIPELINE, epoch="one", is_batch=True, lost=1).host_subset_size == 16
    wide = Pipeline(SHIPPED.filters, SHIPPED.weighers, host_subset_size=30)
    assert widened(wide, epoch="one", is_batch=False, lost=0) is wide


class Decider:
    """Looks at the hosts, and claims what it found when others have had their turns."""

    def __init__(self, contention: ContentionTracker, dice: random.Random, free: dict[int, bool]) -> None:
        self.contention, self.dice, self.free = contention, dice, free
        self.held: list[int] = []
        self.to_try: list[int] = []
        self.placed = self.lost = self.lost_now = 0

    def look(self) -> None:
        open_hosts = [host for host, is_free in self.free.items() if is_free]  # the best first
        self.width = self.contention.width("one")
        best = self.dice.choice(open_hosts[: self.width])
        others = [host for host in open_hosts if host != best]
        self.to_try = [best, *(self.dice.sample(others[: 2 * self.width], 2) if self.width > 1 else others[:2])]

    def turn(self) -> None:
        host = self.to_try.pop(0)
        if self.free[host]:
            self.free[host] = False
            self.placed, self.lost_now = self.placed + 1, 0
            self.contention.won()
            self.held.append(host)
            if len(self.held) > 2:
                self.free[self.held.pop(0)] = True
            self.look()
            return
        self.lost, self.lost_now = self.lost + 1, self.lost_now + 1
        self.contention.lost()
        if not self.to_try or (self.width == 1 and self.lost_now > 1):
            self.look()


def attempts(deciders: int, placements: int) -> float:
    """Return attempts per placement of so many schedulers, on hosts with capacity for one server each."""
    dice, clock = random.Random(deciders), Clock()
    free = dict.fromkeys(range(600), True)
    crew = [Decider(ContentionTracker(clock), dice, free) for _ in range(deciders)]
    for one in crew:
        one.look()
    while sum(one.placed for one in crew) < placements:
        dice.choice(crew).turn()
    placed, lost = sum(one.placed for one in crew), sum(one.lost for one in crew)
    return (placed + lost) / placed


def test_schedulers_that_find_the_same_best_host_spread_after_lost_claims(settings: Any) -> None:
    assert attempts(1, 50) == 1.0
    assert attempts(32, 800) <= 1.2
    settings.NOVELLA_CONTENTION_SUBSET_SIZE = 1
    assert attempts(32, 200) > 3
