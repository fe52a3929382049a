"""The decision cache: cached classes of requests give the same answers as a full decision, to the letter."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import Decision, explain
from conductor.core.scheduling.decision_cache import ROWS_AT_MOST, DecisionCache
from conductor.core.scheduling.filtering import Rules
from conductor.core.scheduling.pipeline import class_of
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.verdict import PASS, Verdict
from tests.unit.scheduling.fleets import FILTERS, SHIPPED, host, hosts, spec, specs, table

ALL = SHIPPED.loaded_filters
TRUSTED = frozenset({(FILTER, one.name) for one in ALL} | {(WEIGHER, one.name) for one in SHIPPED.weighers})
COLD = Pipeline(ALL, SHIPPED.weighers)  # no plugin's answers are cached, so each is called for every host
KNOWN = Pipeline(ALL, SHIPPED.weighers, rules=Rules(trusted=TRUSTED))


def answer(states: object, request: RequestSpec, count: int, pipeline: Pipeline) -> Decision:
    uuids = [f"new-{index}" for index in range(count)]
    return explain(decide(states, request, uuids, pipeline=pipeline, seed=count))  # type: ignore[arg-type]


def drawn_host(dice: random.Random, name: str) -> HostState:
    """Mostly one that passes; numbers are few, so that hosts are often equal and often an end of the scale."""
    return host(
        name,
        node=name,
        cell=dice.choice(("cell1", "cell2")),
        availability_zone=dice.choice(("nova", "nova", "az-1")),
        memory_mb_used=dice.choice((0, 1024, 4096, 8192, 16384)),
        vcpus_used=dice.choice((0, 1, 2, 7, 8)),
        disk_gb_used=dice.choice((0, 50, 100)),
        is_up=dice.random() < 0.9,
        is_disabled=dice.random() < 0.1,
        num_instances=dice.randrange(4),
        num_io_ops=dice.choice((0, 1, 9)),
        failed_builds=dice.choice((0, 0, 0, 1)),
        aggregate_metadata=dice.choice(({}, {}, {}, {}, {"ram_weight_multiplier": frozenset({"2.5"})})),
    )


def drawn_fleet(dice: random.Random) -> tuple[HostState, ...]:
    return tuple(drawn_host(dice, f"host-{index}") for index in range(dice.randint(2, 12)))


REQUESTS = (
    spec(),
    spec(vcpus=4, memory_mb=4096),
    spec(image={"img_hv_type": "qemu"}),
    spec(availability_zone="nova", extra_specs={"trait:COMPUTE_NODE": "required"}),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_cached_decisions_equal_full_ones(seed: int) -> None:
    """A few classes by turns on one fleet, of which some hosts change in between, seldom many and often none."""
    dice = random.Random(seed)
    decision_cache = DecisionCache()
    warm = replace(KNOWN, decision_cache=decision_cache)
    current = table(*drawn_fleet(dice))
    for _ in range(6):
        for request in dice.sample(REQUESTS, 2):
            count = dice.choice((1, 1, 2, 4))
            assert answer(current, request, count, warm) == answer(current, request, count, COLD)
        rows = dice.sample(range(len(current)), dice.choice((0, 1, 1, 2)))
        changes = {row: drawn_host(dice, current.states[row].host) for row in rows}
        current = current.with_rows(changes, age_seconds=dice.random())


def test_most_decisions_used_the_cache() -> None:
    decision_cache = DecisionCache()
    dice = random.Random(1)
    for _ in range(20):
        current = table(*drawn_fleet(dice))
        for _ in range(5):
            answer(current, REQUESTS[0], 1, replace(KNOWN, decision_cache=decision_cache))
            current = current.with_rows({0: drawn_host(dice, "host-0")})
    assert decision_cache.hits > decision_cache.misses


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_batch_that_adds_up_what_changed_is_one_that_adds_up_all(seed: int) -> None:
    dice = random.Random(seed)
    fleet, request, count = drawn_fleet(dice), dice.choice(REQUESTS), dice.randint(2, 12)
    assert answer(table(*fleet), request, count, KNOWN) == answer(table(*fleet), request, count, COLD)


@settings(max_examples=50, deadline=None)
@given(states=hosts, request=specs, count=st.integers(1, 4))
def test_cached_and_full_decisions_are_equal_for_any_request_and_hosts(
    states: list[HostState], request: RequestSpec, count: int
) -> None:
    warm = replace(KNOWN, decision_cache=DecisionCache())
    for _ in range(2):
        assert answer(table(*states), request, count, warm) == answer(table(*states), request, count, COLD)


def test_a_class_is_worked_out_once_and_hosts_that_changed_are_judged_again() -> None:
    decision_cache = DecisionCache()
    warm = replace(KNOWN, decision_cache=decision_cache)
    fleet = table(*(host(f"host-{index}", memory_mb_used=index * 100) for index in range(40)))
    assert answer(fleet, spec(), 1, warm).selections[0][0].host == "host-0"
    answer(fleet, spec(), 1, warm)
    assert (decision_cache.hits, decision_cache.misses) == (1, 1)
    later = fleet.with_rows({0: replace(fleet.states[0], is_up=False), 7: replace(fleet.states[7], memory_mb=99_999)})
    assert answer(later, spec(), 1, warm).selections[0][0].host == "host-7"
    assert answer(fleet, spec(), 1, warm).selections[0][0].host == "host-0", "an older table is another one"
    assert (decision_cache.hits, decision_cache.misses) == (2, 2)
    answer(later.with_rows(dict(enumerate(later.states[: ROWS_AT_MOST + 1]))), spec(), 1, warm)
    answer(table(*fleet.states), spec(), 1, warm)
    assert (decision_cache.hits, decision_cache.misses) == (2, 4)


def test_as_many_classes_are_kept_as_were_requested_last() -> None:
    decision_cache = DecisionCache(size=2)
    warm = replace(KNOWN, decision_cache=decision_cache)
    fleet = table(host("one"), host("two"))
    for vcpus in (1, 2, 3, 1, 3):
        answer(fleet, spec(vcpus=vcpus), 1, warm)
    assert (decision_cache.hits, decision_cache.misses) == (1, 4)


@pytest.mark.parametrize(
    "values", [{"scheduler_hints": {"same_host": ["x"]}}, {"force_hosts": ("one",)}, {"is_rebuild": True}]
)
def test_requests_about_single_hosts_have_no_class(values: dict[str, object]) -> None:
    assert class_of(spec(**values), KNOWN) is None  # type: ignore[arg-type]
    assert class_of(spec(), KNOWN) == class_of(spec(), KNOWN) != class_of(spec(vcpus=2), KNOWN)


def test_input_of_anonymous_users_is_never_stored() -> None:
    class Fickle(Filter):
        name = "Fickle"
        asked = 0

        def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
            Fickle.asked += 1
            return PASS

    decision_cache = DecisionCache()
    pipeline = replace(KNOWN, filters=(FILTERS["ComputeFilter"], Fickle()), decision_cache=decision_cache)
    for _ in range(2):
        answer(table(host("one"), host("two")), spec(), 1, pipeline)
    assert (Fickle.asked, decision_cache.hits, decision_cache.misses) == (4, 0, 0)
