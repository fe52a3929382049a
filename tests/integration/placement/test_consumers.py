"""Consumers' allocations, replaced as a whole: generations, full providers, all or nothing; and claims of trees."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from conductor.core.compute_driver import Inventory
from conductor.core.errors import ConcurrentUpdate, Conflict, Invalid, NotFound, NovellaError
from conductor.core.placement.amounts import Amount
from conductor.placement import allocations, consumers_allocations, inventories, models, providers, usages
from conductor.placement.allocations import Claim, ConsumerHolds, ProviderFull
from conductor.placement.consumers_allocations import ConsumerAllocations, ProviderAllocation
from conductor.placement.reshape import reshape
from tests.fixtures.races import at_once
from tests.integration.placement.stock import ANA, BO, LAB, SHOP, everything, generation, make, requested, used, uuid_of

pytestmark = pytest.mark.usefixtures("databases")

STALE = "placement.concurrent_update"


def refused(kind: type[NovellaError], act: Callable[[], object], code: str | None = None) -> None:
    before = everything()
    with pytest.raises(kind) as caught:
        act()
    assert caught.type is kind
    assert caught.value.details.get("code") == code
    assert everything() == before


def put(*requests: ConsumerAllocations) -> None:
    consumers_allocations.put(requests)


def test_written_allocations_are_those_that_are_read() -> None:
    make("host", VCPU=4, MEMORY_MB=512)
    make("disks", DISK_GB=100)
    put(requested("a", None, host={"VCPU": 2, "MEMORY_MB": 64}, disks={"DISK_GB": 10}))
    held = consumers_allocations.of_consumer(uuid_of("a"))
    assert (held.project_id, held.user_id, held.generation, held.consumer_type) == (SHOP, ANA, 1, "INSTANCE")
    assert held.allocations == {
        uuid_of("host"): ProviderAllocation(generation("host"), {"VCPU": 2, "MEMORY_MB": 64}),
        uuid_of("disks"): ProviderAllocation(generation("disks"), {"DISK_GB": 10}),
    }
    assert used() == {("host", "VCPU"): 2, ("host", "MEMORY_MB"): 64, ("disks", "DISK_GB"): 10}
    at = (generation("host"), generation("disks"))
    put(requested("a", 1, host={"VCPU": 3}))
    assert used() == {("host", "VCPU"): 3}
    assert (generation("host"), generation("disks")) == (at[0] + 1, at[1] + 1)
    [one] = consumers_allocations.of_provider(uuid_of("host"))[1]
    assert (one.consumer_uuid, one.generation) == (uuid_of("a"), 2)
    put(requested("a", 2))
    assert used() == {}
    assert consumers_allocations.of_consumer(uuid_of("a")) == ConsumerAllocations(uuid_of("a"), generation=None)
    assert not models.Consumer.objects.exists()


def test_generations_of_consumers_detect_concurrent_changes() -> None:
    make("host", VCPU=4)
    refused(ConcurrentUpdate, lambda: put(requested("a", 1, host={"VCPU": 1})), STALE)
    put(requested("a", None, host={"VCPU": 1}))
    refused(ConcurrentUpdate, lambda: put(requested("a", None, host={"VCPU": 2})), STALE)
    refused(ConcurrentUpdate, lambda: put(requested("a", 7)), STALE)
    put(requested("a", host={"VCPU": 2}))
    put(requested("a", 2, host={"VCPU": 1}))
    assert used() == {("host", "VCPU"): 1}


def test_several_consumers_change_together_or_not_at_all() -> None:
    make("host", VCPU=2)
    put(requested("instance", None, host={"VCPU": 2}))
    refused(
        Conflict,
        lambda: put(requested("other", None, host={"VCPU": 1}), requested("instance", 1, host={"VCPU": 2})),
    )
    put(requested("instance", 1), requested("migration", None, host={"VCPU": 2}))
    assert allocations.held_by(uuid_of("migration")) == {uuid_of("host"): {"VCPU": 2}}
    assert allocations.held_by(uuid_of("instance")) == {}


def test_invalid_allocations_are_refused() -> None:
    make("host", VCPU=Amount(8, min_unit=2, max_unit=4, step_size=2))
    for amount in (1, 3, 6):
        refused(Conflict, lambda amount=amount: put(requested("a", None, host={"VCPU": amount})))  # type: ignore[misc]
    refused(Conflict, lambda: put(requested("a", None, host={"DISK_GB": 1})))
    refused(Invalid, lambda: put(requested("a", None, host={"CUSTOM_NONE": 1})))
    refused(Invalid, lambda: put(requested("a", None, host={"VCPU": 0})))
    refused(Invalid, lambda: put(requested("a", None, unknown={"VCPU": 2})))
    refused(Invalid, lambda: put(requested("a", None, host={"VCPU": 2}), requested("a", None)))
    refused(NotFound, lambda: consumers_allocations.delete(uuid_of("a")))
    refused(NotFound, lambda: consumers_allocations.of_provider(uuid_of("nobody")))
    put()


def test_a_provider_over_capacity_accepts_smaller_allocations_only() -> None:
    uuid = make("host", VCPU=8)
    put(requested("a", None, host={"VCPU": 4}), requested("b", None, host={"VCPU": 4}))
    inventories.put(uuid, "VCPU", Amount(3), generation("host"))
    refused(Conflict, lambda: put(requested("a", 1, host={"VCPU": 5})))
    refused(Conflict, lambda: put(requested("c", None, host={"VCPU": 1})))
    put(requested("a", 1, host={"VCPU": 4}))
    put(requested("a", 2, host={"VCPU": 3}))
    assert used() == {("host", "VCPU"): 7}


def test_owners_and_types_may_change() -> None:
    make("host", VCPU=4)
    put(requested("a", None, host={"VCPU": 1}))
    share = {uuid_of("host"): ProviderAllocation(0, {"VCPU": 1})}
    put(ConsumerAllocations(uuid_of("a"), LAB, BO, 1, "MIGRATION", share))
    put(ConsumerAllocations(uuid_of("a"), LAB, BO, 2, None, share))
    held = consumers_allocations.of_consumer(uuid_of("a"))
    assert (held.project_id, held.user_id, held.generation, held.consumer_type) == (LAB, BO, 3, "MIGRATION")


def test_usages_by_owner_and_type() -> None:
    make("host", VCPU=9, DISK_GB=9)
    put(requested("a", None, host={"VCPU": 1, "DISK_GB": 2}), requested("b", None, host={"VCPU": 2}))
    share = {uuid_of("host"): ProviderAllocation(0, {"VCPU": 3})}
    put(ConsumerAllocations(uuid_of("c"), SHOP, BO, None, None, share))
    assert usages.of_provider(uuid_of("host")) == {"DISK_GB": 2, "VCPU": 6}
    assert usages.of_project(SHOP) == {"DISK_GB": 2, "VCPU": 6}
    assert usages.of_project(SHOP, BO) == {"VCPU": 3}
    assert usages.of_project(SHOP, consumer_type="INSTANCE") == {"DISK_GB": 2, "VCPU": 3}
    both = usages.TypeUsage(2, {"DISK_GB": 2, "VCPU": 3})
    assert usages.by_consumer_type(SHOP) == {"INSTANCE": both, "unknown": usages.TypeUsage(1, {"VCPU": 3})}
    assert usages.by_consumer_type(SHOP, consumer_type="INSTANCE") == {"INSTANCE": both}
    assert usages.by_consumer_type(SHOP, ANA, "all") == {"all": both}
    assert usages.by_consumer_type(SHOP, consumer_type="unknown") == {"unknown": usages.TypeUsage(1, {"VCPU": 3})}
    assert usages.by_consumer_type(LAB) == usages.by_consumer_type(LAB, consumer_type="all") == {}


def test_a_part_of_a_host_becomes_a_provider_with_all_that_is_held_of_it() -> None:
    host = make("host", VCPU=4, VGPU=2)
    put(requested("a", None, host={"VCPU": 2, "VGPU": 1}), requested("b", None, host={"VGPU": 1}))
    gpu = make("gpu", under="host")
    stocks = {host: (generation("host"), {"VCPU": Amount(4)}), gpu: (0, {"VGPU": Amount(2)})}
    moved = (requested("a", 1, host={"VCPU": 2}, gpu={"VGPU": 1}), requested("b", 1, gpu={"VGPU": 1}))
    refused(Conflict, lambda: reshape(stocks, moved[:1]), "placement.inventory.inuse")
    refused(ConcurrentUpdate, lambda: reshape({**stocks, gpu: (5, {})}, moved), STALE)
    gone = {uuid_of("nobody"): (0, {"VGPU": Amount(2)})}
    refused(Invalid, lambda: reshape({**stocks, **gone}, moved), "placement.resource_provider.not_found")
    reshape(stocks, moved)
    assert used() == {("host", "VCPU"): 2, ("gpu", "VGPU"): 2}
    assert list(inventories.all_of(host)[1]) == ["VCPU"]


def test_claims_take_from_several_providers_of_a_tree() -> None:
    make("host", DISK_GB=10)
    make("cell", under="host", VCPU=2)
    make("nfs", has="MISC_SHARES_VIA_AGGREGATE", DISK_GB=50)
    make("other", VCPU=2)

    def claim(**parts: dict[str, int]) -> list[Claim]:
        return [Claim(uuid_of("a"), uuid_of(name), amounts, SHOP, ANA) for name, amounts in parts.items()]

    refused_before = everything()
    for wanted, kind in (
        (claim(cell={"VCPU": 1}, other={"VCPU": 1}), ConsumerHolds),
        (claim(cell={"VCPU": 1}, host={"DISK_GB": 11}), ProviderFull),
    ):
        with pytest.raises(kind):
            allocations.claim_many(wanted)
        assert everything() == refused_before
    tree = claim(host={"DISK_GB": 5}, cell={"VCPU": 2}, nfs={"DISK_GB": 20})
    allocations.claim_many(tree)
    after = everything()
    allocations.claim_many(tree)
    assert everything() == after, "claimed already"
    with pytest.raises(ConsumerHolds):
        allocations.claim_many(tree[:2])
    assert used() == {("host", "DISK_GB"): 5, ("cell", "VCPU"): 2, ("nfs", "DISK_GB"): 20}
    held = consumers_allocations.of_consumer(uuid_of("a"))
    assert (held.generation, held.consumer_type) == (1, "INSTANCE")
    allocations.move(uuid_of("a"), uuid_of("m"), allocations.MIGRATION)
    assert consumers_allocations.of_consumer(uuid_of("m")).consumer_type == "MIGRATION"
    assert allocations.release([uuid_of("m")]) == 1
    assert used() == {}


def test_of_many_claims_of_one_new_consumer_exactly_one_wins() -> None:
    for name in "xyz":
        make(name, VCPU=8)
    results = at_once(6, lambda number: put(requested("a", None, **{"xyz"[number % 3]: {"VCPU": 1}})))
    assert sum(result is None for result in results) == 1
    assert all(isinstance(result, ConcurrentUpdate) for result in results if result is not None)
    assert sum(used().values()) == 1


def test_of_many_writes_on_one_generation_exactly_one_wins() -> None:
    uuid = make("host", VCPU=8)
    results = at_once(6, lambda number: inventories.put(uuid, "VCPU", Amount(10 + number), 1))
    won = [result for result in results if not isinstance(result, Exception)]
    assert len(won) == 1
    assert all(isinstance(result, ConcurrentUpdate) for result in results if isinstance(result, Exception))
    assert inventories.all_of(uuid) == won[0]


def test_of_many_creations_of_one_provider_exactly_one_wins() -> None:
    results = at_once(6, lambda number: providers.create("host"))
    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert all(isinstance(result, Conflict) for result in results if isinstance(result, Exception))


def test_of_many_hosts_that_report_one_name_exactly_one_gets_it() -> None:
    results = at_once(6, lambda number: inventories.report(uuid_of(f"host-{number}"), "host", {"VCPU": Inventory(6)}))
    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert {type(result) for result in results if isinstance(result, Exception)} == {Conflict}
    assert models.ResourceProvider.objects.count() == 1


def test_two_concurrent_moves_of_branches_make_no_cycle() -> None:
    make("left")
    make("right")

    def move(number: int) -> object:
        mine, other = ("left", "right") if number else ("right", "left")
        return providers.update(uuid_of(mine), mine, uuid_of(other), may_reparent=True)

    results = at_once(2, move)
    assert [type(result) for result in results if isinstance(result, Exception)] == [Invalid]
    assert len({one.root_uuid for one in providers.search()}) == 1


def test_concurrent_changes_keep_used_equal_to_the_sum_of_allocations() -> None:
    """The database does not look for consumers and providers of what is held: that writers lock them has to do."""
    names = ("x", "y", "z")
    for name in names:
        inventories.report(uuid_of(name), name, {"VCPU": Inventory(6)})

    def work(seed: int) -> int:
        dice = random.Random(seed)
        granted = 0
        for number in range(25):
            consumer = f"c{dice.randint(0, 5)}"
            picked = dice.sample(names, dice.randint(1, 2))
            try:
                if number % 5 == 3:
                    inventories.report(uuid_of(picked[0]), picked[0], {"VCPU": Inventory(6)})
                elif number % 5 == 4:
                    providers.remove(uuid_of(picked[0]))
                elif number % 5 == 0:
                    allocations.release([uuid_of(consumer)])
                elif number % 5 == 1:
                    amounts = {name: {"VCPU": dice.randint(1, 3)} for name in picked}
                    consumers_allocations.put([requested(consumer, **amounts)])
                    granted += 1
                else:
                    name = dice.choice([consumer, f"{seed}-{number}"])
                    allocations.claim(Claim(uuid_of(name), uuid_of(picked[0]), {"VCPU": 1}, SHOP, ANA))
            except (ConcurrentUpdate, Conflict, Invalid):  # full or gone, or the consumer is another's by now
                continue
            finally:
                connections.close_all()
        return granted

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(work, range(5))) > 0
    for amount in used().values():
        assert amount <= 6
    assert not models.Consumer.objects.filter(allocations__isnull=True).exists()
    held = set(models.Allocation.objects.values_list("consumer_id", "provider_id"))
    assert {consumer for consumer, _ in held} == set(models.Consumer.objects.values_list("pk", flat=True))
    assert {provider for _, provider in held} <= set(models.ResourceProvider.objects.values_list("pk", flat=True))
