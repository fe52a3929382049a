"""The table of hosts: kept up to date by what changed, it equals one read afresh, at a fixed number of queries."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Thread
from uuid import uuid4

import numpy as np
import pytest
from django.db import connections

from conductor.api_db.models import Aggregate, AggregateHost, CellMapping
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core.host_state import CLAIMED_COLUMNS, HostTable
from conductor.placement import allocations, inventories, models, providers
from conductor.placement.allocations import Claim, ProviderFull
from conductor.scheduler import host_manager as module
from conductor.scheduler.host_manager import HostManager
from tests.counting import Captured
from tests.databases import empty_all
from tests.fleet import ANA, SHOP, add_host, add_instance, inventory_of, provider_of, put_into_zone, silence
from tests.waiting import WAIT_SECONDS

pytestmark = pytest.mark.usefixtures("databases")


def assert_same(table: HostTable, fresh: HostTable) -> None:
    assert list(table.states) == list(fresh.states)
    for name in ("names", "zones", "is_up", "is_disabled", *CLAIMED_COLUMNS):
        assert np.array_equal(getattr(table, name), getattr(fresh, name)), name
    for name in ("cell", "units", "traits", "supported_instances", "availability_zone", "hypervisor_version"):
        kept, made = table.factor(name), fresh.factor(name)
        assert [kept.values[code] for code in kept.codes] == [made.values[code] for code in made.codes]
    assert table.rows_of(list(fresh.names)) == list(range(len(fresh)))


class World:
    """Things that happen to a fleet."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.hosts: dict[str, str] = {}
        self.consumers: list[str] = []
        for index in range(4):
            self.join(f"host-{index}")

    def join(self, host: str = "") -> None:
        host = host or f"host-{uuid4()}"
        cell = self.dice.choice(("cell1", "cell2"))
        add_host(host, cell, size=(4, 8192, 100), zone=self.dice.choice(("", f"zone-{host}")))
        self.hosts[host] = cell

    def leave(self) -> None:
        host, cell = self.any()
        try:
            providers.remove(provider_of(host))
        except Exception:
            return
        ComputeNode.objects.using(cell).filter(host=host).delete()
        Service.objects.using(cell).filter(host=host).delete()
        del self.hosts[host]
        if not self.hosts:
            self.join()

    def any(self) -> tuple[str, str]:
        return self.dice.choice(sorted(self.hosts.items()))

    def claim(self) -> None:
        consumer = str(uuid4())
        try:
            allocations.claim(Claim(consumer, provider_of(self.any()[0]), {"VCPU": 1, "MEMORY_MB": 512}, SHOP, ANA))
        except ProviderFull:
            return
        self.consumers.append(consumer)

    def release(self) -> None:
        if self.consumers:
            allocations.release([self.consumers.pop()])

    def grow(self) -> None:
        host, _ = self.any()
        inventories.report(provider_of(host), host, inventory_of((self.dice.randint(1, 9), 8192, 100)), ["CUSTOM_NEW"])

    def disable(self) -> None:
        host, cell = self.any()
        Service.objects.using(cell).filter(host=host).update(
            is_disabled=self.dice.random() < 0.5, disabled_reason=self.dice.choice(("", "new disks"))
        )

    def stop_responding(self) -> None:
        silence(*self.any())

    def force_down(self) -> None:
        host, cell = self.any()
        Service.objects.using(cell).filter(host=host).update(is_forced_down=self.dice.random() < 0.5)

    def report(self) -> None:
        host, cell = self.any()
        newest = max(ComputeNode.objects.using(cell).values_list("change_number", flat=True))
        report = {"supported_instances": [["x86_64", self.dice.choice(("fake", "qemu")), "hvm"]]}
        ComputeNode.objects.using(cell).filter(host=host).update(report=report, change_number=newest + 1)

    def move_zone(self) -> None:
        host, _ = self.any()
        AggregateHost.objects.filter(host=host).delete()
        if self.dice.random() < 0.7:
            put_into_zone(self.dice.choice(("left", "right-and-rather-long")), [host])

    def relabel(self) -> None:
        Aggregate.objects.filter(name="left").update(metadata={"availability_zone": "left", "n": str(uuid4())})

    def build(self) -> None:
        host, cell = self.any()
        add_instance(str(uuid4()), host, cell, vm_state="building")

    def finish(self) -> None:
        Instance.objects.using(self.dice.choice(("cell1", "cell2"))).update(vm_state="active")

    def close_cell(self) -> None:
        CellMapping.objects.filter(name="cell2").update(is_disabled=self.dice.random() < 0.5)


