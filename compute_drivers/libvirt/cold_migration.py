"""Cold migration and resize: moves guests that are off by files that both hosts can open."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import config_drive
from compute_drivers.cold_migration_store import ColdMigrationStore, find_retained
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt import disks, guest_networks
from compute_drivers.libvirt.node import OFF, LibvirtNode
from compute_drivers.libvirt.power import Power
from compute_drivers.libvirt.spawn import GuestBuilder, no_progress
from conductor.core import disk_images
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError


class ColdMigration:
    """Retains a guest at the source until its migration is confirmed or reverted."""

    def __init__(self, node: LibvirtNode, builder: GuestBuilder, power: Power) -> None:
        self._node = node
        self._builder = builder
        self._power = power
        self.store = ColdMigrationStore(node.paths)

    def migrate_out(self, guest: GuestSpec, progress: Progress) -> Mapping[str, Any]:
        """Power the guest off and retain its folder; return where the destination finds it."""
        node, uuid = self._node, guest.instance_uuid
        if not node.paths.kept_of(uuid).exists():
            progress("powering the guest off", None)
            self._power.power_off(uuid, node.options.shutdown_seconds)
            self.store.retain(uuid)
        if not node.paths.has_folder(uuid):  # otherwise this host is the destination too, and has it in its new size
            node.connection.remove(uuid)
            node.paths.remove_sockets(uuid)
            node.paths.local_config_drive(uuid).unlink(missing_ok=True)
            node.networks.close(uuid)
            node.release_account(uuid)
        return self.store.handle_of(uuid)

    def migrate_in(self, guest: GuestSpec, handle: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        """Build the guest from the retained disks at the size of its flavor."""
        node, uuid = self._node, guest.instance_uuid
        if node.connection.has(uuid):
            if is_running and node.power_state(uuid) in OFF:  # interrupted before the last step
                self._power.power_on(guest)
            return
        source = find_retained(handle)
        if source is None:
            raise DriverError(
                "This host cannot open the guest's disks: they are gone, or on storage of the source's own."
            )
        node.destroy(uuid)
        with self._builder.all_or_nothing(guest):
            boot = self._builder.boot_files(guest, progress)
            backing = self._builder.backing_image_if_any(guest, progress)
            progress("copying the disks", 0.0)
            _copy_disks(source, node.paths.make_folder(uuid), guest, backing, progress)
            progress("starting the guest", None)
            domain_xml = self._builder.domain_xml(guest, boot)
            node.connection.start(domain_xml) if is_running else node.connection.define(domain_xml)

    def revert(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Restore the retained guest. One that was never migrated out is left as it is."""
        node, uuid = self._node, guest.instance_uuid
        if not self.store.is_retained(uuid):
            node.power_state(uuid)
            return
        boot = self._builder.boot_files(guest, no_progress)
        with os_errors_as("The guest could not be brought back"):
            self.store.begin_restore(uuid, node.destroy)
        domain_xml = self._builder.domain_xml(guest, boot)
        node.define_and_start(uuid, domain_xml) if is_running else node.connection.define(domain_xml)
        with os_errors_as("The guest could not be brought back"):
            self.store.end_restore(uuid)


def _copy_disks(
    source: Path, folder: Path, guest: GuestSpec, backing: disk_images.Backing | None, progress: Progress
) -> None:
    """Copy the guest's disks at the size of its flavor. Raises BuildAborted for a disk that would have to shrink."""
    flavor = guest.flavor
    sizes = {disks.ROOT: flavor.root_gb * disks.GB, disks.EPHEMERAL: flavor.ephemeral_gb * disks.GB}
    for name, size in sizes.items():
        if (source / name).exists():
            image = backing if name == disks.ROOT else None
            disks.copy_disk(source / name, folder / name, lambda: progress("copying the disks", None), image)
            disks.grow(folder / name, size)
        elif size and name != disks.ROOT:
            disks.create_blank(folder / name, size)
    if flavor.swap_mb:
        disks.create_blank(folder / disks.SWAP, flavor.swap_mb * disks.MB)
    with os_errors_as("The disks could not be copied"):
        for name in (config_drive.NAME, guest_networks.POSTED_PASSWORD):
            if (source / name).exists():
                shutil.copy2(source / name, folder / name)
