"""Hosts evaluated all at once give the same answers as each alone, also after changes and placements."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conductor.core.hardware.topology import HostTopology, Pages
from conductor.core.host_state import HostState, HostTable
from conductor.core.scheduling.hardware_fit import HardwareFit
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.working_table import WorkingTable
from tests.unit.hardware.inside import asked, cell, pool
from tests.unit.scheduling.fleets import BROUGHT, host

PINNED = {"hw:cpu_policy": "dedicated"}
REQUESTS: tuple[dict[str, str], ...] = (
    {"hw:numa_nodes": "1"},
    {"hw:numa_nodes": "2"},
    PINNED,
    {**PINNED, "hw:numa_nodes": "2"},
    {**PINNED, "hw:cpu_thread_policy": "require"},
    {**PINNED, "hw:cpu_thread_policy": "isolate"},
    {**PINNED, "hw:emulator_threads_policy": "isolate"},
    {**PINNED, "hw:cpu_thread_policy": "isolate", "hw:emulator_threads_policy": "isolate"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
    {"hw:mem_page_size": "2048"},
    {"hw:mem_page_size": "large"},
    {**PINNED, "pci_passthrough:alias": "gpu:1", "hw:pci_numa_affinity_policy": "required"},
    {**PINNED, "pci_passthrough:alias": "near:1"},
    {**PINNED, "hw:numa_nodes": "2", "pci_passthrough:alias": "gpu:1"},
    {**PINNED, "hw:numa_nodes": "2", "pci_passthrough:alias": "gpu:2", "hw:pci_numa_affinity_policy": "required"},
    {"hw:numa_nodes": "2", "pci_passthrough:alias": "gpu:1", "hw:pci_numa_affinity_policy": "socket"},
    {**PINNED, "hw:numa_nodes": "2", "pci_passthrough:alias": "near:1", "hw:emulator_threads_policy": "isolate"},
    {
        "hw:numa_nodes": "2",
        "hw:numa_cpus.0": "0",
        "hw:numa_cpus.1": "1-3",
        "hw:numa_mem.0": "512",
        "hw:numa_mem.1": "1536",
    },
    {"pci_passthrough:alias": "gpu:2"},
)


def drawn(dice: random.Random, name: str) -> HostState:
    """Any host: none, one or more cells, of any use."""
    cells = []
    for number in range(dice.choice([0, 1, 2, 3])):
        threads = dice.choice([1, 2, 2, 4, 12])
        one = cell(number, cores=dice.choice([1, 2, 4, 8]), threads=threads, memory_mb=dice.choice([1024, 2048, 4096]))
        cpus = sorted(one.cpus)
        busy = dice.choice([0.0, 0.1, 0.4])
        split = dice.choice([0, 0, len(cpus) // 2])
        values: dict[str, Any] = {
            "cpus": frozenset(cpus[: len(cpus) - split]),
            "pcpus": frozenset(cpus[split:]),
            "pinned": frozenset(cpu for cpu in cpus[split:] if dice.random() < busy),
            "cpus_used": dice.choice([0, 3, 40]),
            "memory_mb_used": dice.choice([0, 1024, 3000]),
            "pages": dice.choice(
                [(), (Pages(4, 1 << 19, dice.choice([0, 1 << 18])), Pages(2048, 2048, dice.choice([200, 2000])))]
            ),
        }
        cells.append(replace(one, **values))
    pools = tuple(pool(count=dice.choice([0, 1, 2]), numa_node=dice.choice([None, 0, 1])) for _ in range(2))
    return host(name, topology=HostTopology(tuple(cells)), pci_pools=pools, cpu_ratio=4.0, ram_ratio=1.5)


def assert_agree(hosts: HostTable, requested: dict[str, str]) -> None:
    request = asked(requested)
    for one in (HardwareFit(), BROUGHT["NUMATopologyFilter"], BROUGHT["PciPassthroughFilter"]):
        verdicts = [one.host_passes(state, request) for state in hosts.states]
        mask = one.mask(hosts, request)
        assert mask.tolist() == [bool(verdict) for verdict in verdicts], one.name
        for some in (np.arange(len(hosts)) % 3 == 0, mask, ~mask):
            assert one.mask_among(hosts, request, some)[some].tolist() == mask[some].tolist(), one.name
        assert all(verdict.reason for verdict in verdicts if not verdict)


@pytest.mark.parametrize(
    "requested", REQUESTS, ids=lambda requested: " ".join(f"{key}={value}" for key, value in requested.items())
)
def test_columns_say_what_each_host_says(requested: dict[str, str]) -> None:
    dice = random.Random(5)
    hosts = HostTable.from_states([drawn(dice, f"host-{number}") for number in range(120)])
    request = asked(requested)
    passing = HardwareFit().mask(hosts, request)
    assert 0 < passing.sum() < len(hosts)
    assert_agree(hosts, requested)
    assert_agree(hosts.with_rows({row: drawn(dice, f"host-{row}") for row in (3, 40, 41, 119)}), requested)
    table = WorkingTable(hosts)
    for row in passing.nonzero()[0][:3].tolist():
        table.take(row, request, needs_of(asked()))
        assert_agree(table.hosts, requested)
    assert_agree(hosts, requested)  # the snapshot itself is as it was


def test_a_guest_that_is_taken_is_seen_by_the_next() -> None:
    hosts = HostTable.from_states([host(topology=HostTopology((cell(),)), pci_pools=(pool(count=1),))])
    request = asked({**PINNED, "pci_passthrough:alias": "gpu:1"})
    table = WorkingTable(hosts)
    assert HardwareFit().mask(table.hosts, request).tolist() == [True]
    following = table.take(0, request, needs_of(asked()))
    assert HardwareFit().mask(table.hosts, following).tolist() == [False]
    assert table.hosts.states[0].topology is not None
    assert len(table.hosts.states[0].topology.cells[0].pinned) == 4
