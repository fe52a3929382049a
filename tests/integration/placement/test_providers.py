"""Providers as clients of placement make, move, describe and find them: each refusal leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conductor.core.compute_driver import Inventory
from conductor.core.errors import ConcurrentUpdate, Conflict, Invalid, NotFound, NovellaError
from conductor.core.placement.amounts import Amount
from conductor.placement import aggregates, allocations, inventories, models, providers, resource_classes, traits
from conductor.placement.allocations import Claim
from tests.integration.placement.stock import ANA, SHOP, everything, generation, make, uuid_of

pytestmark = pytest.mark.usefixtures("databases")

STALE = "placement.concurrent_update"


def refused(kind: type[NovellaError], act: Callable[[], object], code: str | None = None) -> NovellaError:
    before = everything()
    with pytest.raises(kind) as caught:
        act()
    assert caught.type is kind
    assert caught.value.details.get("code") == code
    assert everything() == before
    return caught.value


def hold(consumer: str, provider: str, **amounts: int) -> None:
    allocations.claim(Claim(uuid_of(consumer), uuid_of(provider), amounts, SHOP, ANA))


def test_a_tree_is_made_moved_and_taken_apart() -> None:
    make("host")
    make("cell", under="host")
    make("nic", under="cell")
    make("other")
    assert providers.view(uuid_of("nic")) == providers.ProviderView(
        uuid_of("nic"), "nic", 0, uuid_of("cell"), uuid_of("host")
    )
    moved = providers.update(uuid_of("cell"), "moved", uuid_of("other"), may_reparent=True)
    assert (moved.name, moved.parent_uuid, moved.root_uuid) == ("moved", uuid_of("other"), uuid_of("other"))
    assert providers.view(uuid_of("nic")).root_uuid == uuid_of("other")
    free = providers.update(uuid_of("cell"), "moved", None, may_reparent=True)
    assert (free.parent_uuid, free.root_uuid) == (None, uuid_of("cell"))
    assert providers.view(uuid_of("nic")).root_uuid == uuid_of("cell")
    providers.update(uuid_of("cell"), "moved", uuid_of("host"), may_reparent=False)
    refused(Conflict, lambda: providers.delete(uuid_of("host")), "placement.resource_provider.cannot_delete_parent")
    for name in ("nic", "cell", "host"):
        providers.delete(uuid_of(name))
    assert [one.name for one in providers.search()] == ["other"]
    refused(NotFound, lambda: providers.delete(uuid_of("host")))
    refused(NotFound, lambda: providers.view(uuid_of("host")))


def test_invalid_parents_are_refused() -> None:
    make("host")
    make("cell", under="host")
    make("nic", under="cell")
    make("other")
    duplicate = "placement.duplicate_name"
    for act, kind, code in (
        (lambda: providers.create("host"), Conflict, duplicate),
        (lambda: providers.create("new", uuid_of("host")), Conflict, duplicate),
        (lambda: providers.create("new", uuid_of("new"), uuid_of("new")), Invalid, None),
        (lambda: providers.create("new", parent=uuid_of("nobody")), Invalid, None),
        (lambda: providers.update(uuid_of("cell"), "host", uuid_of("host"), may_reparent=True), Conflict, duplicate),
        (lambda: providers.update(uuid_of("cell"), "cell", uuid_of("nic"), may_reparent=True), Invalid, None),
        (lambda: providers.update(uuid_of("host"), "host", uuid_of("nic"), may_reparent=True), Invalid, None),
        (lambda: providers.update(uuid_of("host"), "host", uuid_of("host"), may_reparent=True), Invalid, None),
        (lambda: providers.update(uuid_of("host"), "host", uuid_of("nobody"), may_reparent=True), Invalid, None),
        (lambda: providers.update(uuid_of("cell"), "cell", uuid_of("other"), may_reparent=False), Invalid, None),
        (lambda: providers.update(uuid_of("cell"), "cell", None, may_reparent=False), Invalid, None),
        (lambda: providers.update(uuid_of("nobody"), "x", None, may_reparent=True), NotFound, None),
    ):
        refused(kind, act, code)


def test_a_provider_in_use_stays_and_a_removed_host_takes_its_parts_along() -> None:
    make("host")
    make("cell", under="host", VCPU=2)
    hold("a", "cell", VCPU=1)
    refused(Conflict, lambda: providers.delete(uuid_of("cell")), "placement.resource_provider.inuse")
    refused(Conflict, lambda: providers.remove(uuid_of("host")), "placement.resource_provider.inuse")
    allocations.release([uuid_of("a")])
    providers.remove(uuid_of("host"))
    assert providers.search() == []
    assert providers.position().removed_number == providers.position().number


def test_inventories_are_written_at_the_read_generation_only() -> None:
    uuid = make("host")
    first, stock = inventories.replace(uuid, {"VCPU": Amount(4, allocation_ratio=2.0), "DISK_GB": Amount(10)}, 0)
    assert (first, stock["VCPU"].capacity) == (1, 8.0)
    assert inventories.add(uuid, "MEMORY_MB", Amount(512, reserved=512), 1)[1]["MEMORY_MB"].capacity == 0
    assert inventories.put(uuid, "MEMORY_MB", Amount(512, step_size=2), 2)[1]["MEMORY_MB"].step_size == 2
    assert inventories.all_of(uuid)[0] == 3
    for act in (
        lambda: inventories.replace(uuid, {}, 2),
        lambda: inventories.add(uuid, "VGPU", Amount(1), 2),
        lambda: inventories.put(uuid, "VCPU", Amount(1), 2),
        lambda: traits.set_of_provider(uuid, [], 2),
        lambda: aggregates.set_of_provider(uuid, [], 2),
    ):
        refused(ConcurrentUpdate, act, STALE)
    refused(Conflict, lambda: inventories.add(uuid, "VCPU", Amount(1), 3))
    for act in (
        lambda: inventories.put(uuid, "VGPU", Amount(1), 3),
        lambda: inventories.replace(uuid, {"CUSTOM_GOLD": Amount(1)}, 3),
        lambda: inventories.replace(uuid, {"VCPU": Amount(1, reserved=2)}, 3),
        lambda: inventories.replace(uuid, {"VCPU": Amount(1, step_size=0)}, 3),
        lambda: inventories.replace(uuid, {"VCPU": Amount(1, allocation_ratio=0.0)}, 3),
    ):
        refused(Invalid, act)
    refused(NotFound, lambda: inventories.delete_one(uuid, "VGPU"))
    refused(NotFound, lambda: inventories.all_of(uuid_of("nobody")))


def test_an_inventory_in_use_may_shrink_but_not_be_deleted() -> None:
    uuid = make("host", VCPU=4, DISK_GB=10)
    hold("a", "host", VCPU=3)
    in_use = "placement.inventory.inuse"
    at = generation("host")
    refused(Conflict, lambda: inventories.replace(uuid, {"DISK_GB": Amount(1)}, at), in_use)
    refused(Conflict, lambda: inventories.delete_one(uuid, "VCPU"), in_use)
    refused(Conflict, lambda: inventories.delete_all(uuid), in_use)
    inventories.put(uuid, "VCPU", Amount(1), at)
    assert inventories.all_of(uuid)[1]["VCPU"] == Amount(1, used=3)
    assert list(inventories.delete_one(uuid, "DISK_GB")[1]) == ["VCPU"]
    allocations.release([uuid_of("a")])
    assert inventories.delete_all(uuid)[1] == {}


def test_traits_are_standard_or_custom() -> None:
    uuid = make("host")
    assert traits.ensure("CUSTOM_GOLD")
    assert not traits.ensure("CUSTOM_GOLD")
    at, names = traits.set_of_provider(uuid, ["HW_CPU_X86_AVX", "CUSTOM_GOLD"], 0)
    assert (at, names) == (1, ["CUSTOM_GOLD", "HW_CPU_X86_AVX"])
    assert traits.set_of_provider(uuid, names, 1) == (1, names), "nothing changed"
    assert traits.of_provider(uuid) == (1, names)
    assert traits.names("CUSTOM_") == ["CUSTOM_GOLD"]
    assert traits.names(is_associated=True) == names
    assert traits.names(among=["CUSTOM_GOLD", "CUSTOM_NONE", "HW_CPU_X86_SSE"], is_associated=False) == [
        "HW_CPU_X86_SSE"
    ]
    assert traits.get("HW_CPU_X86_AVX") == "HW_CPU_X86_AVX"
    for act, kind in (
        (lambda: traits.set_of_provider(uuid, ["CUSTOM_NONE"], 1), Invalid),
        (lambda: traits.ensure("GOLD"), Invalid),
        (lambda: traits.ensure("CUSTOM_" + "A" * 249), Invalid),
        (lambda: traits.delete("HW_CPU_X86_AVX"), Invalid),
        (lambda: traits.delete("CUSTOM_GOLD"), Conflict),
        (lambda: traits.delete("CUSTOM_NONE"), NotFound),
        (lambda: traits.get("CUSTOM_NONE"), NotFound),
    ):
        refused(kind, act)
    traits.set_of_provider(uuid, [], None)
    traits.delete("CUSTOM_GOLD")
    assert traits.names("CUSTOM_") == []


def test_resource_classes_are_standard_or_custom() -> None:
    assert resource_classes.names()[:3] == ["VCPU", "MEMORY_MB", "DISK_GB"]
    assert resource_classes.create("CUSTOM_GOLD") == "CUSTOM_GOLD"
    assert not resource_classes.ensure("CUSTOM_GOLD")
    assert not resource_classes.ensure("VCPU")
    make("host", CUSTOM_GOLD=2)
    hold("a", "host", CUSTOM_GOLD=1)
    for act, kind in (
        (lambda: resource_classes.create("CUSTOM_GOLD"), Conflict),
        (lambda: resource_classes.create("GOLD"), Invalid),
        (lambda: resource_classes.delete("CUSTOM_GOLD"), Conflict),
        (lambda: resource_classes.delete("VCPU"), Invalid),
        (lambda: resource_classes.delete("CUSTOM_NONE"), NotFound),
        (lambda: resource_classes.rename("VCPU", "CUSTOM_CPU"), Invalid),
        (lambda: resource_classes.get("CUSTOM_NONE"), NotFound),
    ):
        refused(kind, act)
    resource_classes.rename("CUSTOM_GOLD", "CUSTOM_SILVER")
    assert allocations.held_by(uuid_of("a")) == {uuid_of("host"): {"CUSTOM_SILVER": 1}}
    allocations.release([uuid_of("a")])
    inventories.delete_all(uuid_of("host"))
    resource_classes.delete("CUSTOM_SILVER")
    assert resource_classes.names() == list(resource_classes.STANDARD)


def test_aggregates_of_a_provider() -> None:
    uuid = make("host")
    east, west = sorted([uuid_of("east"), uuid_of("west")])
    assert aggregates.set_of_provider(uuid, [east, west], 0) == (1, [east, west])
    assert aggregates.set_of_provider(uuid, [west], None) == (1, [west]), "older clients raise no generation"
    assert aggregates.of_provider(uuid) == (1, [west])
    before = providers.position()
    aggregates.join(east, [uuid, uuid_of("nobody")])
    aggregates.join(east, [uuid])
    aggregates.leave(west, [uuid])
    assert aggregates.of_provider(uuid) == (3, [east])
    [state] = providers.changed_since(before.number)
    assert state.aggregates == {east}


def test_followers_see_trees() -> None:
    make("host", VCPU=1)
    seen = providers.position()
    make("cell", under="host", has="CUSTOM_FAST")
    states = {state.name: state for state in providers.changed_since(seen.number)}
    assert set(states) == {"cell"}
    assert (states["cell"].parent_uuid, states["cell"].root_uuid) == (uuid_of("host"), uuid_of("host"))
    assert states["cell"].traits == {"CUSTOM_FAST"}
    assert (providers.get(uuid_of("host")).parent_uuid, providers.get(uuid_of("host")).root_uuid) == (
        None,
        uuid_of("host"),
    )


def test_providers_are_found_by_what_they_are() -> None:
    make("host", has="CUSTOM_A", of="east", VCPU=4)
    make("cell", under="host", has="CUSTOM_A CUSTOM_B", of="west", VCPU=2, DISK_GB=4)
    make("other", VCPU=Amount(4, reserved=3))
    hold("a", "host", VCPU=3)
    east, west = uuid_of("east"), uuid_of("west")

    def names(**wanted: object) -> list[str]:
        return [one.name for one in providers.search(**wanted)]  # type: ignore[arg-type]

    assert names() == ["host", "cell", "other"]
    assert names(name="cell") == names(uuid=uuid_of("cell")) == ["cell"]
    assert names(in_tree=uuid_of("cell")) == ["host", "cell"]
    assert names(in_tree=uuid_of("nobody")) == []
    assert names(member_of=[{east, west}]) == ["host", "cell"]
    assert names(member_of=[{east}, {west}]) == []
    assert names(forbidden_aggregates={east}) == ["cell", "other"]
    assert names(required=[{"CUSTOM_A"}, {"CUSTOM_B", "HW_CPU_X86_AVX"}]) == ["cell"]
    assert names(forbidden={"CUSTOM_B"}) == ["host", "other"]
    assert names(resources={"VCPU": 1}) == ["host", "cell", "other"]
    assert names(resources={"VCPU": 2}) == ["cell"]
    assert names(resources={"VCPU": 1, "DISK_GB": 1}) == ["cell"]
    refused(Invalid, lambda: names(required=[{"CUSTOM_NONE"}]))
    refused(Invalid, lambda: names(resources={"CUSTOM_NONE": 1}))


def test_a_host_that_reports_keeps_what_operators_set() -> None:
    uuid = uuid_of("host")
    stock = {"VCPU": Inventory(4), "CUSTOM_GOLD": Inventory(1)}
    inventories.report(uuid, "host", stock, ["COMPUTE_NODE", "CUSTOM_FAST", "HW_CPU_X86_AVX"])
    assert resource_classes.get("CUSTOM_GOLD")
    assert traits.names(is_associated=True) == ["COMPUTE_NODE", "CUSTOM_FAST", "HW_CPU_X86_AVX"]
    traits.ensure("CUSTOM_RENTED")
    at, _ = traits.set_of_provider(uuid, ["COMPUTE_NODE", "CUSTOM_FAST", "HW_CPU_X86_AVX", "CUSTOM_RENTED"], 1)
    assert inventories.report(uuid, "host", stock, ["COMPUTE_NODE", "CUSTOM_FAST", "HW_CPU_X86_AVX"]) == at
    inventories.report(uuid, "host", stock, ["COMPUTE_NODE", "CUSTOM_FAST"])
    assert traits.of_provider(uuid)[1] == ["COMPUTE_NODE", "CUSTOM_FAST", "CUSTOM_RENTED"]
    traits.set_of_provider(uuid, ["CUSTOM_RENTED"], None)
    inventories.report(uuid, "host", stock, ["COMPUTE_NODE", "CUSTOM_FAST"])
    assert traits.of_provider(uuid)[1] == ["COMPUTE_NODE", "CUSTOM_FAST", "CUSTOM_RENTED"]
    links = models.ProviderTrait.objects.filter(provider__uuid=uuid).values_list("name", flat=True)
    assert sorted(links) == ["COMPUTE_NODE", "CUSTOM_FAST", "CUSTOM_RENTED"]
