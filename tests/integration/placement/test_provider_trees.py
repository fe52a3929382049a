"""Hosts with several providers, on real databases: read, claimed, freed, and moved within the tree."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import Instance
from conductor.core.context import system_context
from conductor.core.errors import NoValidHost
from conductor.core.placement.amounts import Amount
from conductor.core.placement.forest import SHARES
from conductor.core.request_spec import MoveSpec, RequestSpec
from conductor.placement import aggregates, allocations, inventories, providers, traits
from conductor.placement.allocations import Claim, ProviderFull
from conductor.placement.models import ProviderInventory
from conductor.scheduler import claims, manager
from conductor.scheduler.host_manager import host_manager
from tests.fleet import ANA, SHOP, add_host, add_instance, provider_of, requested

pytestmark = pytest.mark.usefixtures("databases")

RACK = "11111111-1111-4111-8111-111111111111"
Parts = dict[str, dict[str, int]]


def stock(provider: str, **amounts: int) -> None:
    generation = providers.get(provider).generation
    inventories.replace(provider, {name: Amount(total) for name, total in amounts.items()}, generation)


def add_tree(host: str, cells: int = 2, disk_gb: int = 100) -> list[str]:
    """Return a host whose CPUs and memory belong to its cells; gives the uuids of these."""
    root = add_host(host)
    found = [str(uuid4()) for _ in range(cells)]
    for number, uuid in enumerate(found):
        providers.create(f"{host}-{number}", uuid, root)
        stock(uuid, VCPU=4, MEMORY_MB=4096)
    stock(root, **({"DISK_GB": disk_gb} if disk_gb else {}))
    return found


def add_pool(*hosts: str, disk_gb: int = 100) -> str:
    """Disk that all these hosts share."""
    pool = str(uuid4())
    providers.create("pool", pool)
    stock(pool, DISK_GB=disk_gb)
    traits.set_of_provider(pool, [SHARES], providers.get(pool).generation)
    aggregates.join(RACK, [pool, *map(provider_of, hosts)])
    return pool


def select(spec: RequestSpec, uuids: list[str]) -> Any:
    return manager.select_destinations(system_context(), spec, uuids, step_key=str(uuid4()), run_uuid=str(uuid4()))


def row_of(host: str) -> Any:
    table = host_manager.snapshot().table
    return table.states[table.rows_of([host])[0]]


def used(provider: str) -> dict[str, int]:
    return dict(ProviderInventory.objects.filter(provider__uuid=provider).values_list("resource_class", "used"))


def test_a_server_takes_of_its_hosts_providers_what_each_has() -> None:
    cells = add_tree("deep")
    uuid = str(uuid4())

    ((chosen,),) = select(requested(vcpus=3, memory_mb=1024, disk_gb=10), [uuid])

    assert chosen.provider_uuid == provider_of("deep")
    held = allocations.held_by(uuid)
    assert held == chosen.parts
    assert held[provider_of("deep")] == {"DISK_GB": 10}
    assert sum(held.get(cell, {}).get("VCPU", 0) for cell in cells) == 3
    assert row_of("deep").num_instances == 1
    assert row_of("deep").free_vcpus == 5

    claims.release(uuid)

    assert used(cells[0]) == used(cells[1]) == {"VCPU": 0, "MEMORY_MB": 0}
    assert row_of("deep").free_vcpus == 8
    assert row_of("deep").num_instances == 0


def test_a_batch_fills_each_provider_of_a_host_once() -> None:
    cells = add_tree("deep")
    query = requested(vcpus=4, memory_mb=1024)

    with pytest.raises(NoValidHost):
        select(query, [str(uuid4()) for _ in range(3)])
    assert used(cells[0]) == used(cells[1]) == {"VCPU": 0, "MEMORY_MB": 0}

    select(query, [str(uuid4()), str(uuid4())])

    assert [used(cell)["VCPU"] for cell in cells] == [4, 4]


def test_claims_of_others_on_a_provider_are_seen() -> None:
    cells = add_tree("deep")
    assert row_of("deep").free_vcpus == 8

    allocations.claim(Claim(str(uuid4()), cells[0], {"VCPU": 3}, SHOP, ANA))

    assert row_of("deep").free_vcpus == 5
    with pytest.raises(NoValidHost):
        select(requested(vcpus=4), [str(uuid4()), str(uuid4())])


def test_a_host_whose_parts_are_removed_is_one_provider_again() -> None:
    cells = add_tree("deep")
    assert row_of("deep").tree

    for cell in cells:
        providers.delete(cell)
    stock(provider_of("deep"), VCPU=2, MEMORY_MB=2048, DISK_GB=20)

    assert (row_of("deep").tree, row_of("deep").vcpus) == ((), 2)
    ((chosen,),) = select(requested(vcpus=2), [str(uuid4())])
    assert chosen.by_provider == {}


def test_shared_disk_counts_for_all_hosts_that_share_it() -> None:
    for host in ("one", "two"):
        add_tree(host, disk_gb=0)
    add_host("apart", size=(8, 8192, 10))
    pool = add_pool("one", "two")
    uuid = str(uuid4())

    ((chosen, alternate),) = select(requested(vcpus=1, disk_gb=70), [uuid])

    assert {chosen.host, alternate.host} == {"one", "two"}
    assert allocations.held_by(uuid)[pool] == {"DISK_GB": 70}
    assert [row_of(host).free_disk_gb for host in ("one", "two", "apart")] == [30, 30, 10]
    with pytest.raises(NoValidHost):
        select(requested(vcpus=1, disk_gb=70), [str(uuid4())])

    aggregates.leave(RACK, [provider_of("two")])
    assert [row_of(host).free_disk_gb for host in ("one", "two")] == [30, 0]


def test_a_batch_does_not_count_on_shared_disk_twice() -> None:
    for host in ("one", "two"):
        add_tree(host, disk_gb=0)
    pool = add_pool("one", "two")

    with pytest.raises(NoValidHost):
        select(requested(vcpus=4, disk_gb=60), [str(uuid4()), str(uuid4())])

    assert used(pool) == {"DISK_GB": 0}


def test_an_alternate_is_claimed_once_with_all_its_providers() -> None:
    for host in ("one", "two"):
        add_tree(host)
    uuid = str(uuid4())
    ((_, alternate),) = select(requested(vcpus=2), [uuid])
    claims.release(uuid)

    for _ in range(2):
        got = claims.claim_alternate(uuid, project_id=SHOP, user_id=ANA, alternates=[alternate])
        assert got == alternate
        assert allocations.held_by(uuid) == alternate.parts


def test_a_resize_within_a_host_counts_on_what_the_server_holds_of_each_part() -> None:
    cells = add_tree("deep", cells=1)
    uuid, migration = str(uuid4()), str(uuid4())
    ((old,),) = select(requested(vcpus=3, memory_mb=1024, disk_gb=80), [uuid])
    move = MoveSpec(
        cell="cell1",
        migration_uuid=migration,
        source_provider_uuid=provider_of("deep"),
        gives_back=old.parts[provider_of("deep")],
        gives_back_by_provider=old.parts,
    )

    ((new,),) = select(requested(vcpus=4, memory_mb=2048, disk_gb=90, move=move), [uuid])

    assert used(cells[0]) == {"VCPU": 4, "MEMORY_MB": 2048}
    assert used(provider_of("deep")) == {"DISK_GB": 90}
    claims.step_back(uuid, migration, held=old.parts, owner=(SHOP, ANA))
    assert allocations.held_by(uuid) == old.parts
    assert used(cells[0]) == {"VCPU": 3, "MEMORY_MB": 1024}
    assert new.host == "deep"


def test_a_server_that_lost_its_claim_gets_it_of_all_parts_again() -> None:
    cells = add_tree("deep")
    uuid = str(uuid4())
    add_instance(uuid, "deep")
    flavor = {"flavor_id": "1", "name": "small", "vcpus": 2, "memory_mb": 512, "root_gb": 1}
    Instance.objects.using("cell1").filter(uuid=uuid).update(flavor=flavor)
    instance = Instance.objects.using("cell1").get(uuid=uuid)

    claims.claim_at(instance, provider_of("deep"))

    assert allocations.held_by(uuid)[provider_of("deep")] == {"DISK_GB": 1}
    assert sum(used(cell)["VCPU"] for cell in cells) == 2
    claims.release(uuid)
    for cell in cells:
        allocations.claim(Claim(str(uuid4()), cell, {"VCPU": 4}, SHOP, ANA))
    with pytest.raises(ProviderFull):
        claims.claim_at(instance, provider_of("deep"))
    assert allocations.held_by(uuid) == {}
