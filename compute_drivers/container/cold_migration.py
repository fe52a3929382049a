"""Cold migration and resize: moves containers that are off by files that both hosts can open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers.cold_migration_store import ColdMigrationStore, find_retained
from compute_drivers.container import bundle, disks
from compute_drivers.container.node import ContainerNode
from compute_drivers.container.paths import BUILT_MARK, DISK, SEED
from compute_drivers.container.power import Power
from compute_drivers.container.spawn import GuestBuilder, disk_size_gb
from compute_drivers.host_paths import os_errors_as
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.states import PowerState


class ColdMigration:
    """Retains a guest at the source until its migration is confirmed or reverted."""

    def __init__(self, node: ContainerNode, builder: GuestBuilder, power: Power) -> None:
        self._node = node
        self._builder = builder
        self._power = power
        self.store = ColdMigrationStore(node.paths)

    def migrate_out(self, guest: GuestSpec, progress: Progress) -> Mapping[str, Any]:
        """Power the guest off and retain its folder; return where the destination finds it."""
        node, uuid = self._node, guest.instance_uuid
        if not node.paths.kept_of(uuid).exists():
            node.power_state(uuid)
            progress("powering the guest off", None)
            self._power.power_off(uuid, node.options.shutdown_seconds)
            self.store.retain(uuid)
        return self.store.handle_of(uuid)

    def migrate_in(self, guest: GuestSpec, handle: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        """Build the guest from the retained disk at the size of its flavor."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        if (folder / BUILT_MARK).exists():
            if is_running:  # interrupted before the last step
                self._power.power_on(guest)
            return
        source = find_retained(handle)
        if source is None:
            raise DriverError("This host cannot open the guest's disk: it is gone, or on storage of the source's own.")
        node.destroy(uuid)
        with self._builder.all_or_nothing(guest):
            self._copy(source, self._builder.make_folder(guest), guest, progress)
            (folder / BUILT_MARK).touch()
            if is_running:
                progress("starting the guest", None)
                self._builder.start(guest)

    def revert(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Restore the retained guest. One that was never migrated out is left as it is."""
        node, uuid = self._node, guest.instance_uuid
        if not self.store.is_retained(uuid):
            node.power_state(uuid)
            return
        with os_errors_as("The guest could not be brought back"):
            self.store.begin_restore(uuid, node.destroy)
            if is_running and node.power_state(uuid) is not PowerState.RUNNING:
                self._builder.start(guest)
            self.store.end_restore(uuid)

    def _copy(self, source: Path, folder: Path, guest: GuestSpec, progress: Progress) -> None:
        progress("copying the disk", None)
        disks.copy(source / DISK, folder / DISK)
        progress("enlarging the disk", None)
        disks.grow(folder / DISK, disk_size_gb(guest.flavor))
        bundle.write_seed(folder / SEED, guest, self._node.options.first_id)
