"""Options of a host that the container driver takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compute_drivers.options import option

OVN, NO_NETWORK = "ovn", "none"


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """Options of a host with the container driver.

    Attributes:
        state_dir: Folder for images, disks and consoles.
        run_dir: Folder for mounts and sockets, which is empty after a reboot.
        first_id: The id on this machine of root in every guest; the guest's 65536 ids follow.
        guest_network: `ovn` plugs ports into Open vSwitch's bridge; with `none` they lead nowhere.
        ovs_run_dir, ovn_run_dir: Folders of the sockets of Open vSwitch and of ovn-controller, for `ovn`.
        plug_seconds: How long OVN may take to set up a port before the guest's start fails.
        network_mtu: Size of the largest packet of cards on OVN.
        vcpus, memory_mb, disk_gb: Amounts to offer; None offers all that the machine has.
    """

    state_dir: Path = option()
    run_dir: Path = option(Path("/run/novella"))
    runtime: str = option("runc")
    first_id: int = option(100_000, least=65_536)
    guest_network: str = option(NO_NETWORK, choices=(OVN, NO_NETWORK))
    ovs_run_dir: Path = option(Path("/run/openvswitch"))
    ovn_run_dir: Path = option(Path("/run/ovn"))
    plug_seconds: float = option(60.0, least=1.0)
    network_mtu: int = option(1442, least=1280)
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
