"""NUMA cells and PCI devices of simulated hosts: as configured, and refused if impossible."""

from __future__ import annotations

from typing import Any

import pytest

from compute_drivers.fake.driver import FakeDriver
from conductor.core.compute_driver import NodeReport
from conductor.core.errors import Invalid
from conductor.core.hardware import wire
from conductor.core.hardware.grants import Host
from tests.guests import ImageShelf


def report(**options: Any) -> NodeReport:
    driver = FakeDriver("sim-7", options, ImageShelf().open)
    driver.start()
    return driver.report()


def inside(found: NodeReport) -> Host:
    return wire.host_from_json(found.numa_cells, found.pci_devices)


def test_a_host_without_cells_and_devices_reports_none() -> None:
    found = report()
    assert (found.numa_cells, found.pci_devices) == ((), ())
    assert "PCPU" not in found.inventory
    assert "HW_CPU_HYPERTHREADING" not in found.traits


def test_cells_have_equal_parts_of_the_host() -> None:
    values = {"vcpus": 16, "memory_mb": 8192, "numa_cells": 2, "threads_per_core": 2, "pinned_vcpus": 8}
    found = report(**values, huge_pages=512, pci_devices=2)
    host = inside(found)
    assert host.topology is not None
    assert [(set(cell.cpus), set(cell.pcpus)) for cell in host.topology.cells] == [
        (set(range(4)), set(range(4, 8))),
        (set(range(8, 12)), set(range(12, 16))),
    ]
    first = host.topology.cells[0]
    assert first.siblings == tuple(frozenset({cpu, cpu + 1}) for cpu in range(0, 8, 2))
    assert {pages.size_kb: pages.total for pages in first.pages} == {4: (4096 - 1024) * 256, 2048: 512}
    assert [device.numa_node for device in host.devices] == [0, 0, 1, 1]
    assert len({device.address for device in host.devices}) == 4
    assert {name: amount.total for name, amount in found.inventory.items()} == {
        "VCPU": 8,
        "PCPU": 8,
        "MEMORY_MB": 8192,
        "DISK_GB": 2000,
    }
    assert "HW_CPU_HYPERTHREADING" in found.traits


def test_devices_of_a_host_without_cells_are_near_to_nothing() -> None:
    assert [device.numa_node for device in inside(report(pci_devices=3)).devices] == [None] * 3


@pytest.mark.parametrize(
    "options",
    [
        {"vcpus": 5, "numa_cells": 2},
        {"vcpus": 8, "numa_cells": 2, "threads_per_core": 3},
        {"vcpus": 8, "numa_cells": 2, "pinned_vcpus": 9},
        {"vcpus": 8, "numa_cells": 1, "huge_pages": 100_000},
        {"pinned_vcpus": 4},
        {"huge_pages": 4},
    ],
)
def test_impossible_values_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        FakeDriver("sim-7", options, ImageShelf().open)
