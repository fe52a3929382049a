"""A batch of equal servers is placed like one by one, though only the chosen host is evaluated again."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.host_state import CLAIMED_COLUMNS, HostState, HostTable
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling import batch, select
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.watching import Rules
from conductor.core.scheduling.weighing import Multipliers
from conductor.core.scheduling.working_table import WorkingTable, with_more
from tests.unit.scheduling.fleets import BROUGHT, SHIPPED, host, spec, table

BOTH = ((FILTER, SHIPPED.loaded_filters), (WEIGHER, SHIPPED.weighers))
TRUSTED = frozenset((kind, one.name) for kind, plugins in BOTH for one in plugins)
KNOWN = Pipeline(SHIPPED.filters, SHIPPED.weighers, rules=Rules(trusted=TRUSTED))
LIMITS = ("NumInstancesFilter", "AggregateIoOpsFilter")
WEIGHTS: tuple[dict[str, float], ...] = (
    {},
    {"ram_weight_multiplier": -1.0},
    {"num_instances_weight_multiplier": -0.5, "disk_weight_multiplier": 0.0},
    {"io_ops_weight_multiplier": 3.0, "cpu_weight_multiplier": 0.1},
)


def drawn_host(dice: random.Random, name: str) -> HostState:
    return host(
        name,
        vcpus=dice.choice((8, 8, 16)),
        cpu_ratio=dice.choice((1.0, 4.0, 4.0, 1.1)),
        vcpus_used=dice.randrange(8),
        memory_mb=dice.choice((16384, 65536)),
        memory_mb_used=dice.choice((0, 0, 512, 7777, 16000)),
        ram_ratio=dice.choice((1.0, 1.3)),
        disk_gb_used=dice.choice((0, 50, 97)),
        disk_available_least_gb=dice.choice((None, None, 3, 60)),
        drift_memory_mb=dice.choice((0, 64)),
        is_up=dice.random() < 0.9,
        num_instances=dice.randrange(4),
        num_io_ops=dice.choice((0, 0, 1, 7)),
        failed_builds=dice.choice((0,) * 9 + (1,)),
        hypervisor_version=dice.choice((8_002_000, 9_000_000)),
        aggregate_metadata=dice.choice(({},) * 9 + ({"ram_weight_multiplier": frozenset({"2.5"})},)),
    )


def drawn_fleet(dice: random.Random) -> HostTable:
    """Return up to 200 hosts, so that not all are near; in some fleets all are alike."""
    count = dice.choice((3, 12, 90, 200))
    if dice.random() < 0.3:
        return table(*(host(f"host-{index}") for index in range(count)))
    is_whole = dice.random() < 0.6
    drawn = (drawn_host(dice, f"host-{index}") for index in range(count))
    return table(*(whole(state, dice) if is_whole else state for state in drawn))


def whole(state: HostState, dice: random.Random) -> HostState:
    """Return the state with ratios that leave no fractions, and a load that few others have."""
    used = dice.randrange(state.memory_mb + 1)
    return replace(state, cpu_ratio=4.0, ram_ratio=1.0, memory_mb_used=used, num_io_ops=dice.randrange(9))


def roomy(dice: random.Random, name: str) -> HostState:
    vcpus, disk = dice.randrange(200), dice.randrange(500)
    return host(name, vcpus=64, vcpus_used=vcpus, memory_mb=65_536, disk_gb=1000, disk_gb_used=disk)


def drawn_request(dice: random.Random) -> RequestSpec:
    return dice.choice(
        (
            spec(),
            spec(vcpus=2, memory_mb=3000, root_gb=3),
            spec(root_gb=5, is_volume_backed=True),
            spec(extra_specs={"resources:MEMORY_MB": "0"}),
            spec(extra_specs={"capabilities:free_ram_mb": ">= 9000"}),
            replace(spec(), flavor=FlavorSpec("2", "swapping", 1, 512, root_gb=1, ephemeral_gb=2, swap_mb=1500)),
        )
    )


def drawn_pipeline(dice: random.Random) -> Pipeline:
    limits = tuple(BROUGHT[name] for name in LIMITS if dice.random() < 0.2)
    return replace(
        KNOWN,
        filters=KNOWN.filters + limits,
        multipliers=Multipliers(dice.choice(WEIGHTS)),
        keeps_order=dice.random() < 0.3,
    )


def answers(fleet: HostTable, request: RequestSpec, count: int, pipeline: Pipeline) -> tuple[Any, ...]:
    uuids = [f"new-{index}" for index in range(count)]
    outcome = decide(fleet, request, uuids, pipeline=pipeline, seed=count)
    return outcome.picks, outcome.alternates, outcome.selections(), explain(outcome)


def one_by_one() -> Any:
    return patch.object(select, "batch_of", lambda *_: None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_batch_goes_where_one_after_another_would_have_gone(seed: int) -> None:
    dice = random.Random(seed)
    fleet, request, pipeline = drawn_fleet(dice), drawn_request(dice), drawn_pipeline(dice)
    count = dice.choice((2, 5, 30, 70))
    with patch.object(batch, "NEAR_AT_LEAST", dice.choice((1, 4, 64))), patch.object(batch, "NEAR_PER_PICK", 0):
        found = answers(fleet, request, count, pipeline)
    with one_by_one():
        assert found == answers(fleet, request, count, pipeline)


def test_most_batches_look_at_all_hosts_once() -> None:
    dice = random.Random(5)
    fleet = table(*(drawn_host(dice, f"host-{index}") for index in range(300)))
    looked: list[int] = []
    stretch = batch.Batch._stretch

    def counted(self: batch.Batch, *args: Any) -> None:
        looked.append(len(self.picks))
        stretch(self, *args)

    with patch.object(batch.Batch, "_stretch", counted):
        outcome = decide(fleet, spec(), [f"new-{index}" for index in range(40)], pipeline=KNOWN, seed=1)
    assert len(outcome.picks) == 40
    assert looked[0] == 0
    assert len(looked) < 6


def test_unambiguous_choices_are_made_at_once() -> None:
    dice = random.Random(6)
    fleet = table(*(whole(roomy(dice, f"host-{index}"), dice) for index in range(300)))
    alone: list[int] = []
    take = batch.Batch._take

    def counted(self: batch.Batch, row: int, *args: Any) -> bool:
        alone.append(row)
        return take(self, row, *args)

    with patch.object(batch.Batch, "_take", counted):
        found = answers(fleet, spec(), 60, KNOWN)
    assert len(found[0]) == 60
    assert len(alone) < 20
    with one_by_one():
        assert found == answers(fleet, spec(), 60, KNOWN)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 9))
def test_steps_lead_to_the_numbers_of_whole_hosts(seed: int, more: int) -> None:
    dice = random.Random(seed)
    state, request = whole(drawn_host(dice, "host-0"), dice), drawn_request(dice)
    share = batch.InstanceShare.of(request, needs_of(request))
    assert batch.STEPS.keys() == batch.NUMBERS.keys() == CLAIMED_COLUMNS.keys()
    for name, number in batch.NUMBERS.items():
        assert CLAIMED_COLUMNS[name](state) + more * batch.STEPS[name](share) == number(state, share, more), name


def test_a_batch_that_finds_too_few_hosts_shows_the_hosts_as_it_left_them() -> None:
    fleet = table(*(host(f"host-{index}", memory_mb=1100) for index in range(3)))
    found = answers(fleet, spec(), 7, KNOWN)
    assert (found[0], found[3].round) == ((), 6)
    with one_by_one():
        assert found == answers(fleet, spec(), 7, KNOWN)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 9))
def test_the_numbers_of_a_host_with_more_instances_are_those_of_its_state(seed: int, more: int) -> None:
    dice = random.Random(seed)
    state, request = drawn_host(dice, "host-0"), drawn_request(dice)
    needs = needs_of(request)
    later, share = with_more(state, request, needs, more), batch.InstanceShare.of(request, needs)
    for name, of in CLAIMED_COLUMNS.items():
        assert batch.NUMBERS[name](state, share, more) == of(later), name


@pytest.mark.parametrize("weigher", SHIPPED.weighers, ids=lambda one: one.name)
def test_weighers_that_ship_go_by_a_claimed_column_or_by_nothing_that_instances_change(weigher: Any) -> None:
    dice = random.Random(7)
    fleet = table(*(drawn_host(dice, f"host-{index}") for index in range(20)))
    request = spec(image={"os_distro": "debian"})
    column = weigher.weigh(fleet, request)
    working = WorkingTable(fleet)
    for row in (3, 3, 9):
        working.take(row, request, needs_of(request))
    names = [name for name in CLAIMED_COLUMNS if column is getattr(fleet, name)]
    expected = getattr(working.hosts, names[0]) if names else column
    assert np.array_equal(weigher.weigh(working.hosts, request), expected)


def test_a_filter_that_fails_about_a_host_is_left_to_the_rules_for_that() -> None:
    class Failing(type(BROUGHT["NumInstancesFilter"])):  # type: ignore[misc]
        def host_passes(self, state: HostState, request: RequestSpec) -> Any:
            raise RuntimeError(state.host)

    fleet = table(*(host(f"host-{index}") for index in range(4)))
    pipeline = replace(KNOWN, filters=(*KNOWN.filters, Failing()))
    found = answers(fleet, spec(), 3, pipeline)
    assert [fault["plugin"] for fault in found[3].faults] == ["NumInstancesFilter"]
    assert len(found[0]) == 3
