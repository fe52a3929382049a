"""What a host may tell the simulated hypervisor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_drivers.options import option


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """`latency_seconds` is how long a build, a removal and a copy of a disk take, `action_seconds` every other verb.

    Without `state_file` guests end with the process, and only hosts of the same process can move them.
    `faults` and `faults_file` say what shall fail: see `compute_drivers.fake.faults`.

    With `numa_cells` the host's CPUs and memory are in so many cells, in equal parts; `threads_per_core` are the
    threads of a core, `pinned_vcpus` the CPUs of the host that are for pinning alone, `huge_pages` the pages of 2 MB in
    each cell, and `pci_devices` the devices (vendor 1af4, product 1110) on each, or on a host without cells.

    `metrics` are reported as they are given, by the names of `conductor.core.metrics`.
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
