"""Normalising, multipliers, weighers, and the order of equals."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.scheduling.alternates import best_rows, pick
from conductor.core.scheduling.filtering import Nonsense
from conductor.core.scheduling.weighing import Multipliers, Weighing, normalize, weigh
from conductor.core.weigher import Weigher
from tests.unit.scheduling.fleets import WEIGHERS, host, spec, table

EVERY = tuple(WEIGHERS.values())


def normalized(raw: list[float], low: float | None = None, high: float | None = None) -> list[float]:
    return normalize(np.array(raw, np.float64), low, high)[1].tolist()


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


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_shares_are_between_nothing_and_all_and_keep_the_order(raw: list[float]) -> None:
    shares = normalized(raw)
    assert all(0.0 <= share <= 1.0 for share in shares)
    for (a, x), (b, y) in zip(zip(raw, shares, strict=True), zip(raw[1:], shares[1:], strict=True), strict=False):
        assert (a <= b) == (x <= y) or x == y


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_nonsense(bad: float) -> None:
    with pytest.raises(Nonsense):
        normalized([1.0, bad])


def totals(hosts: HostTable, request: RequestSpec, **options: float) -> list[float]:
    rows = np.arange(len(hosts))
    return weigh(hosts, request, EVERY, multipliers=Multipliers(options), rows=rows).totals.tolist()


def raw(name: str, hosts: HostTable, request: RequestSpec | None = None) -> list[float]:
    return WEIGHERS[name].weigh(hosts, request or spec()).tolist()


def test_the_shipped_weighers_say() -> None:
    hosts = table(
        host("host-0", memory_mb=1000, ram_ratio=2.0, memory_mb_used=1200, vcpus=4, cpu_ratio=4.0, vcpus_used=3),
        host("host-1", memory_mb=1000, reserved_memory_mb=100, disk_gb_used=40, num_io_ops=2),
        host("host-2", disk_available_least_gb=7),
    )
    assert raw("RAMWeigher", hosts) == [-200.0, 900.0, 16384.0]
    assert raw("CPUWeigher", hosts) == [13.0, 8.0, 8.0]
    assert raw("DiskWeigher", hosts) == [100.0, 60.0, 7.0]
    assert raw("IoOpsWeigher", hosts) == [0.0, 2.0, 0.0]
    assert {name: one.multiplier for name, one in WEIGHERS.items()} == {
        "RAMWeigher": 1.0,
        "CPUWeigher": 1.0,
        "DiskWeigher": 1.0,
        "IoOpsWeigher": -1.0,
        "ServerGroupSoftAffinityWeigher": 1.0,
        "ServerGroupSoftAntiAffinityWeigher": 1.0,
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
    weighing = weigh(hosts, spec(), (WEIGHERS["RAMWeigher"],), multipliers=Multipliers({key: 2.0}), rows=np.arange(3))
    assert weighing.totals.tolist() == [3.0, 2.0, 2.0]


def test_a_lone_candidate_is_not_weighed() -> None:
    hosts = table(host("host-0"), host("host-1"))
    weighing = weigh(hosts, spec(), EVERY, multipliers=Multipliers(), rows=np.array([1]))
    assert (weighing.totals.tolist(), weighing.parts) == ([0.0], ())


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


def test_a_weigher_that_fails_has_no_say_and_is_named() -> None:
    hosts = table(host("host-0"), host("host-1", memory_mb=1))
    one = (Broken(), Short(), WEIGHERS["RAMWeigher"], Infinite())
    weighing = weigh(hosts, spec(), one, multipliers=Multipliers(), rows=np.arange(2))
    assert weighing.totals.tolist() == [1.0, 1 / 16384]
    assert [(fault.plugin, fault.count, fault.error, fault.consequence) for fault in weighing.faults] == [
        ("Broken", 2, "RuntimeError", "left out"),
        ("Short", 2, "column of 2 numbers expected", "left out"),
        ("Infinite", 2, "a weight is not finite", "left out"),
    ]


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_best_rows_are_the_heaviest_in_order(weights: list[int], count: int, seed: int) -> None:
    rows = np.arange(len(weights)) * 3
    weighing = Weighing(rows, np.array(weights, np.float64))
    best = best_rows(weighing, count, seed).tolist()
    assert [weights[row // 3] for row in best] == sorted(weights, reverse=True)[:count]
    assert len(set(best)) == len(best)
    assert best == best_rows(weighing, count, seed).tolist()
    assert best == best_rows(weighing, len(weights), seed).tolist()[:count] or len(set(weights)) < len(weights)


def test_equals_are_drawn_fairly_by_the_seed() -> None:
    weighing = Weighing(np.arange(10), np.ones(10))
    firsts = [int(best_rows(weighing, 1, seed)[0]) for seed in range(2000)]
    assert min(firsts.count(row) for row in range(10)) > 120


def test_the_subset_is_drawn_from_the_best_and_the_rest_keep_their_order() -> None:
    ordered = np.array([5, 3, 9, 1])
    assert pick(ordered, 1, random.Random(1)).tolist() == [5, 3, 9, 1]
    seen = {tuple(pick(ordered, 3, random.Random(seed)).tolist()) for seed in range(50)}
    assert seen == {(5, 3, 9, 1), (3, 5, 9, 1), (9, 5, 3, 1)}
