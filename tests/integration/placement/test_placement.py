"""Placement's laws: all or nothing, never over capacity, `used` is the sum of what is held, no change is missed."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import NAMESPACE_DNS, uuid4, uuid5

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.core.compute_driver import Inventory
from conductor.core.errors import ConcurrentUpdate, Conflict, NotFound
from conductor.placement import allocations, inventories, models, providers, usages
from conductor.placement.allocations import Claim, ConsumerHolds, ProviderFull
from tests.databases import empty_all

pytestmark = pytest.mark.usefixtures("databases")

SHOP, ANA = "5" * 32, "a" * 32


def uuid_of(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def make(name: str, **totals: int) -> str:
    uuid = uuid_of(name)
    inventories.report(uuid, name, {kind: Inventory(total) for kind, total in totals.items()})
    return uuid


def wants(consumer: str, provider: str, **resources: int) -> Claim:
    return Claim(uuid_of(consumer), uuid_of(provider), resources, SHOP, ANA)


def used() -> dict[tuple[str, str], int]:
    rows = models.ProviderInventory.objects.values_list("provider__name", "resource_class", "used")
    return {(name, kind): amount for name, kind, amount in rows}


def sums() -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    rows = models.Allocation.objects.values_list("provider__name", "resource_class", "amount")
    for name, kind, amount in rows:
        found[name, kind] += amount
    return dict(found)


def assert_sound() -> None:
    """Check the invariants that hold at any time."""
    in_use = {key: amount for key, amount in used().items() if amount}
    assert in_use == sums()
    for row in models.ProviderInventory.objects.all():
        assert 0 <= row.used <= (row.total - row.reserved) * row.allocation_ratio
    assert not models.Consumer.objects.filter(allocations__isnull=True).exists()


def test_claims_are_granted_together() -> None:
    make("one", VCPU=4, MEMORY_MB=4096)
    make("two", VCPU=4, MEMORY_MB=4096)
    allocations.claim_many([wants("a", "one", VCPU=2, MEMORY_MB=512), wants("b", "two", VCPU=3, MEMORY_MB=256)])
    assert used() == {("one", "VCPU"): 2, ("one", "MEMORY_MB"): 512, ("two", "VCPU"): 3, ("two", "MEMORY_MB"): 256}
    assert allocations.held_by(uuid_of("a")) == {uuid_of("one"): {"VCPU": 2, "MEMORY_MB": 512}}
    assert usages.of_project(SHOP) == {"MEMORY_MB": 768, "VCPU": 5}
    assert usages.of_provider(uuid_of("two")) == {"MEMORY_MB": 256, "VCPU": 3}
    assert providers.get(uuid_of("one")).num_consumers == 1


@pytest.mark.parametrize(
    ("name", "resources"),
    [("full", {"VCPU": 2}), ("full", {"VCPU": 1, "DISK_GB": 1}), ("gone", {"VCPU": 1})],
    ids=["too much", "a class that is not there", "a provider that is gone"],
)
def test_one_claim_that_does_not_fit_refuses_all(name: str, resources: dict[str, int]) -> None:
    make("free", VCPU=4)
    make("full", VCPU=1)
    generations = [providers.get(uuid_of(one)).generation for one in ("free", "full")]
    before = providers.position()
    with pytest.raises(ProviderFull) as caught:
        allocations.claim_many([wants("a", "free", VCPU=1), wants("b", name, **resources)])
    assert caught.value.details["provider_uuid"] == uuid_of(name)
    assert set(used().values()) == {0}
    assert not models.Consumer.objects.exists()
    assert [providers.get(uuid_of(one)).generation for one in ("free", "full")] == generations
    assert providers.position() == before


@pytest.mark.parametrize(("amount", "fits"), [(1, False), (2, True), (3, False), (6, True), (8, False)])
def test_amounts_keep_to_the_inventory_s_units(amount: int, fits: bool) -> None:
    units = Inventory(total=4, min_unit=2, max_unit=6, step_size=2, allocation_ratio=4.0)
    inventories.report(uuid_of("one"), "one", {"VCPU": units})
    if fits:
        allocations.claim(wants("a", "one", VCPU=amount))
    else:
        with pytest.raises(ProviderFull):
            allocations.claim(wants("a", "one", VCPU=amount))
    assert used() == {("one", "VCPU"): amount if fits else 0}


def test_capacity_is_total_minus_reserved_times_the_ratio() -> None:
    inventories.report(uuid_of("one"), "one", {"VCPU": Inventory(total=5, reserved=1, allocation_ratio=1.5)})
    allocations.claim(wants("a", "one", VCPU=6))
    with pytest.raises(ProviderFull):
        allocations.claim(wants("b", "one", VCPU=1))


def test_the_same_claim_again_changes_nothing_and_another_is_refused() -> None:
    make("one", VCPU=4)
    make("two", VCPU=4)
    allocations.claim(wants("a", "one", VCPU=2))
    before = (providers.position(), used())
    allocations.claim(wants("a", "one", VCPU=2))
    for other in (wants("a", "one", VCPU=1), wants("a", "two", VCPU=2), wants("a", "one", VCPU=2, MEMORY_MB=1)):
        with pytest.raises(ConsumerHolds):
            allocations.claim_many([wants("b", "two", VCPU=1), other])
    with pytest.raises(ConsumerHolds):
        allocations.claim_many([wants("c", "one", VCPU=1), wants("c", "two", VCPU=1)])
    assert (providers.position(), used()) == before


def test_releasing_twice_frees_resources_once() -> None:
    make("one", VCPU=4)
    allocations.claim_many([wants("a", "one", VCPU=2), wants("b", "one", VCPU=1)])
    assert allocations.release([uuid_of("a"), uuid_of("nobody")]) == 1
    before = providers.position()
    assert allocations.release([uuid_of("a")]) == 0
    assert allocations.release([]) == 0
    assert providers.position() == before
    assert used() == {("one", "VCPU"): 1}
    allocations.claim(wants("a", "one", VCPU=3))
    assert used() == {("one", "VCPU"): 4}


def test_a_claim_of_nothing_is_held_and_released_like_any_other() -> None:
    make("one", VCPU=4)
    allocations.claim(wants("a", "one"))
    allocations.claim(wants("a", "one"))
    with pytest.raises(ConsumerHolds):
        allocations.claim(wants("a", "one", VCPU=1))
    assert allocations.release([uuid_of("a")]) == 1


def test_a_report_that_says_nothing_new_writes_nothing() -> None:
    stock = {"VCPU": Inventory(4, allocation_ratio=4.0), "DISK_GB": Inventory(10)}
    first = inventories.report(uuid_of("one"), "one", stock, ["COMPUTE_NODE", "CUSTOM_FAST"])
    before = providers.position()
    assert inventories.report(uuid_of("one"), "one", stock, {"CUSTOM_FAST", "COMPUTE_NODE"}) == first
    assert providers.position() == before
    assert inventories.report(uuid_of("one"), "one", stock, ["COMPUTE_NODE"]) == first + 1
    assert inventories.report(uuid_of("one"), "renamed", stock, ["COMPUTE_NODE"]) == first + 2
    assert providers.get(uuid_of("one")).name == "renamed"
    with pytest.raises(Conflict):
        inventories.report(uuid_of("two"), "renamed", stock)
    assert models.ResourceProvider.objects.count() == 1


def test_a_class_in_use_that_is_not_reported_any_more_has_no_capacity() -> None:
    make("one", VCPU=4, DISK_GB=10)
    allocations.claim(wants("a", "one", VCPU=1, DISK_GB=5))
    stock = {"VCPU": Inventory(4)}
    generation = inventories.report(uuid_of("one"), "one", stock)
    assert inventories.report(uuid_of("one"), "one", stock) == generation
    with pytest.raises(ProviderFull):
        allocations.claim(wants("b", "one", DISK_GB=1))
    allocations.release([uuid_of("a")])
    inventories.report(uuid_of("one"), "one", {"VCPU": Inventory(2)})
    assert used() == {("one", "VCPU"): 0}


def test_an_inventory_below_the_usage_is_accepted_and_grants_nothing() -> None:
    make("one", VCPU=4)
    allocations.claim(wants("a", "one", VCPU=3))
    inventories.report(uuid_of("one"), "one", {"VCPU": Inventory(2)})
    with pytest.raises(ProviderFull):
        allocations.claim(wants("b", "one", VCPU=1))
    assert used() == {("one", "VCPU"): 3}


def test_a_provider_is_removed_only_without_allocations() -> None:
    make("one", VCPU=4)
    allocations.claim(wants("a", "one", VCPU=1))
    with pytest.raises(Conflict):
        providers.remove(uuid_of("one"))
    allocations.release([uuid_of("a")])
    providers.remove(uuid_of("one"))
    providers.remove(uuid_of("one"))
    with pytest.raises(NotFound):
        providers.get(uuid_of("one"))
    assert providers.position().removed_number == providers.position().number


def test_a_follower_sees_each_change_once() -> None:
    make("one", VCPU=4)
    make("two", VCPU=4)
    seen = providers.position()
    assert {state.name for state in providers.changed_since(0)} == {"one", "two"}
    assert providers.changed_since(seen.number) == []
    allocations.claim(wants("a", "two", VCPU=2))
    [state] = providers.changed_since(seen.number)
    assert (state.name, state.amounts["VCPU"].used, state.num_consumers) == ("two", 2, 1)
    assert providers.changed_since(providers.position().number) == []
    empty_all()
    make("one", VCPU=4)
    assert providers.position().epoch != seen.epoch


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("claim"),
            st.lists(
                st.tuples(st.integers(0, 9), st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from([0, 100, 300])),
                max_size=4,
            ),
        ),
        st.tuples(st.just("release"), st.lists(st.integers(0, 9), max_size=3)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPERATIONS)
def test_used_is_always_the_sum_of_what_is_held(operations: list[tuple[str, list[object]]]) -> None:
    empty_all()
    for name in "xyz":
        make(name, VCPU=5, MEMORY_MB=700)
    held: dict[str, Claim] = {}
    for kind, items in operations:
        if kind == "release":
            uuids = [uuid_of(str(item)) for item in items]
            assert allocations.release(uuids) == len({uuid for uuid in uuids if held.pop(uuid, None)})
            continue
        claims = [
            wants(str(consumer), provider, **{k: v for k, v in (("VCPU", vcpus), ("MEMORY_MB", memory)) if v})  # type: ignore[misc]
            for consumer, provider, vcpus, memory in items  # type: ignore[misc]
        ]
        claims = [claim for claim in claims if claim.resources]
        before = used()
        try:
            allocations.claim_many(claims)
        except ConcurrentUpdate:
            assert used() == before
        else:
            held |= {claim.consumer_uuid: claim for claim in claims}
        assert_sound()
    assert {uuid: {claim.provider_uuid: dict(claim.resources)} for uuid, claim in held.items()} == {
        str(uuid): allocations.held_by(uuid) for uuid in models.Consumer.objects.values_list("uuid", flat=True)
    }


def test_threads_that_claim_and_release_keep_used_correct() -> None:
    names = [f"host-{index}" for index in range(3)]
    for name in names:
        make(name, VCPU=6, MEMORY_MB=2048)

    def work(seed: int) -> int:
        dice = random.Random(seed)
        mine: list[str] = []
        granted = 0
        try:
            for _ in range(25):
                if mine and dice.random() < 0.4:
                    allocations.release([mine.pop()])
                    continue
                consumers = [str(uuid4()) for _ in range(dice.randint(1, 3))]
                claims = [
                    Claim(uuid, uuid_of(dice.choice(names)), {"VCPU": dice.randint(1, 2), "MEMORY_MB": 256}, SHOP, ANA)
                    for uuid in consumers
                ]
                try:
                    allocations.claim_many(claims)
                except ProviderFull:
                    continue
                mine += consumers
                granted += len(consumers)
        finally:
            connections.close_all()
        return granted

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) > 0
    assert_sound()
