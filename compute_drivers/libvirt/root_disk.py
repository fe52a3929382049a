"""Actions on a guest's root disk: rescue, rebuild and snapshot."""

from __future__ import annotations

import os
import shutil

from compute_drivers import config_drive
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt import disks
from compute_drivers.libvirt.node import ON, LibvirtNode
from compute_drivers.libvirt.spawn import GuestBuilder, image_ids, no_progress
from conductor.core.compute_driver import GuestSpec, Progress, StoreImage
from conductor.core.errors import DriverError


class RootDisk:
    """Boots guests from other disks, replaces their disks, and copies them."""

    def __init__(self, node: LibvirtNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        """Boot from a rescue disk. The rescue system reads the password from its config drive."""
        uuid = guest.instance_uuid
        folder = self._node.paths.folder_of(uuid)
        rescue_disk = folder / disks.RESCUE
        with self._node.guest(uuid, "look at the guest") as domain:
            if domain.uses_disk(rescue_disk) and domain.power_state() in ON:
                return
        self._builder.check(guest)
        with self._node.images.pinned(*image_ids(guest)):
            boot = self._builder.boot_files(guest, progress)
            backing = self._builder.backing_image(guest, progress)
            progress("starting the rescue system", None)
            self._node.force_off(uuid)
            if backing is not None:
                disks.create_overlay(rescue_disk, backing)
        self._builder.write_config_drive(folder / config_drive.RESCUE_NAME, guest, password)
        self._node.define_and_start(uuid, self._builder.domain_xml(guest, boot))

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Boot from the guest's own root disk again, or leave it off."""
        uuid = guest.instance_uuid
        folder = self._node.paths.folder_of(uuid)
        rescue_disk = folder / disks.RESCUE
        # Either file marks the guest as rescued; the last one is removed at the end.
        old_rescue_disk = rescue_disk.with_suffix(".old")
        self._node.power_state(uuid)
        if not rescue_disk.exists() and not old_rescue_disk.exists():
            return
        boot = self._builder.boot_files(guest, no_progress)
        self._node.force_off(uuid)
        if rescue_disk.exists():
            os.replace(rescue_disk, old_rescue_disk)
        (folder / config_drive.RESCUE_NAME).unlink(missing_ok=True)
        self._define(uuid, self._builder.domain_xml(guest, boot), is_running=is_running)
        old_rescue_disk.unlink()

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        """Replace the guest's own disks by new ones; the old disks stay until the new ones are complete."""
        uuid = guest.instance_uuid
        self._node.power_state(uuid)
        self._builder.check(guest)
        folder = self._node.paths.folder_of(uuid)
        new_folder = folder / disks.REBUILD_FOLDER
        with self._node.images.pinned(*image_ids(guest)), os_errors_as("The new disks could not be made"):
            boot = self._builder.boot_files(guest, progress)
            backing = self._builder.backing_image(guest, progress)
            progress("making the disk", None)
            shutil.rmtree(new_folder, ignore_errors=True)  # left over from an interrupted rebuild
            new_folder.mkdir()
            new_disks = disks.create_disks(new_folder, guest.flavor, backing)
            self._builder.write_config_drive(new_folder / config_drive.NAME, guest, guest.admin_password)
            # Point of no return: the old disks are removed.
            self._node.force_off(uuid)
            for path in disks.own_disks(folder):
                path.unlink()
            for path in (*new_disks, new_folder / config_drive.NAME):
                os.replace(path, folder / path.name)
            new_folder.rmdir()
            self._node.networks.forget_password(uuid)
        self._define(uuid, self._builder.domain_xml(guest, boot), is_running=is_running)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        """Copy the root disk and give `store` the copy."""
        root = self._node.paths.folder_of(instance_uuid) / disks.ROOT
        copy = root.with_name(disks.SNAPSHOT)
        is_on = self._node.power_state(instance_uuid) in ON
        if not root.exists():
            raise DriverError("The guest has no disk of its own: it boots from a kernel or a volume.")
        progress("copying the disk", 0.0)
        try:
            copy.unlink(missing_ok=True)
            if is_on:
                with self._node.guest(instance_uuid, "copy the guest's disk") as domain:
                    domain.copy_disk(root, copy, lambda share: progress("copying the disk", share))
            else:
                disks.copy_disk(root, copy, lambda: progress("copying the disk", None))
            progress("storing the image", None)
            with copy.open("rb") as data:
                store(image_id, "qcow2", data)
        finally:
            copy.unlink(missing_ok=True)

    def _define(self, instance_uuid: str, domain_xml: str, *, is_running: bool) -> None:
        if is_running:
            self._node.define_and_start(instance_uuid, domain_xml)
        else:
            self._node.connection.define(domain_xml)
