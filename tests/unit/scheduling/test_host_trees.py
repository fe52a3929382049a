"""Hosts with several providers: sources of resources, the rest after a pick, and reasons of rejections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conductor.core.host_state import HostState, HostTable
from conductor.core.placement.amounts import Amount
from conductor.core.placement.forest import SHARES, ProviderNode
from conductor.core.placement.query import Bounds
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling import host_trees, snapshots
from conductor.core.scheduling.builtin_filters import Placement
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import Pipeline, SelectionResult, decide
from conductor.core.selection import Selection

BARE = Pipeline((), (), keeps_order=True)
POOL = ProviderNode(
    "pool",
    root_uuid="pool",
    traits=frozenset({SHARES}),
    aggregates=frozenset({"rack"}),
    amounts={"DISK_GB": Amount(100)},
)


def cell(uuid: str, root: str, **amounts: int) -> ProviderNode:
    given = {name: Amount(total) for name, total in amounts.items()}
    return ProviderNode(uuid, parent_uuid=root, root_uuid=root, amounts=given)


def tree_host(name: str, *children: ProviderNode, shares: ProviderNode | None = None, disk: int = 50) -> HostState:
    root = ProviderNode(
        name,
        root_uuid=name,
        traits=frozenset({"COMPUTE_NODE"}),
        aggregates=frozenset({"rack"}) if shares else frozenset(),
        amounts={"DISK_GB": Amount(disk)} if disk else {},
    )
    state = HostState(name, name, "cell1", name, "nova", 0, 0, 0, 0, 0, 0, traits=root.traits)
    return host_trees.with_tree(state, (root, *children, *((shares,) if shares else ())))


def with_cells(name: str, **kwargs: Any) -> HostState:
    """Return a host with two cells of 4 CPUs and 4 GB each."""
    cells = (cell(f"{name}-{number}", name, VCPU=4, MEMORY_MB=4096) for number in range(2))
    return tree_host(name, *cells, **kwargs)


def plain(name: str, vcpus: int = 2) -> HostState:
    return HostState(name, name, "cell1", name, "nova", vcpus, 0, 8192, 0, 50, 0)


def request(vcpus: int = 4, memory_mb: int = 1024, root_gb: int = 10, **extra_specs: Any) -> RequestSpec:
    keys = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    return RequestSpec("shop", "ana", FlavorSpec("f", "f", vcpus, memory_mb, root_gb, extra_specs=keys))


def placed(states: list[HostState], request_spec: RequestSpec, count: int = 1) -> SelectionResult:
    uuids = [f"new-{number}" for number in range(count)]
    return decide(HostTable.from_states(states), request_spec, uuids, pipeline=BARE, seed=1)


def test_a_host_of_several_providers_gives_what_they_have_together() -> None:
    outcome = placed([plain("small"), with_cells("big")], request())

    ((chosen,),) = outcome.selections()
    assert chosen.host == "big"
    assert chosen.resources == {"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 10}
    assert chosen.parts == {"big": {"DISK_GB": 10}, "big-0": {"VCPU": 4, "MEMORY_MB": 1024}}
    assert Selection.from_json(chosen.to_json()) == chosen


def test_the_sizes_of_a_tree_are_sums_that_no_single_provider_has() -> None:
    host = with_cells("big")
    assert (host.vcpus, host.memory_mb, host.disk_gb) == (8, 8192, 50)

    outcome = placed([host], request(vcpus=6))  # six in all, but in no cell

    assert outcome.selections() == ()
    (reported,) = explain(outcome).hosts
    assert reported.reason == "the host's providers cannot give everything together"


def test_one_provider_needs_no_parts() -> None:
    ((chosen,),) = placed([plain("small")], request(vcpus=1)).selections()

    assert chosen.by_provider == {}
    assert chosen.parts == {"small": {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}}


def test_each_of_a_batch_takes_of_the_provider_that_is_left() -> None:
    outcome = placed([with_cells("big")], request(vcpus=4), count=2)

    cpus = [
        [provider for provider, amounts in chosen.parts.items() if "VCPU" in amounts]
        for (chosen, *_) in outcome.selections()
    ]
    assert cpus == [["big-0"], ["big-1"]]
    assert placed([with_cells("big")], request(vcpus=4), count=3).selections() == ()


def test_alternates_say_what_they_would_give_beside_the_batch() -> None:
    outcome = placed([with_cells("one"), with_cells("two")], request(vcpus=3))

    ((chosen, alternate),) = outcome.selections()
    assert (chosen.host, alternate.host) == ("one", "two")
    assert alternate.parts == {"two": {"DISK_GB": 10}, "two-0": {"VCPU": 3, "MEMORY_MB": 1024}}


def test_a_sharing_provider_serves_all_hosts_of_its_aggregate_but_each_amount_once() -> None:
    hosts = [with_cells(name, shares=POOL, disk=0) for name in ("one", "two")]
    requested = request(vcpus=4, root_gb=60)

    ((chosen, alternate),) = placed(hosts, requested).selections()
    assert chosen.parts["pool"] == {"DISK_GB": 60}
    assert alternate.parts["pool"] == {"DISK_GB": 60}
    assert placed(hosts, requested, count=2).selections() == ()  # the second host's share is the first one's


def test_a_sharing_provider_is_no_host() -> None:
    requested = request(vcpus=1, root_gb=60, resources__VCPU="0", resources__MEMORY_MB="0")
    host = with_cells("one", shares=POOL, disk=0)

    outcome = placed([host], requested)

    assert outcome.selections() == ()


def test_isolated_groups_come_from_different_providers() -> None:
    requested = request(vcpus=1, resources1__CUSTOM_PORT="1", resources2__CUSTOM_PORT="1", group_policy="isolate")
    ports = [cell(f"nic-{number}", "big", CUSTOM_PORT=4) for number in range(2)]
    alone = cell("cpu", "big", VCPU=4, MEMORY_MB=4096)

    assert placed([tree_host("big", alone, ports[0])], requested).selections() == ()
    ((chosen,),) = placed([tree_host("big", alone, *ports)], requested).selections()
    assert chosen.parts["nic-0"] == chosen.parts["nic-1"] == {"CUSTOM_PORT": 1}


@pytest.mark.parametrize(
    ("extra_specs", "reason"),
    [
        ({"resources__VCPU": "9"}, "not enough vCPUs"),
        ({"trait__CUSTOM_GOLD": "required"}, "no provider of the host has a required trait"),
    ],
)
def test_the_reason_names_what_is_missing(extra_specs: dict[str, Any], reason: str) -> None:
    (reported,) = explain(placed([with_cells("big")], request(**extra_specs))).hosts

    assert reported.reason == reason


def test_a_disabled_tree_is_turned_away_by_its_root() -> None:
    host = with_cells("big")
    root = replace(host.tree[0], traits=host.tree[0].traits | {"COMPUTE_STATUS_DISABLED"})
    off = replace(host, tree=(root, *host.tree[1:]), traits=root.traits)
    bounds = Bounds(root_forbidden=frozenset({"COMPUTE_STATUS_DISABLED"}))

    (reported,) = explain(placed([off], replace(request(), bounds=bounds))).hosts

    assert (reported.reason, reported.need) == (
        "the host has a forbidden trait",
        "without COMPUTE_STATUS_DISABLED",
    )


def test_the_mask_says_what_each_host_says_of_itself() -> None:
    full = with_cells("full")
    worn = host_trees.with_taken(full, {"full-0": {"VCPU": 4}, "full-1": {"VCPU": 1}})
    states = [plain("small"), with_cells("big"), with_cells("same"), worn, plain("large", vcpus=8)]
    hosts, requested = HostTable.from_states(states), request(vcpus=4)
    link = Placement()

    mask = link.mask(hosts, requested)

    assert mask.tolist() == [False, True, True, False, True]
    assert mask.tolist() == [bool(link.host_passes(state, requested)) for state in states]


def test_a_claim_and_its_release_cancel_out() -> None:
    host = with_cells("big", shares=POOL)
    parts = {"big-0": {"VCPU": 2}, "pool": {"DISK_GB": 5}}

    less = host_trees.with_taken(host, parts)

    assert (less.vcpus_used, less.disk_gb_used, less.free_vcpus) == (2, 5, 6)
    assert host_trees.with_taken(less, parts, -1) == host


def test_sums_keep_what_providers_of_different_ratios_can_give() -> None:
    children = (
        replace(cell("a", "big"), amounts={"VCPU": Amount(4, allocation_ratio=16.0)}),
        replace(cell("b", "big"), amounts={"VCPU": Amount(4, reserved=2, allocation_ratio=1.0, used=1)}),
    )

    assert tree_host("big", *children).free_vcpus == pytest.approx(65)


def test_a_write_into_a_tree_changed_by_a_claim_is_refused() -> None:
    host = host_trees.with_taken(with_cells("big"), {"big-0": {"VCPU": 2}})

    with pytest.raises(TypeError):
        host.tree[1].amounts["VCPU"] = Amount(99)  # type: ignore[index]


def test_trees_are_kept_in_snapshots() -> None:
    states = [with_cells("big", shares=POOL), plain("small")]

    assert list(snapshots.unpack(snapshots.pack(states)).states) == states


def test_a_fleet_without_provider_trees_is_evaluated_by_columns_alone() -> None:
    hosts = HostTable.from_states([plain("one"), plain("two", vcpus=8)])

    assert host_trees.rows_of(hosts) is None
    assert np.array_equal(Placement().mask(hosts, request()), [False, True])
