"""What a host may tell the simulated hypervisor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_drivers.options import option


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """`latency_seconds` is how long a build and a removal take, `action_seconds` every other verb.

    Without `state_file` guests end with the process, and only hosts of the same process can move them.
    `faults` and `faults_file` say what shall fail: see `compute_drivers.fake.faults`.
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
    faults: Mapping[str, Any] = field(default_factory=dict)
    faults_file: Path | None = option(None)
