"""Options of a host that the container driver takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compute_drivers.options import option


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """Options of a host with the container driver.

    Attributes:
        state_dir: Folder for images, disks and consoles.
        run_dir: Folder for mounts and sockets, which is empty after a reboot.
        first_id: The id on this machine of root in every guest; the guest's 65536 ids follow.
        vcpus, memory_mb, disk_gb: Amounts to offer; None offers all that the machine has.
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
