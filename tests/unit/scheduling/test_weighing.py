"""Normalising, multipliers, weighers, and the order of equals."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.scheduling.alternates import best_rows, heaviest, pick
from conductor.core.scheduling.weighing import OUT, Multipliers, Weighing, weigh
from conductor.core.weigher import Weigher
from tests.unit.scheduling.fleets import WEIGHERS, host, spec, table

EVERY = tuple(WEIGHERS.values())


class Given(Weigher):
    """A weigher that returns given weights."""

    name = "Given"

    def __init__(self, raw: list[float], minval: float | None = None, maxval: float | None = None) -> None:
        self.raw, self.minval, self.maxval = raw, minval, maxval

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return np.array(self.raw, np.float64)


def weighed(one: Weigher, count: int, passing: list[bool] | None = None) -> Weighing:
    hosts = table(*(host(f"host-{index}") for index in range(count)))
    mask = np.array(passing or [True] * count)
    return weigh(hosts, spec(), (one,), multipliers=Multipliers(), passing=mask)


def normalized(raw: list[float], low: float | None = None, high: float | None = None) -> list[float]:
    weighing = weighed(Given(raw, low, high), len(raw))
    assert not weighing.faults
    by_row = [part.of(row)[1] for part in weighing.parts for row in range(len(raw))]
    assert weighing.totals.tolist() == (by_row or [0.0])
    return by_row


@pytest.mark.parametrize(
    ("raw", "ends", "shares"),
    [
        ([1, 2, 3], (None, None), [0.0, 0.5, 1.0]),
        ([7, 7], (None, None), [0.0, 0.0]),
        ([7, 7], (0.0, None), [1.0, 1.0]),
        ([0, 0], (0.0, None), [0.0, 0.0]),
        ([2, 4], (0.0, None), [0.5, 1.0]),
        ([-2, 4], (0.0, None), [0.0, 1.0]),
        ([-4, -2], (0.0, None), [0.0, 0.0]),
        ([1, 3], (None, 2.0), [0.0, 1.0]),
        ([0, 5, 20], (0.0, 10.0), [0.0, 0.5, 1.0]),
    ],
)
def test_normalize(raw: list[float], ends: tuple[float | None, float | None], shares: list[float]) -> None:
    assert normalized(raw, *ends) == shares


@settings(deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=20))
def test_shares_are_between_nothing_and_all_and_keep_the_order(raw: list[float]) -> None:
    shares = normalized(raw)
    assert all(0.0 <= share <= 1.0 for share in shares)
    for (a, x), (b, y) in zip(zip(raw, shares, strict=True), zip(raw[1:], shares[1:], strict=True), strict=False):
        assert (a <= b) == (x <= y) or x == y


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_an_error_for_candidates_only(bad: float) -> None:
    assert weighed(Given([1.0, bad, 3.0]), 3).faults[0].error == "a weight is not finite"
    weighing = weighed(Given([1.0, bad, 3.0]), 3, [True, False, True])
    assert (weighing.totals.tolist(), weighing.faults) == ([0.0, OUT, 1.0], ())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=12),
    st.sampled_from([(None, None), (0.0, None), (None, 2.0), (-1.0, 3.0)]),
)
def test_only_candidates_count(hosts: list[tuple[int, bool]], ends: tuple[float | None, float | None]) -> None:
    passing = [passes for _, passes in hosts]
    weighing = weighed(Given([raw for raw, _ in hosts], *ends), len(hosts), passing)
    alone = weighed(Given([raw for raw, passes in hosts if passes], *ends), sum(passing))
    assert [total for total, passes in zip(weighing.totals, passing, strict=True) if passes] == alone.totals.tolist()
    assert all(total == OUT for total, passes in zip(weighing.totals, passing, strict=True) if not passes)
    assert weighing.count == sum(passing)


def totals(hosts: HostTable, request: RequestSpec, **options: float) -> list[float]:
    passing = np.ones(len(hosts), np.bool_)
    return weigh(hosts, request, EVERY, multipliers=Multipliers(options), passing=passing).totals.tolist()


def raw(name: str, hosts: HostTable, request: RequestSpec | None = None) -> list[float]:
    return WEIGHERS[name].weigh(hosts, request or spec()).tolist()


def test_weights_of_the_built_in_weighers() -> None:
    hosts = table(
        host("host-0", memory_mb=1000, ram_ratio=2.0, memory_mb_used=1200, vcpus=4, cpu_ratio=4.0, vcpus_used=3),
        host("host-1", memory_mb=1000, reserved_memory_mb=100, disk_gb_used=40, num_io_ops=2),
        host("host-2", disk_available_least_gb=7),
    )
    assert raw("RAMWeigher", hosts) == [-200.0, 900.0, 16384.0]
    assert raw("CPUWeigher", hosts) == [13.0, 8.0, 8.0]
    assert raw("DiskWeigher", hosts) == [100 * 1024.0, 60 * 1024.0, 7 * 1024.0]
    assert raw("IoOpsWeigher", hosts) == [0.0, 2.0, 0.0]
    assert {name: one.multiplier for name, one in WEIGHERS.items()} == {
        "RAMWeigher": 1.0,
        "CPUWeigher": 1.0,
        "DiskWeigher": 1.0,
        "IoOpsWeigher": -1.0,
        "ServerGroupSoftAffinityWeigher": 1.0,
        "ServerGroupSoftAntiAffinityWeigher": 1.0,
        "NumInstancesWeigher": 0.0,
        "PCIWeigher": 1.0,
        "BuildFailureWeigher": 1_000_000.0,
        "HypervisorVersionWeigher": 1.0,
        "CrossCellWeigher": 1_000_000.0,
        "ImagePropertiesWeigher": 0.0,
        "MetricsWeigher": 1.0,
    }


@pytest.mark.parametrize(
    ("policy", "near", "apart"),
    [
        ("soft-affinity", [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]),
        ("soft-anti-affinity", [0.0, 0.0, 0.0], [-1.0, -2.0, 0.0]),
        ("affinity", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ],
)
def test_soft_groups(policy: str, near: list[float], apart: list[float]) -> None:
    hosts = table(*(host(f"host-{index}") for index in range(3)))
    group = GroupSpec("group", policy, member_hosts={"a": "host-0", "b": "host-1", "c": "host-1", "d": "", "e": "gone"})
    assert raw("ServerGroupSoftAffinityWeigher", hosts, spec(group=group)) == near
    assert raw("ServerGroupSoftAntiAffinityWeigher", hosts, spec(group=group)) == apart


def test_totals_are_sums_of_shares_times_multipliers() -> None:
    hosts = table(host("host-0", memory_mb=1024, num_io_ops=4), host("host-1", memory_mb=512, disk_gb=50))
    assert totals(hosts, spec()) == [1.0 + 1.0 + 1.0 - 1.0, 0.5 + 1.0 + 0.5 - 0.0]
    assert totals(hosts, spec(), ram_weight_multiplier=-2.0) == [-2.0 + 1.0 + 1.0 - 1.0, -1.0 + 1.0 + 0.5]


def test_an_aggregate_s_multiplier_counts_for_its_hosts_and_the_least_of_several() -> None:
    key = "ram_weight_multiplier"
    hosts = table(
        host("host-0", aggregate_metadata={key: frozenset({"5.0", "3.0"})}),
        host("host-1", aggregate_metadata={key: frozenset({"many"})}),
        host("host-2"),
    )
    weighing = weigh(
        hosts, spec(), (WEIGHERS["RAMWeigher"],), multipliers=Multipliers({key: 2.0}), passing=np.ones(3, bool)
    )
    assert weighing.totals.tolist() == [3.0, 2.0, 2.0]


def test_a_single_candidate_is_not_weighed() -> None:
    hosts = table(host("host-0"), host("host-1"))
    weighing = weigh(hosts, spec(), EVERY, multipliers=Multipliers(), passing=np.array([False, True]))
    assert (weighing.totals.tolist(), weighing.parts) == ([OUT, 0.0], ())


class Broken(Weigher):
    name = "Broken"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        raise RuntimeError("secret")


class Short(Weigher):
    name = "Short"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return np.zeros(1)


class Infinite(Weigher):
    name = "Infinite"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return np.full(len(hosts), np.inf)


def test_a_failed_weigher_is_ignored_and_reported() -> None:
    hosts = table(host("host-0"), host("host-1", memory_mb=1))
    one = (Broken(), Short(), WEIGHERS["RAMWeigher"], Infinite())
    weighing = weigh(hosts, spec(), one, multipliers=Multipliers(), passing=np.ones(2, np.bool_))
    assert weighing.totals.tolist() == [1.0, 1 / 16384]
    assert [(fault.plugin, fault.count, fault.error, fault.consequence) for fault in weighing.faults] == [
        ("Broken", 2, "RuntimeError", "left out"),
        ("Short", 2, "column of 2 numbers expected", "left out"),
        ("Infinite", 2, "a weight is not finite", "left out"),
    ]


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 4), max_size=30), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_best_rows_are_the_heaviest_in_order(weights: list[int | None], count: int, seed: int) -> None:
    totals = np.array([OUT if weight is None else weight for weight in weights], np.float64)
    before = totals.copy()
    best = best_rows(totals, count, seed)
    candidates = sorted((weight for weight in weights if weight is not None), reverse=True)
    assert [totals[row] for row in best] == candidates[:count]
    assert len(set(best)) == len(best)
    assert best == best_rows(totals, count, seed)
    in_order = heaviest(totals, count)
    assert [totals[row] for row in in_order] == candidates[:count]
    assert in_order == sorted(in_order, key=lambda row: (-totals[row], row))
    assert np.array_equal(totals, before)


def test_equals_are_drawn_fairly_by_the_seed() -> None:
    firsts = [best_rows(np.ones(10), 1, seed)[0] for seed in range(2000)]
    assert min(firsts.count(row) for row in range(10)) > 120


def test_the_subset_is_drawn_from() -> None:
    assert pick([5, 3, 9], None) == 5
    assert {pick([5, 3, 9], random.Random(seed)) for seed in range(50)} == {5, 3, 9}
