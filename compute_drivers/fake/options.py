"""Options of a host that the fake driver takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_drivers.options import option


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """Options of a simulated host.

    Attributes:
        latency_seconds: Duration of a build, a removal and a copy of a disk.
        action_seconds: Duration of every other action.
        state_file: Without it guests end with the process, and only hosts of the same process can migrate them.
        numa_cells: Number of cells, with equal parts of CPUs and memory.
        pinned_vcpus: CPUs of the host that are for pinning alone.
        huge_pages: Pages of 2 MB in each cell.
        pci_devices: Devices (vendor 1af4, product 1110) in each cell, or on a host without cells.
        metrics: Reported as they are, by the names of `conductor.core.metrics`.
        faults, faults_file: Rules of `compute_drivers.fake.faults`.
    """

    vcpus: int = option(64, least=1)
    memory_mb: int = option(131072, least=1)
    disk_gb: int = option(2000, least=1)
    reserved_memory_mb: int = option(512, least=0)
    cpu_allocation_ratio: float = option(4.0, least=0.01)
    ram_allocation_ratio: float = option(1.0, least=0.01)
    disk_allocation_ratio: float = option(1.0, least=0.01)
    latency_seconds: float = option(0.0, least=0.0)
    action_seconds: float = option(0.0, least=0.0)
    live_migration_seconds: float = option(0.0, least=0.0)
    state_file: Path | None = option(None)
    numa_cells: int = option(0, least=0)
    threads_per_core: int = option(1, least=1)
    pinned_vcpus: int = option(0, least=0)
    huge_pages: int = option(0, least=0)
    pci_devices: int = option(0, least=0)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, Any] = field(default_factory=dict)
    faults_file: Path | None = option(None)
