"""What a host may tell the libvirt driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_drivers.options import option

VIRT_TYPES = ("auto", "kvm", "qemu")
TRANSPORTS = ("native", "tls", "tunnelled")
PAUSE, POST_COPY = FORCES = ("pause", "post-copy")
# Who plays the network of a port.
AGENT, BRIDGE = "agent", "bridge"
PLAYERS = ("qemu", AGENT, BRIDGE)


@dataclass(frozen=True, kw_only=True)
class LibvirtOptions:
    """`state_dir` holds images, disks and consoles. Amounts that are None are the machine's.

    With `shared_dir` images and disks are there instead, where other hosts see them.

    `uri` "" is the hypervisor inside this process; `ram_allocation_ratio` None is what suits the virt type.
    `pinned_cpus` are for guests that pin theirs, `pci_devices` are addresses or vendor:product with commas between.
    `image_cache_gb` 0 has no bound; `shutdown_seconds` is what a guest gets to power itself off before it moves.
    `vendor_data` are told to each guest; cloud-init does what their key cloud-init says.
    `migration_uri` is how the libvirt of another host reaches this one's, "" lets no guest come or go while it runs.
    """

    state_dir: Path = option()
    shared_dir: Path | None = option(None)
    uri: str = option("")
    virt_type: str = option("auto", choices=VIRT_TYPES)
    guest_network: str = option("qemu", choices=PLAYERS)
    vendor_data: Mapping[str, Any] = field(default_factory=dict)
    vcpus: int | None = option(None, least=1)
    memory_mb: int | None = option(None, least=1)
    disk_gb: int | None = option(None, least=1)
    reserved_memory_mb: int = option(512, least=0)
    reserved_disk_gb: int = option(0, least=0)
    cpu_allocation_ratio: float = option(4.0, least=0.01)
    ram_allocation_ratio: float | None = option(None, least=0.01)
    disk_allocation_ratio: float = option(1.0, least=0.01)
    pinned_cpus: str = option("")
    pci_devices: str = option("")
    image_cache_gb: int = option(0, least=0)
    image_cache_seconds: int = option(86400, least=0)
    shutdown_seconds: float = option(20.0, least=0.0)
    migration_uri: str = option("")
    migration_address: str = option("")
    migration_transport: str = option("native", choices=TRANSPORTS)
    migration_downtime_ms: int = option(500, least=1)
    migration_mib_per_second: int = option(0, least=0)
    migration_throttles: bool = option(True)
    migration_force: str = option(PAUSE, choices=FORCES)
    migration_post_copy: bool = option(False)

    @property
    def may_post_copy(self) -> bool:
        return self.migration_post_copy or self.migration_force == POST_COPY