ACTS: tuple[Callable[[World], None], ...] = (
    World.join,
    World.leave,
    World.claim,
    World.claim,
    World.release,
    World.grow,
    World.disable,
    World.stop_responding,
    World.force_down,
    World.report,
    World.move_zone,
    World.relabel,
    World.build,
    World.finish,
    World.close_cell,
)


@pytest.mark.parametrize("seed", range(6))
def test_the_cached_host_table_always_equals_a_new_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IO_OPS_EVERY_SECONDS", 0.0)
    dice = random.Random(seed)
    world, kept = World(dice), HostManager()
    for _ in range(40):
        for act in dice.choices(ACTS, k=dice.randint(1, 3)):
            act(world)
        assert_same(kept.snapshot().table, HostManager().snapshot().table)


def test_a_snapshot_does_not_change_with_the_next() -> None:
    add_host("one")
    manager = HostManager()
    before = manager.snapshot().table
    allocations.claim(Claim(str(uuid4()), provider_of("one"), {"VCPU": 3}, SHOP, ANA))
    after = manager.snapshot().table
    assert (before.states[0].vcpus_used, before.free_vcpus[0], before.num_instances[0]) == (0, 8.0, 0.0)
    assert (after.states[0].vcpus_used, after.free_vcpus[0], after.num_instances[0]) == (3, 5.0, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        after.free_vcpus[0] = 1


@pytest.mark.parametrize("count", [1, 30])
def test_a_refresh_takes_as_many_queries_for_many_hosts_as_for_few(count: int) -> None:
    for index in range(count):
        add_host(f"host-{index}", "cell1" if index % 2 else "cell2", zone="az-1")
    manager = HostManager()
    manager.snapshot()
    manager.snapshot()
    captured = {alias: Captured(connections[alias]) for alias in ("default", "cell1", "cell2")}
    for one in captured.values():
        one.__enter__()
    manager.snapshot()
    for one in captured.values():
        one.__exit__(None, None, None)
    assert {alias: len(one) for alias, one in captured.items()} == {"default": 5, "cell1": 4, "cell2": 4}


def test_a_host_without_any_service_row_is_not_up() -> None:
    add_host("one")
    manager = HostManager()
    assert manager.snapshot().table.is_up.tolist() == [True]
    Service.objects.using("cell1").all().delete()
    assert manager.snapshot().table.is_up.tolist() == [False]


def test_a_node_that_placement_does_not_know_is_left_out() -> None:
    add_host("one")
    add_host("two")
    models.ProviderInventory.objects.filter(provider__name="two").delete()
    models.ResourceProvider.objects.filter(name="two").delete()
    assert HostManager().snapshot().table.names.tolist() == ["one"]


def test_a_provider_that_is_removed_takes_its_host_out_until_it_reports_again() -> None:
    add_host("one")
    add_host("two")
    manager = HostManager()
    manager.snapshot()
    providers.remove(provider_of("two"))
    assert manager.snapshot().table.names.tolist() == ["one"]
    inventories.report(provider_of("two"), "two", inventory_of((2, 1024, 10)))
    assert manager.snapshot().table.names.tolist() == ["one", "two"]
    assert manager.snapshot().table.free_vcpus.tolist() == [8.0, 2.0]


def test_change_numbers_that_start_again_are_noticed() -> None:
    manager = HostManager()
    for index in range(3):
        add_host(f"old-{index}")
    assert len(manager.snapshot().table) == 3
    empty_all()
    for index in range(4):
        add_host(f"new-{index}")
    assert manager.snapshot().table.names.tolist() == ["new-0", "new-1", "new-2", "new-3"]


def test_threads_share_one_manager() -> None:
    for index in range(5):
        add_host(f"host-{index}")
    manager = HostManager()
    sizes: list[int] = []

    def look() -> None:
        try:
            for _ in range(10):
                sizes.append(len(manager.snapshot().table))
                allocations.claim(Claim(str(uuid4()), provider_of("host-1"), {"MEMORY_MB": 1}, SHOP, ANA))
        finally:
            connections.close_all()

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    assert sizes == [5] * 40
    assert manager.snapshot().table.states[1].memory_mb_used == 40
