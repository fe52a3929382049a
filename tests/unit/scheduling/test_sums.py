"""Cached sums of a table, and the heaviest hosts found first, equal those of all hosts."""

from __future__ import annotations

import random

import numpy as np
import pytest

from conductor.core.host_state import HostState, HostTable
from conductor.core.scheduling.alternates import FEW, LEADERS, STRIPES, Ranking, alternates_by_cell, best_rows, heaviest
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.weighing import OUT, Multipliers, weigh
from conductor.core.scheduling.working_table import WorkingTable
from conductor.core.sums import Term
from tests.unit.scheduling.fleets import SHIPPED, host, spec

CELLS = ("cell1", "cell2", "cell3")


def drawn(dice: random.Random, row: int) -> HostState:
    return host(
        f"host-{row}",
        cell=CELLS[row % 3],
        memory_mb_used=dice.randrange(16_000),
        vcpus_used=dice.randrange(8),
        num_io_ops=dice.randrange(3),
    )


def totals(hosts: HostTable, passing: np.ndarray, **options: float) -> list[float]:
    weighing = weigh(hosts, spec(), SHIPPED.weighers, multipliers=Multipliers(options), passing=passing)
    assert not weighing.faults
    return list(map(float, weighing.totals))


def test_weights_after_changes_equal_those_computed_anew() -> None:
    dice = random.Random(3)
    hosts = HostTable.from_states([drawn(dice, row) for row in range(200)])
    for turn in range(40):
        passing = np.array([dice.random() < 0.9 for _ in range(200)])
        options = dice.choice(({}, {}, {"io_ops_weight_multiplier": 2.5}, {"ram_weight_multiplier": -1.0}))
        fresh = HostTable.from_states(hosts.states)
        assert totals(hosts, passing, **options) == totals(fresh, passing, **options), turn
        rows = dice.sample(range(200), dice.choice((0, 1, 5)))
        hosts = hosts.with_rows({row: drawn(dice, row) for row in rows})


def test_sums_are_of_the_table_s_own_columns_and_cannot_be_written() -> None:
    hosts = HostTable.from_states([host("host-0"), host("host-1", memory_mb_used=4096)])
    terms = (Term(hosts.name_of(hosts.unused_memory_mb), 0.0, float(hosts.unused_memory_mb.max()), 2.0),)
    made = hosts.sum_of(terms, lambda: terms[0].of(hosts.unused_memory_mb))
    assert made.tolist() == [2.0, 1.5]
    assert hosts.sum_of(terms, lambda: np.zeros(2)) is made
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 0.5
    later = hosts.with_rows({1: host("host-1", memory_mb_used=8192)})
    assert later.sum_of(terms, lambda: np.zeros(2)).tolist() == [2.0, 1.0]
    assert hosts.name_of(hosts.unused_memory_mb.copy()) == ""
    table = WorkingTable(hosts)
    table.take(0, spec(), needs_of(spec()))  # its columns change in place from here
    assert table.hosts.name_of(table.hosts.unused_memory_mb) == ""


@pytest.mark.parametrize("kinds", [2, 40, 10**9])
def test_the_heaviest_are_the_same_whether_all_are_looked_at_or_a_few_first(kinds: int) -> None:
    dice = random.Random(kinds)
    count = STRIPES * LEADERS * 2
    hosts = HostTable.from_states([drawn(dice, row) for row in range(count)])
    for _ in range(8):
        weights = np.array([float(dice.randrange(kinds)) for _ in range(count)])
        weights[[dice.random() < dice.choice((0.0, 0.1, 0.97)) for _ in range(count)]] = OUT
        seed, wanted = dice.choice((None, 1, 2)), dice.choice((1, 2, 5))
        ranking = Ranking(weights)
        best = ranking.best(wanted, seed)
        assert best == best_rows(weights, wanted, seed)
        assert (
            sorted(weights[best], reverse=True) == weights[best].tolist() == weights[heaviest(weights, wanted)].tolist()
        )
        found = alternates_by_cell(hosts, ranking, best, count=3, seed=seed)
        assert found.keys() == {hosts.states[row].cell for row in best}
        for cell, rows in found.items():
            left = np.where(hosts.factor("cell").mask(cell.__eq__), weights, OUT)
            left[best] = OUT
            assert not {*rows} & {*best}
            assert left[rows].tolist() == left[heaviest(left, 3)].tolist()


def test_many_equal_hosts_are_all_considered() -> None:
    ranking = Ranking(np.ones(FEW * 10))
    firsts = {ranking.best(1, seed)[0] for seed in range(50)}
    assert len(firsts) > 40
