"""Actions on a container's root disk: rescue, rebuild and snapshot."""

from __future__ import annotations

import os
import shutil

from compute_drivers.container import bundle, disks, root_archives
from compute_drivers.container.node import ON, ContainerNode
from compute_drivers.container.paths import DISK, RESCUE_DISK, RESCUE_SEED, SEED, SNAPSHOT
from compute_drivers.container.spawn import GuestBuilder
from compute_drivers.host_paths import os_errors_as
from conductor.core.compute_driver import GuestSpec, Progress, StoreImage


class RootDisk:
    """Starts guests from other disks, replaces their disk, and copies it."""

    def __init__(self, node: ContainerNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        """Start a rescue system. It finds the guest's own files in /mnt and the password in its seed."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        if node.power_state(uuid) in ON and (folder / RESCUE_DISK).exists():
            return
        self._builder.check(guest)
        with (
            self._builder.new_disk(guest, progress) as disk,
            os_errors_as("The rescue system could not be started"),
        ):
            progress("starting the rescue system", None)
            node.force_off(uuid)
            bundle.write_seed(folder / RESCUE_SEED, guest, node.options.first_id, password)
            os.replace(disk, folder / RESCUE_DISK)
            self._builder.start(guest)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Start the guest from its own disk again, or leave it off."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        # Either file marks the guest as rescued; the last one is removed at the end.
        rescue_disk, old_rescue_disk = folder / RESCUE_DISK, folder / "rescue.old"
        node.power_state(uuid)
        if not rescue_disk.exists() and not old_rescue_disk.exists():
            return
        node.force_off(uuid)
        with os_errors_as("The guest could not be brought back from its rescue"):
            if rescue_disk.exists():
                os.replace(rescue_disk, old_rescue_disk)
            if (folder / RESCUE_SEED).exists():
                shutil.rmtree(folder / RESCUE_SEED)
            if is_running:
                self._builder.start(guest)
            old_rescue_disk.unlink()

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        """Replace the guest's disk by a new one."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        node.power_state(uuid)
        self._builder.check(guest)
        with self._builder.new_disk(guest, progress) as disk, os_errors_as("The guest could not be rebuilt"):
            node.force_off(uuid)
            # Point of no return: the old disk is replaced.
            (folder / RESCUE_DISK).unlink(missing_ok=True)
            bundle.write_seed(folder / SEED, guest, node.options.first_id, guest.admin_password)
            os.replace(disk, folder / DISK)
            if is_running:
                self._builder.start(guest)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        """Pack the guest's files into a tar archive and give `store` that."""
        node = self._node
        node.power_state(instance_uuid)
        folder = node.paths.folder_of(instance_uuid)
        disk, copy = folder / DISK, folder / SNAPSHOT
        mount_point = node.paths.mount_of(disk)
        was_mounted = disks.is_mounted(mount_point)
        progress("copying the disk", None)
        try:
            with os_errors_as("The disk could not be copied"):
                copy.unlink(missing_ok=True)
            disks.mount(disk, mount_point)
            root_archives.pack(mount_point, copy, node.options.first_id, lambda: progress("copying the disk", None))
            progress("storing the image", None)
            with copy.open("rb") as data:
                store(image_id, "raw", data)
        finally:
            copy.unlink(missing_ok=True)
            if not was_mounted:
                disks.unmount(mount_point)
