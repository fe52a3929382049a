"""Cells, CPUs, pages and devices that a guest gets from a host, and reasons for rejections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conductor.core.hardware import devices, fit, usage
from conductor.core.hardware.fit import Limits
from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciPool
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.working_table import WorkingTable
from tests.unit.hardware.inside import asked, cell, host, pool, question
from tests.unit.scheduling import fleets

PINNED = {"hw:cpu_policy": "dedicated"}


def ways(extra_specs: dict[str, str], *cells: HostCell, pools: tuple[PciPool, ...] = (), **size: Any) -> fit.Fit:
    return fit.fit(host(*cells), pools, question(asked(extra_specs, **size)))


def pins(found: fit.Fit) -> list[set[int]]:
    assert found.topology is not None, found.reasons
    return [{cpu for _, cpu in one.pins} for one in found.topology.cells]


def test_pinned_cpus_are_threads_of_the_same_cores_unless_isolated() -> None:
    assert pins(ways(PINNED, cell())) == [{0, 1, 2, 3}]
    assert pins(ways({**PINNED, "hw:cpu_thread_policy": "isolate"}, cell())) == [{0, 2, 4, 6}]
    assert pins(ways({**PINNED, "hw:cpu_thread_policy": "require"}, cell())) == [{0, 1, 2, 3}]
    busy = cell(pinned=frozenset({0, 2, 4, 6}))
    assert pins(ways(PINNED, busy)) == [{1, 3, 5, 7}]
    assert ways({**PINNED, "hw:cpu_thread_policy": "require"}, busy).reasons == {fit.NO_CORES: 1}
    assert ways({**PINNED, "hw:cpu_thread_policy": "isolate"}, busy).reasons == {fit.NO_CORES: 1}


def test_isolated_guests_keep_off_hosts_that_split_cpus_with_threads() -> None:
    split = cell(cpus=frozenset(range(4)), pcpus=frozenset(range(4, 8)))
    assert ways({**PINNED, "hw:cpu_thread_policy": "isolate"}, split, vcpus=2).topology is None
    alone = cell(cores=8, threads=1, cpus=frozenset(range(4)), pcpus=frozenset(range(4, 8)))
    assert pins(ways({**PINNED, "hw:cpu_thread_policy": "isolate"}, alone)) == [{4, 5, 6, 7}]


def test_emulator_threads_get_a_cpu_of_their_own() -> None:
    found = ways({**PINNED, "hw:emulator_threads_policy": "isolate"}, cell())
    assert pins(found) == [{0, 1, 2, 3}]
    assert found.topology is not None
    assert found.topology.cells[0].reserved == {4}
    full = cell(cores=2)
    assert ways({**PINNED, "hw:emulator_threads_policy": "isolate"}, full).reasons == {fit.FEW_CPUS: 1}


@pytest.mark.parametrize(
    ("extra_specs", "values", "reason"),
    [
        ({"hw:numa_nodes": "2"}, {}, fit.FEW_CELLS),
        ({"hw:numa_nodes": "1"}, {"memory_mb": 1024}, fit.NO_MEMORY),
        ({"hw:numa_nodes": "1"}, {"cores": 1}, fit.FEW_CPUS),
        ({"hw:numa_nodes": "1"}, {"cpus_used": 8 * 16 - 3}, fit.CPUS_FULL),
        ({"hw:numa_nodes": "1"}, {"memory_mb_used": 4097}, fit.MEMORY_FULL),
        (PINNED, {"pinned": frozenset(range(5))}, fit.FEW_FREE_CPUS),
        (PINNED, {"pages": (), "memory_mb_used": 3000}, fit.NO_MEMORY),
        (PINNED, {"siblings": ()}, fit.UNTOLD),
        ({"hw:mem_page_size": "1GB"}, {}, fit.NO_PAGES),
        ({"hw:mem_page_size": "large"}, {}, fit.NO_PAGES),
        ({"hw:mem_page_size": "any"}, {"pages": ()}, fit.NO_PAGES),
    ],
)
def test_reasons_why_a_guest_fits_no_cell(extra_specs: dict[str, str], values: dict[str, Any], reason: str) -> None:
    assert ways(extra_specs, cell(**values)).reasons == {reason: 1}


def test_a_cell_with_unknown_cores_ends_the_search_when_it_is_next() -> None:
    reported, untold = cell(0, pinned=frozenset({0})), cell(1, siblings=())  # the roomier one comes first

    assert ways(PINNED, reported, untold).reasons == {fit.UNTOLD: 1}
    assert ways(PINNED, cell(0), cell(1, siblings=(), pinned=frozenset({8}))).topology is not None
    assert ways({"hw:numa_nodes": "1"}, reported, untold).topology is not None


def test_memory_may_be_shared_only_by_guests_that_are_not_pinned() -> None:
    full = cell(memory_mb_used=4096, pages=(Pages(4, 1 << 20, 1 << 20),))
    assert ways({"hw:numa_nodes": "1"}, full).topology is not None
    assert ways(PINNED, full).topology is None


def test_pages_are_the_largest_that_divide_the_memory() -> None:
    sizes = (Pages(4, 1 << 20), Pages(2048, 1024), Pages(1 << 20, 4))
    found = {
        size: ways({"hw:mem_page_size": size}, cell(pages=sizes), memory_mb=memory_mb)
        for size, memory_mb in (("any", 2048), ("large", 1536), ("small", 2048))
    }
    assert {name: one.topology.cells[0].page_size_kb for name, one in found.items() if one.topology} == {
        "any": 1 << 20,
        "large": 2048,
        "small": 4,
    }


def test_roomy_cells_come_first_and_full_ones_where_cells_are_packed() -> None:
    cells = (cell(0, cpus_used=3), cell(1))
    asks = question(asked({"hw:numa_nodes": "1"}))
    spread, packed = (fit.fit(host(*cells), (), replace(asks, packs=packs)).topology for packs in (False, True))
    assert spread is not None
    assert packed is not None
    assert (spread.cells[0].id, packed.cells[0].id) == (1, 0)


def test_a_guest_is_put_beside_its_devices_and_away_from_those_of_others() -> None:
    both = (cell(0), cell(1))
    pools = (pool(numa_node=1),)
    near = ways({"hw:numa_nodes": "1", "pci_passthrough:alias": "gpu:1"}, *both, pools=pools).topology
    far = ways({"hw:numa_nodes": "1"}, *both, pools=pools).topology
    assert near is not None
    assert far is not None
    assert (near.cells[0].id, far.cells[0].id) == (1, 0)


@pytest.mark.parametrize(
    ("policy", "node", "has_place"),
    [
        ("required", 0, True), ("required", 1, False), ("required", None, False), ("legacy", None, True),
        ("legacy", 1, False), ("preferred", 2, True), ("socket", 1, True), ("socket", 2, False),
        ("socket", None, False),
    ],
)  # fmt: skip
def test_numa_affinity_policies_of_devices(policy: str, node: int | None, has_place: bool) -> None:
    cells = (cell(0), cell(1, pcpus=frozenset()), cell(2, pcpus=frozenset()))
    requested = {**PINNED, "pci_passthrough:alias": "gpu:1", "hw:pci_numa_affinity_policy": policy}
    found = ways(requested, *cells, pools=(pool(numa_node=node),))
    assert (found.topology is not None) is has_place
    assert has_place or fit.FAR_DEVICES in found.reasons


def test_devices_come_from_the_nearest_pool_and_physical_functions_only_on_request() -> None:
    pools = (pool(count=2, numa_node=1), pool(count=1, numa_node=0), pool("154d", 4, 0, dev_type="type-PF"))
    requests = asked({"pci_passthrough:alias": "gpu:2", "hw:pci_numa_affinity_policy": "preferred"}).pci_requests
    taken = devices.take_all(pools, requests, (0,), host())
    assert taken is not None
    assert {(one.product_id, one.numa_node): one.count for one in taken[0]} == {("1db4", 1): 1, ("154d", 0): 4}
    virtual = asked({"pci_passthrough:alias": "vf:1"}).pci_requests
    assert devices.take_all((pool("10ca", 1, dev_type="type-PF"),), virtual) is None
    assert devices.take_all((pool("10ca", 1, dev_type="type-VF"),), virtual) is not None


def test_granted_resources_are_not_free() -> None:
    before = host(cell())
    requested = {**PINNED, "hw:mem_page_size": "2048", "hw:cpu_thread_policy": "isolate"}
    found = fit.fit(before, (), question(asked(requested, vcpus=2, memory_mb=512)))
    assert found.topology is not None
    after = usage.with_guest(before, found.topology).cells[0]
    assert after.pinned == {0, 1, 2, 3}  # with the other threads of their cores
    assert (after.memory_mb_used, after.cpus_used) == (512, 0)
    assert [pages.used for pages in after.pages] == [0, 256]
    assert usage.clashes(HostTopology((after,)), found.topology)


def test_a_host_that_lacks_one_of_the_devices_gives_those_before_it_and_counts_no_work() -> None:
    requested = asked({"pci_passthrough:alias": "gpu:1,vf:1"})
    state = with_one_more(pci_pools=(pool(count=2),), requested=requested)
    assert [one.count for one in state.pci_pools] == [1]
    assert (state.num_instances, state.num_io_ops) == (1, 0)
    whole = with_one_more(pci_pools=(pool(count=2), pool("10ca", 1, dev_type="type-VF")), requested=requested)
    assert [one.count for one in whole.pci_pools] == [1]
    assert (whole.num_instances, whole.num_io_ops) == (1, 1)


def with_one_more(*, pci_pools: tuple[PciPool, ...], requested: RequestSpec) -> HostState:
    """Return a host with a guest that was placed without a check of its devices."""
    table = WorkingTable(HostTable.from_states([fleets.host("host-0", pci_pools=pci_pools)]))
    table.take(0, requested, needs_of(requested))
    return table.hosts.states[0]


def test_the_search_is_fast_with_very_many_combinations() -> None:
    cells = [cell(number, cores=1, pinned=frozenset() if number else frozenset({0, 1})) for number in range(16)]
    requested = {**PINNED, "hw:numa_nodes": "15"}
    found = ways(requested, *cells, vcpus=30, memory_mb=15 * 512)
    assert found.topology is not None
    assert len({one.id for one in found.topology.cells}) == 15
    none = ways({**PINNED, "hw:numa_nodes": "16"}, *cells, vcpus=32, memory_mb=16 * 512)
    assert none.topology is None
    assert none.reasons


def test_without_limits_nothing_is_counted() -> None:
    asks = question(asked({"hw:numa_nodes": "1"}), limits=None)
    full = host(cell(cpus_used=10_000))
    assert fit.fit(full, (), asks).topology is not None
    assert fit.fit(full, (), replace(asks, limits=Limits(1.0, 1.0))).topology is None
