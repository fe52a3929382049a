"""How guests that are off move from host to host, and change their size: by files that both hosts can open."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import put_aside
from compute_drivers.host_places import files
from compute_drivers.libvirt import config_drive, disks, guest_networks
from compute_drivers.libvirt.actions import OFF, LibvirtActions
from conductor.core import disk_images
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted, DriverError


class LibvirtMoves(LibvirtActions):
    """What went out lies in the folder `kept` until the move is confirmed or reverted."""

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        if not self._places.kept_of(uuid).exists():
            progress("powering the guest off", None)
            if self._state(uuid) not in OFF and not self._shuts_down(uuid, self._options.shutdown_seconds):
                self._end(uuid)
            put_aside.put_aside(self._places, uuid)
        if not self._places.has_folder(uuid):  # else it is here already, in its new size
            self._connection.remove(uuid)
            self._places.remove_lines(uuid)
            self._places.own_drive_of(uuid).unlink(missing_ok=True)
            self._networks.close(uuid)
        return put_aside.told_of(self._places, uuid)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        if self._connection.has(uuid):
            if is_running and self._state(uuid) in OFF:  # it was cut off before the last step
                self.power_on(guest)
            return
        source = self._found(disks)
        self.destroy(uuid)
        with self._all_or_nothing(guest):
            boot, backing = self._boot_parts(guest, progress), self._kept_image(guest, progress)
            progress("copying the disks", 0.0)
            _copy(source, self._places.make_folder(uuid), guest, backing, progress)
            progress("starting the guest", None)
            described = self._describe(guest, boot)
            self._connection.start(described) if is_running else self._connection.define(described)

    def kept_guests(self) -> list[str]:
        return put_aside.kept(self._places)

    def confirm_migration(self, instance_uuid: str) -> None:
        put_aside.drop(self._places, instance_uuid)

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        if not put_aside.is_away(self._places, uuid):
            self._state(uuid)  # it never went out
            return
        boot = self._boot_parts(guest, lambda *_: None)
        with files("The guest could not be brought back"):
            put_aside.begin_return(self._places, uuid, self.destroy)
        described = self._describe(guest, boot)
        self._launch(uuid, described) if is_running else self._connection.define(described)
        with files("The guest could not be brought back"):
            put_aside.end_return(self._places, uuid)

    @staticmethod
    def _found(told: Mapping[str, Any]) -> Path:
        """The folder that the source told of, if this host sees the very same. Raises DriverError."""
        source = put_aside.found(told)
        if source is not None:
            return source
        raise DriverError("This host cannot open the guest's disks: they are gone, or on storage of the source's own.")

    def _kept_image(self, guest: GuestSpec, progress: Progress) -> disk_images.Backing | None:
        """The image below the root disk; None where there is none, or none any more: then the disk is copied whole."""
        try:
            return self._backing(guest, progress)
        except BuildAborted:
            return None


def _copy(
    source: Path, folder: Path, guest: GuestSpec, backing: disk_images.Backing | None, progress: Progress
) -> None:
    """The guest's disks at the size of its flavor. Raises BuildAborted for a disk that would have to shrink."""
    flavor = guest.flavor
    sizes = {disks.ROOT: flavor.root_gb * disks.GB, "ephemeral.qcow2": flavor.ephemeral_gb * disks.GB}
    for name, size in sizes.items():
        if (source / name).exists():
            below = backing if name == disks.ROOT else None
            disks.copy_whole(source / name, folder / name, lambda: progress("copying the disks", None), below)
            disks.grow(folder / name, size)
        elif size and name != disks.ROOT:
            disks.create_blank(folder / name, size)
    if flavor.swap_mb:
        disks.create_blank(folder / "swap.qcow2", flavor.swap_mb * disks.MB)
    with files("The disks could not be copied"):
        for name in (config_drive.NAME, guest_networks.POSTED):
            if (source / name).exists():
                shutil.copy2(source / name, folder / name)
