"""Options of a host that the libvirt driver takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_drivers.options import option
from conductor.core.errors import Invalid
from conductor.core.guest_uids import DEFAULT_BASE

VIRT_TYPES = ("auto", "kvm", "qemu")
TRANSPORTS = ("native", "tls", "tunnelled")
UNIX = "unix"  # of `migration_address`: both hosts are on one machine
FORCE_BY_PAUSE, FORCE_BY_POST_COPY = "pause", "post-copy"
# Values of `guest_network`: what serves the networks of guests.
OVN, QEMU, NO_NETWORK = "ovn", "qemu", "none"
GUEST_NETWORKS = (OVN, QEMU, NO_NETWORK)


@dataclass(frozen=True, kw_only=True)
class LibvirtOptions:
    """Options of a host with the libvirt driver.

    Attributes:
        state_dir: Folder for images, disks and consoles.
        shared_dir: Folder for images and disks instead, on storage that other hosts mount at the same path.
        uri: libvirt's connection URI; "" runs the hypervisor inside this process.
        guest_uid_base: First uid of guests, where root runs the hypervisor inside this process; 0 gives none out.
        ovs_run_dir, ovn_run_dir: Folders of the sockets of Open vSwitch and of ovn-controller, for `ovn`.
        plug_seconds: How long OVN may take to set up a port before the guest's start fails.
        vendor_data: Given to each guest; cloud-init carries out what is under its key "cloud-init".
        vcpus, memory_mb, disk_gb: Amounts to offer; None offers all that the machine has.
        ram_allocation_ratio: None chooses by the virt type.
        pinned_cpus: Processors for guests that pin theirs.
        pci_devices: Addresses or vendor:product of devices to offer, separated by commas.
        image_cache_gb: Size of the image cache; 0 is unlimited.
        shutdown_seconds: Time for a guest to shut down before a cold migration.
        migration_uri: How the libvirt of another host reaches this one's; "" turns live migration off.
    """

    state_dir: Path = option()
    shared_dir: Path | None = option(None)
    uri: str = option("")
    guest_uid_base: int = option(DEFAULT_BASE, least=0)
    virt_type: str = option("auto", choices=VIRT_TYPES)
    guest_network: str = option(QEMU, choices=GUEST_NETWORKS)
    ovs_run_dir: Path = option(Path("/run/openvswitch"))
    ovn_run_dir: Path = option(Path("/run/ovn"))
    plug_seconds: float = option(60.0, least=1.0)
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
    migration_force: str = option(FORCE_BY_PAUSE, choices=(FORCE_BY_PAUSE, FORCE_BY_POST_COPY))
    migration_post_copy: bool = option(False)

    @property
    def may_post_copy(self) -> bool:
        return self.migration_post_copy or self.migration_force == FORCE_BY_POST_COPY

    def check(self) -> None:
        """Raises Invalid for options that contradict each other."""
        address = self.migration_address
        if self.migration_uri and not self.uri:
            raise Invalid(
                "Option libvirt.migration_uri: other hosts cannot reach the hypervisor of a process; set uri."
            )
        if not re.fullmatch(r"|unix|tcp://[^\s/]+", address):
            raise Invalid(f"Option libvirt.migration_address: {address!r} is neither unix nor like tcp://192.0.2.7.")
        if self.migration_transport == "tls" and address == UNIX:
            raise Invalid("Option libvirt.migration_transport: tls needs a migration_address like tcp://192.0.2.7.")
