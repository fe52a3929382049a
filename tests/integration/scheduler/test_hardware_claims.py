"""Claims of CPUs, pages and devices: granted with the allocation, never twice, and freed with it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.cell_db.models import Instance
from conductor.core.compute_driver import Inventory
from conductor.core.context import system_context
from conductor.core.errors import Invalid, NoValidHost
from conductor.core.hardware import wire
from conductor.core.hardware.grants import HardwareGrant, HardwareRequest
from conductor.core.hardware.topology import PciDevice
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hardware_fit import wanted_of
from conductor.core.selection import Selection
from conductor.placement import allocations, hardware, inventories, models, providers
from conductor.placement.allocations import ProviderFull
from conductor.scheduler import claims, manager
from conductor.workflows.steps.on_host import hardware_of
from tests.fleet import add_host, provider_of, requested
from tests.unit.hardware.inside import asked, cell

pytestmark = pytest.mark.usefixtures("databases")

SHOP, ANA = "5" * 32, "a" * 32
PINNED = {"hw:cpu_policy": "dedicated"}
CELLS = [wire.cell_to_json(cell(number)) for number in range(2)]
DEVICES = [wire.device_to_json(PciDevice(f"0000:81:00.{n}", "10de", "1db4", 0)) for n in range(2)]


def provider(name: str = "host-1", cells: Sequence[Any] = CELLS, devices: Sequence[Any] = DEVICES) -> str:
    uuid = str(uuid4())
    inventories.report(uuid, name, {"VCPU": Inventory(1000), "MEMORY_MB": Inventory(10_000_000)})
    hardware.report(uuid, cells, devices)
    return uuid


def selection(provider_uuid: str, request: RequestSpec) -> Selection:
    needs = {"VCPU": request.flavor.vcpus, "MEMORY_MB": request.flavor.memory_mb}
    return Selection("host-1", "host-1", "cell1", provider_uuid, needs, hardware=wanted_of(request))


def claim(provider_uuid: str, request: RequestSpec, *uuids: str) -> tuple[str, ...]:
    uuids = uuids or (str(uuid4()),)
    chosen = {uuid: selection(provider_uuid, request) for uuid in uuids}
    claims.claim(chosen, project_id=SHOP, user_id=ANA)
    return uuids


def cpus_of(held: dict[str, HardwareGrant]) -> set[int]:
    return {cpu for one in held.values() if one.numa for part in one.numa.cells for cpu in part.host_cpus}


def free(provider_uuid: str) -> tuple[int, int]:
    """Free CPUs for pinning, free devices."""
    topology, pools = hardware.inside_of([provider_uuid])[provider_uuid]
    assert topology is not None
    return sum(len(one.free_pcpus) for one in topology.cells), sum(pool.count for pool in pools)


def test_a_claim_takes_cpus_and_devices_and_gives_them_back() -> None:
    host = provider()
    before = providers.position().number
    (uuid,) = claim(host, asked({**PINNED, "pci_passthrough:alias": "gpu:1"}))
    assert len(cpus_of(hardware.held_by(uuid))) == 4
    assert free(host) == (12, 1)
    assert providers.position().number > before  # readers of placement's change number refresh
    claim(host, asked({**PINNED, "pci_passthrough:alias": "gpu:1"}), uuid)  # again: it has it already
    assert free(host) == (12, 1)
    claims.release(uuid)
    assert free(host) == (16, 2)
    assert not models.HardwareClaim.objects.exists()


def test_hardware_claims_are_granted_together_or_not_at_all() -> None:
    host = provider()
    uuids = [str(uuid4()) for _ in range(5)]
    with pytest.raises(ProviderFull) as caught:  # each cell holds two
        claim(host, asked(PINNED), *uuids)
    assert caught.value.details["provider_uuid"] == host
    assert not models.Consumer.objects.exists()
    assert not models.HardwareClaim.objects.exists()
    assert {row.used for row in models.ProviderInventory.objects.all()} == {0}
    claim(host, asked(PINNED), *uuids[:4])
    assert free(host) == (0, 2)


@pytest.mark.parametrize("requested", [PINNED, {"pci_passthrough:alias": "gpu:1"}, {"hw:numa_nodes": "1"}])
def test_a_host_without_reported_hardware_grants_none(requested: dict[str, str]) -> None:
    host = provider(cells=[], devices=[])
    with pytest.raises(ProviderFull):
        claim(host, asked(requested))
    assert not models.Consumer.objects.exists()


def test_a_report_that_cannot_be_read_changes_nothing() -> None:
    host = provider()
    with pytest.raises(Invalid):
        hardware.report(host, [{"id": "first"}], [])
    assert free(host) == (16, 2)


def test_a_report_that_says_the_same_changes_nothing() -> None:
    host = provider()
    before = providers.position()
    hardware.report(host, CELLS, DEVICES)
    assert providers.position() == before
    hardware.report(host, CELLS[:1], [])
    assert providers.position() != before
    assert free(host) == (8, 0)


def test_a_move_keeps_both_ends_and_goes_back_with_the_same_cpus() -> None:
    source, target = provider(), provider("host-2")
    (uuid,) = claim(source, asked(PINNED))
    had = hardware.held_by(uuid)
    held = allocations.held_by(uuid)
    migration = str(uuid4())
    there = selection(target, asked(PINNED))
    claims.step_aside(uuid, migration, there)
    claims.claim({uuid: there}, project_id=SHOP, user_id=ANA)
    assert (free(source), free(target)) == ((12, 2), (12, 2))
    claims.step_back(uuid, migration, held=held, owner=(SHOP, ANA))
    assert hardware.held_by(uuid) == had
    assert (free(source), free(target)) == ((12, 2), (16, 2))


def test_a_resize_on_the_same_host_goes_back_too() -> None:
    host = provider()
    (uuid,) = claim(host, asked(PINNED))
    had, held, migration = hardware.held_by(uuid), allocations.held_by(uuid), str(uuid4())
    larger = selection(host, asked(PINNED, vcpus=8, memory_mb=2048))
    claims.step_aside(uuid, migration, larger)
    claims.claim({uuid: larger}, project_id=SHOP, user_id=ANA)
    assert free(host) == (4, 2)
    claims.step_back(uuid, migration, held=held, owner=(SHOP, ANA))
    assert hardware.held_by(uuid) == had
    assert free(host) == (12, 2)


def test_a_move_that_is_settled_frees_the_source() -> None:
    source, target = provider(), provider("host-2")
    (uuid,) = claim(source, asked(PINNED))
    migration = str(uuid4())
    there = selection(target, asked(PINNED))
    claims.step_aside(uuid, migration, there)
    claims.claim({uuid: there}, project_id=SHOP, user_id=ANA)
    claims.settle(uuid, migration)
    assert (free(source), free(target)) == ((16, 2), (12, 2))


def test_many_deciders_never_give_a_cpu_or_device_twice() -> None:
    hosts = [provider(f"host-{number}") for number in range(2)]
    requests = (
        asked({**PINNED, "pci_passthrough:alias": "gpu:1"}),
        asked({**PINNED, "hw:cpu_thread_policy": "isolate"}, vcpus=2, memory_mb=512),
        asked({"pci_passthrough:alias": "gpu:1"}),
        asked({**PINNED, "hw:numa_nodes": "2"}),
    )

    def work(seed: int) -> int:
        dice = random.Random(seed)
        mine: list[str] = []
        granted = 0
        try:
            for _ in range(12):
                if mine and dice.random() < 0.4:
                    claims.release(mine.pop(dice.randrange(len(mine))))
                    continue
                try:
                    mine += claim(dice.choice(hosts), dice.choice(requests))
                    granted += 1
                except ProviderFull:
                    continue
        finally:
            connections.close_all()
        return granted

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) > 4
    for host in hosts:
        held = [
            wire.grant_from_json(json)
            for json in models.HardwareClaim.objects.filter(provider__uuid=host).values_list("grant", flat=True)
        ]
        cpus = Counter(cpu for one in held if one.numa for part in one.numa.cells for cpu in part.host_cpus)
        devices = Counter(device.address for one in held for device in one.devices)
        assert set(cpus.values()) | set(devices.values()) <= {1}
    assert not models.HardwareClaim.objects.exclude(consumer__allocations__isnull=False).exists()


def test_a_request_without_hardware_writes_no_claim() -> None:
    host = provider()
    (uuid,) = claim(host, asked())
    assert hardware.held_by(uuid) == {}
    hardware.claim(uuid, host, HardwareRequest())
    assert not models.HardwareClaim.objects.exists()


def test_the_scheduler_goes_by_what_is_left_inside_of_hosts(settings: Any) -> None:
    """With the filters that are on by default: what is asked of the inside of hosts is kept to all the same."""
    settings.NOVELLA_PCI_ALIASES = ({"name": "gpu", "vendor_id": "10de", "product_id": "1db4"},)
    add_host("plain")
    add_host("roomy")
    inventory = {
        "PCPU": Inventory(16),
        "VCPU": Inventory(8),
        "MEMORY_MB": Inventory(8192),
        "DISK_GB": Inventory(100),
    }
    inventories.report(provider_of("roomy"), "roomy", inventory)
    hardware.report(provider_of("roomy"), CELLS, DEVICES)
    request = requested(vcpus=4, memory_mb=512, disk_gb=0)
    extra_specs = {**PINNED, "pci_passthrough:alias": "gpu:1"}
    request = replace(request, flavor=replace(request.flavor, extra_specs=extra_specs))

    def select(count: int) -> list[str]:
        uuids = [str(uuid4()) for _ in range(count)]
        found = manager.select_destinations(
            system_context(), request, uuids, step_key=str(uuid4()), run_uuid=str(uuid4())
        )
        assert {picked[0].host for picked in found} == {"roomy"}
        return uuids

    with pytest.raises(NoValidHost, match="Only 2 of 3 instances"):
        select(3)
    assert free(provider_of("roomy")) == (16, 2)
    pair = select(2)
    assert free(provider_of("roomy")) == (8, 0)
    assert len(cpus_of(hardware.held_by(pair[0])) | cpus_of(hardware.held_by(pair[1]))) == 8
    with pytest.raises(NoValidHost):
        select(1)
    claims.release(pair[0])
    select(1)


def test_a_host_receives_what_its_guest_was_given() -> None:
    (uuid,) = claim(provider(), asked({**PINNED, "pci_passthrough:alias": "gpu:1"}))
    guest = Instance(uuid=uuid, flavor={"extra_specs": PINNED}, image={})
    assert wire.grant_from_json(hardware_of(guest)) == next(iter(hardware.held_by(uuid).values()))
    unowned = Instance(uuid=uuid4(), flavor={"extra_specs": PINNED}, image={})
    assert hardware_of(unowned) == {}


def test_for_a_guest_without_requirements_nothing_is_checked(django_assert_num_queries: Any) -> None:
    plain = Instance(uuid=uuid4(), flavor={"extra_specs": {"aggregate:ssd": "true"}}, image={"properties": {}})
    with django_assert_num_queries(0):
        assert hardware_of(plain) == {}
