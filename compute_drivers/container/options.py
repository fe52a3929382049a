"""What a host may tell the container driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compute_drivers.options import option


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """`state_dir` holds images, disks and consoles, `run_dir` what a restart of the machine ends. None: the machine's.

    Root of every guest is the user `first_id` of this machine, and so on for 65536 ids.
    """

    state_dir: Path = option()
    run_dir: Path = option(Path("/run/novella"))
    runtime: str = option("runc")
    first_id: int = option(100_000, least=65_536)
    most_processes: int = option(4096, least=16)
    vcpus: int | None = option(None, least=1)
    memory_mb: int | None = option(None, least=1)
    disk_gb: int | None = option(None, least=1)
    reserved_memory_mb: int = option(512, least=0)
    reserved_disk_gb: int = option(0, least=0)
    cpu_allocation_ratio: float = option(4.0, least=0.01)
    ram_allocation_ratio: float = option(1.0, least=0.01)
    disk_allocation_ratio: float = option(1.0, least=0.01)
    image_cache_gb: int = option(0, least=0)
    image_cache_seconds: int = option(86400, least=0)
    shutdown_seconds: float = option(20.0, least=0.0)
