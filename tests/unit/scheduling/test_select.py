"""The whole pipeline against its laws, and against a plain loop that does the same one host at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.host_state import CLAIMED_COLUMNS, HostState, HostTable, Mask
from conductor.core.request_spec import GroupSpec, MoveSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.filtering import Rules
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import Pipeline, SelectionResult, decide, links_of
from conductor.core.scheduling.weighing import Multipliers, weigh
from conductor.core.verdict import PASS, Verdict, reject
from tests.unit.scheduling.fleets import SHIPPED, host, hosts, spec, specs, table

PIPELINE = Pipeline(SHIPPED.filters, SHIPPED.weighers)


class PerHost(Filter):
    """Answers only for one host at a time, and lets hosts fill up to three instances."""

    name = "PerHost"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return PASS if host.num_instances < 3 else reject("three are enough", need="fewer", have=host.num_instances)


def run(
    states: Any, request: RequestSpec, count: int = 1, *, pipeline: Pipeline = PIPELINE, seed: int = 7
) -> SelectionResult:
    uuids = [f"new-{index}" for index in range(count)]
    return decide(table(*states), request, uuids, pipeline=pipeline, seed=seed)


def names(outcome: SelectionResult) -> list[list[str]]:
    return [[selection.host for selection in chosen] for chosen in outcome.selections()]


def taken(state: HostState, request: RequestSpec) -> HostState:
    resources = needs_of(request).resources
    return replace(
        state,
        vcpus_used=state.vcpus_used + resources.get("VCPU", 0),
        memory_mb_used=state.memory_mb_used + resources.get("MEMORY_MB", 0),
        disk_gb_used=state.disk_gb_used + resources.get("DISK_GB", 0),
        num_instances=state.num_instances + 1,
        num_io_ops=state.num_io_ops + 1,
    )


@settings(max_examples=250, deadline=None)
@given(states=hosts, request=specs, count=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_every_pick_is_a_best_host_of_a_plain_loop(
    states: list[HostState], request: RequestSpec, count: int, seed: int
) -> None:
    pipeline = replace(PIPELINE, filters=(*SHIPPED.filters, PerHost()))
    outcome = run(states, request, count, pipeline=pipeline, seed=seed)
    picks = list(outcome.picks)
    followed = 0
    for index in range(count):
        chain = links_of(table(*states), request, pipeline)
        passing = [row for row, state in enumerate(states) if all(one.host_passes(state, request) for one in chain)]
        if not passing:
            assert not picks
            assert outcome.shown.index == index
            return
        if not picks:  # refused in a later round, without the earlier picks
            return
        mask = np.isin(np.arange(len(states)), passing)
        totals = weigh(table(*states), request, pipeline.weighers, multipliers=Multipliers(), passing=mask).totals
        row = picks[followed]
        assert row in passing
        assert totals[row] == totals.max()
        followed += 1
        states = [taken(state, request) if at == row else state for at, state in enumerate(states)]
        if request.group:
            members = {**request.group.member_hosts, f"new-{index}": states[row].host}
            request = replace(request, group=replace(request.group, member_hosts=members))
    assert followed == count


@settings(max_examples=150, deadline=None)
@given(states=hosts, request=specs, count=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_laws_of_any_outcome(states: list[HostState], request: RequestSpec, count: int, seed: int) -> None:
    snapshot = table(*states)
    before = {name: getattr(snapshot, name).copy() for name in CLAIMED_COLUMNS}
    uuids = [f"new-{index}" for index in range(count)]
    outcome = decide(snapshot, request, uuids, pipeline=PIPELINE, seed=seed)
    again = decide(table(*states), request, uuids, pipeline=PIPELINE, seed=seed)
    assert explain(again) == explain(outcome)  # pure
    assert snapshot.states == tuple(states)
    assert all((getattr(snapshot, name) == column).all() for name, column in before.items())
    assert len(outcome.selections()) in (0, count)  # all or none
    chosen = {(picked[0].host, picked[0].node) for picked in outcome.selections()}
    for picked, *alternates in outcome.selections():
        assert len(alternates) <= PIPELINE.max_attempts - 1
        assert all(alternate.cell == picked.cell for alternate in alternates)
        assert not chosen & {(alternate.host, alternate.node) for alternate in alternates}
        assert len({(one.host, one.node) for one in alternates}) == len(alternates)
        assert all(selection.resources == needs_of(request).resources for selection in (picked, *alternates))


@settings(max_examples=150, deadline=None)
@given(states=hosts, request=specs, count=st.integers(1, 4))
def test_every_decision_accounts_for_every_host(states: list[HostState], request: RequestSpec, count: int) -> None:
    outcome = run(states, request, count)
    decision = explain(outcome)
    assert len(decision.hosts) == len(states) == decision.num_hosts
    funnel = decision.funnel
    assert [stage.before for stage in funnel] == [len(states), *(stage.after for stage in funnel[:-1])]
    assert all(stage.before - stage.after == stage.rejected for stage in funnel)
    by_filter = {stage.filter: stage.rejected for stage in funnel if stage.rejected}
    rejected = [one.rejected_by for one in decision.hosts if not one.passed]
    assert {name: rejected.count(name) for name in by_filter} == by_filter
    assert sum(one.passed for one in decision.hosts) == funnel[-1].after
    counted = [line for line in decision.advice if f" of {len(states)} host" in line]
    assert sum(int(line.split()[0]) for line in counted) == len(states)
    assert decision.is_successful == (len(decision.selections) == count)
    message = " ".join(decision.advice)
    assert not any(state.host in message for state in states)


def test_many_instances_take_their_share_as_they_go() -> None:
    states = [host(f"host-{index}", vcpus=4) for index in range(5)]
    outcome = run(states, spec(vcpus=2), 10)
    assert sorted(row for row in outcome.picks) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert run(states, spec(vcpus=2), 11).picks == ()
    assert run(states, spec(vcpus=2), 11).shown.index == 10


def test_alternates_are_next_best_in_the_same_cell() -> None:
    states = [host(f"host-{index}", memory_mb=10000 - index) for index in range(5)]
    states[1] = replace(states[1], cell="cell2")
    assert names(run(states, spec())) == [["host-0", "host-2", "host-3"]]
    assert names(run(states[:1], spec())) == [["host-0"]]
    lone = replace(PIPELINE, max_attempts=1)
    assert names(run(states, spec(), pipeline=lone)) == [["host-0"]]


def test_with_a_subset_alternates_are_drawn_from_the_next_best_hosts() -> None:
    states = [host(f"host-{index:02}", memory_mb=10000 - index) for index in range(40)]
    drawn = replace(PIPELINE, host_subset_size=8)
    seen = {tuple(names(run(states, spec(), pipeline=drawn, seed=seed))[0]) for seed in range(40)}
    assert len({chosen[1:] for chosen in seen}) > 20
    for picked, *alternates in seen:
        assert picked < "host-08"
        assert len({picked, *alternates}) == 3
        assert all(one < "host-17" for one in alternates)  # 2 of 8 each, and the picked one is none of them
    again = [names(run(states, spec(), pipeline=drawn, seed=3)) for _ in range(2)]
    assert again[0] == again[1]
    few = names(run(states[:2], spec(), pipeline=drawn))
    assert sorted(few[0]) == ["host-00", "host-01"]


def test_alternates_of_a_batch_fit_beside_the_batch() -> None:
    states = [host("host-0", vcpus=2), host("host-1", vcpus=2, memory_mb=600), host("host-2", vcpus=1, memory_mb=600)]
    chosen = names(run(states, spec(), 2))
    assert chosen == [["host-0", "host-2"], ["host-1", "host-2"]]
    assert names(run(states[:1], spec(), 2)) == [["host-0"], ["host-0"]]


def test_an_anti_affinity_batch_goes_apart_and_an_affinity_batch_together() -> None:
    states = [host(f"host-{index}") for index in range(4)]
    apart = run(states, spec(group=GroupSpec("group", "anti-affinity", member_hosts={"old": "host-0"})), 3)
    assert sorted(apart.picks) == [1, 2, 3]
    assert [len(chosen) for chosen in apart.selections()] == [1, 1, 1]  # no host is left that could be an alternate
    together = run(states, spec(group=GroupSpec("group", "affinity", member_hosts={"old": "host-2"})), 3)
    assert together.picks == (2, 2, 2)
    anew = run(states, spec(group=GroupSpec("group", "affinity")), 2)
    assert len(set(anew.picks)) == 1
    assert [len(chosen) for chosen in anew.selections()] == [1, 1]  # an alternate would part them
    mine = GroupSpec("group", "anti-affinity", member_hosts={"new-0": "host-0", "new-1": ""})
    assert run(states[:1], spec(group=mine)).picks == (0,)  # where its own instances were does not count


def test_forced_hosts_skip_the_filters_but_not_the_room() -> None:
    down = host("host-0", is_up=False, availability_zone="az-1")
    request = spec(force_hosts=("host-0",), availability_zone="az-2")
    assert names(run([down, host("host-1")], request)) == [["host-0"]]
    assert run([replace(down, vcpus=0), host("host-1")], request).picks == ()
    assert names(run([host("host-0"), host("host-1")], spec(ignore_hosts=("host-0",)))) == [["host-1"]]


def test_a_requested_host_is_checked_by_every_filter() -> None:
    request = spec(requested_host="host-0", availability_zone="az-2")
    away = host("host-0", availability_zone="az-1")
    assert run([away, host("host-1", availability_zone="az-2")], request).picks == ()
    there = host("host-0", availability_zone="az-2")
    assert names(run([there, host("host-1", availability_zone="az-2")], request)) == [["host-0"]]
    assert run([replace(there, is_up=False)], request).picks == ()


def test_an_existing_instance_stays_in_its_cell_and_on_its_kind_of_hosts() -> None:
    can = {"actions": ("live_migrate",)}
    move = MoveSpec("cell1", "m-1", hypervisor_type="QEMU", capability="live_migrate")
    fits = host("host-0", cell="cell1", hypervisor_type="QEMU", capabilities=can)
    others = [
        replace(fits, host="host-1", cell="cell2"),
        replace(fits, host="host-2", hypervisor_type="fake"),
        replace(fits, host="host-3", capabilities={}),
    ]
    assert run(others, spec(move=move)).picks == ()
    assert names(run([*others, fits], spec(move=move)))[0][0] == "host-0"
    assert names(run([*others, fits], spec(move=move, force_hosts=("host-0",))))[0][0] == "host-0"
    assert run(others, spec(move=move, force_hosts=("host-1",))).picks == ()


def test_a_zone_is_kept_to_even_without_its_filter() -> None:
    states = [host("host-0"), host("host-1", availability_zone="az-1", memory_mb=1024)]
    bare = replace(PIPELINE, filters=())
    assert names(run(states, spec(availability_zone="az-1"), pipeline=bare)) == [["host-1"]]
    assert [one.name for one in links_of(table(*states), spec(), bare)] == ["placement", "AvailabilityZoneFilter"]
    assert [one.name for one in links_of(table(*states), spec(), PIPELINE)].count("AvailabilityZoneFilter") == 1


def test_a_subset_draws_among_the_best_only() -> None:
    states = [host(f"host-{index}", memory_mb=9000 - index) for index in range(6)]
    drawn = {run(states, spec(), pipeline=replace(PIPELINE, host_subset_size=3), seed=seed).picks for seed in range(60)}
    assert drawn == {(0,), (1,), (2,)}


def test_equal_hosts_are_not_all_given_the_first_row() -> None:
    states = [host(f"host-{index}") for index in range(8)]
    assert len({run(states, spec(), seed=seed).picks for seed in range(100)}) == 8


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"resources:VCPU": "many"},
        {"resources:VCPU": "-1"},
        {"trait:HW_FAST": "maybe"},
        {"resources1:VCPU": "1.5"},
        {"resources:NO_SUCH_CLASS": "1"},
        {"group_policy": "apart"},
    ],
)
def test_unreadable_requirements_are_refused(extra_specs: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        run([host()], spec(extra_specs=extra_specs))


class Raises(Filter):
    name = "Raises"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if host.host == "host-1":
            raise RuntimeError("/secret/path")
        return PASS


class RaisesForAll(Raises):
    name = "RaisesForAll"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        raise RuntimeError("/secret/path")


class WrongShape(Raises):
    name = "WrongShape"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.ones(1, np.bool_)


class WrongType(Filter):
    name = "WrongType"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return "yes"  # type: ignore[return-value]


FLEET = (host("host-0"), host("host-1"), host("host-2"))


def test_a_filter_that_fails_about_one_host_turns_that_one_away() -> None:
    outcome = run(FLEET, spec(), pipeline=replace(PIPELINE, filters=(Raises(),)))
    decision = explain(outcome)
    assert outcome.is_successful
    assert [dict(fault) for fault in decision.faults] == [
        {"kind": "filter", "plugin": "Raises", "count": 1, "error": "RuntimeError", "consequence": "rejected"}
    ]
    assert decision.advice == (
        "2 of 3 hosts are eligible.",
        "1 of 3 hosts: the filter failed (RuntimeError).",
        "Filter Raises failed (RuntimeError) on 1 host; consequence: rejected.",
    )
    assert "secret" not in repr(decision)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (RaisesForAll(), "RuntimeError"),
        (WrongShape(), "mask of 3 bools expected"),
        (WrongType(), "Verdict expected, not str"),
    ],
)
def test_a_filter_that_fails_about_all_rejects_all_unless_configured_otherwise(broken: Filter, error: str) -> None:
    closed = replace(PIPELINE, filters=(broken, *SHIPPED.filters))
    outcome = run(FLEET, spec(), pipeline=closed)
    assert outcome.picks == ()
    assert [(fault.plugin, fault.count, fault.error) for fault in outcome.faults] == [(broken.name, 3, error)]
    opened = replace(closed, rules=Rules(frozenset({broken.name})))
    outcome = run(FLEET, spec(), pipeline=opened)
    assert outcome.is_successful
    assert [(fault.plugin, fault.consequence) for fault in outcome.faults] == [(broken.name, "let pass")]


def test_near_misses_come_in_the_order_of_what_they_lack() -> None:
    states = (
        host("host-0", memory_mb=100),
        host("host-1", memory_mb=500),
        host("host-2", memory_mb=511, is_up=False),
        host("host-3", availability_zone="az-1"),
    )
    decision = explain(run(states, spec(availability_zone="nova")))
    assert [(miss.host, miss.rejected_by, miss.shortfall) for miss in decision.nearest] == [
        ("host-1", "placement", 0.0234),
        ("host-0", "placement", 0.8047),
        ("host-3", "AvailabilityZoneFilter", None),
    ]
    assert decision.advice[-2:] == (
        "2 hosts match but are full.",
        "1 host is rejected only by AvailabilityZoneFilter.",
    )


def test_no_hosts_at_all() -> None:
    decision = explain(run((), spec()), {"cell2": "no answer"})
    assert decision.advice == ("There are no hosts.", "Cell cell2 did not answer: its hosts were not considered.")
    assert not decision.is_successful


def test_large_fleets_keep_part_of_the_reasons_and_all_of_the_counts() -> None:
    states = [host(f"host-{index}", vcpus=0 if index % 3 else 8, is_up=index % 2 == 0) for index in range(3000)]
    decision = explain(run(states, spec(memory_mb=10**6)))
    assert len(decision.hosts) == 1000
    assert decision.advice[:3] == (
        "2000 of 3000 hosts: rejected by placement.",
        "666 of 3000 hosts: not enough vCPUs and memory (1 vCPU, 1000000 MB needed).",
        "334 of 3000 hosts: not enough memory (1000000 MB needed).",
    )
    assert {host.rejected_by for host in decision.hosts} == {"placement"}


def test_a_thousand_instances_on_ten_thousand_hosts_are_one_quick_pass() -> None:
    import time

    states = [host(f"host-{index}", memory_mb=8192 + index % 977, cell=f"cell{index % 4}") for index in range(10_000)]
    snapshot = table(*states)
    uuids = [f"new-{index}" for index in range(1000)]
    began = time.process_time()
    outcome = decide(snapshot, spec(vcpus=2), uuids, pipeline=PIPELINE, seed=1)
    assert len(outcome.picks) == 1000
    assert time.process_time() - began < 5.0  # a table rebuilt for each pick would take a minute
