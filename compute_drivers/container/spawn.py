"""Builds containers: unpacks the image onto a new disk and describes the container for the runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compute_drivers.container import bundle, disks, network_cards, root_archives
from compute_drivers.container.node import ContainerNode, require_uuid
from compute_drivers.container.paths import BUILT_MARK, DISK, NEW_DISK, RESCUE_DISK, RESCUE_SEED, SEED
from compute_drivers.host_paths import os_errors_as
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.request_spec import FlavorSpec
from conductor.core.states import PowerState

log = logging.getLogger(__name__)

SMALLEST_DISK_GB = 1  # for a flavor without a disk size


class GuestBuilder:
    """Creates the files of a guest first and its container last, so that whatever is built can also start."""

    def __init__(self, node: ContainerNode) -> None:
        self._node = node

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest and start it; does nothing when it already runs."""
        node, uuid = self._node, guest.instance_uuid
        require_uuid(uuid)
        if node.runtime.state(uuid) is PowerState.RUNNING:
            return
        node.destroy(uuid)  # left over from an interrupted build
        with self.all_or_nothing(guest):
            folder = self.make_folder(guest)
            with self.new_disk(guest, progress) as disk:
                disk.rename(folder / DISK)
            bundle.write_seed(folder / SEED, guest, node.options.first_id, guest.admin_password)
            (folder / BUILT_MARK).touch()
            progress("starting the guest", None)
            self.start(guest)

    @contextmanager
    def all_or_nothing(self, guest: GuestSpec) -> Iterator[None]:
        """Refuse an impossible guest before anything is made, and remove the guest on failure."""
        try:
            self.check(guest)
            with os_errors_as("The guest could not be built"):
                yield
        except BaseException:
            self._destroy_unfinished(guest.instance_uuid)
            raise

    @staticmethod
    def check(guest: GuestSpec) -> None:
        """Raises DriverError for what another host may have, BuildAborted for values that are invalid everywhere."""
        flavor = guest.flavor
        unsupported = (("volumes", guest.volumes), ("ephemeral disks", flavor.ephemeral_gb), ("swap", flavor.swap_mb))
        for what, is_requested in unsupported:
            if is_requested:
                raise DriverError(f"Containers on this host have no {what}.")
        if not guest.image.image_id:
            raise DriverError("A container is built from an image; there is none.")
        if guest.image.disk_format not in ("raw", ""):
            raise DriverError(root_archives.NO_TAR.format(guest.image.image_id))
        for port in guest.ports:
            network_cards.ip_commands(port)
        bundle.init_command(guest)

    def make_folder(self, guest: GuestSpec) -> Path:
        folder = self._node.paths.folder_of(guest.instance_uuid)
        folder.mkdir(mode=0o700)
        return folder

    @contextmanager
    def new_disk(self, guest: GuestSpec, progress: Progress) -> Iterator[Path]:
        """Yield an unmounted disk with the unpacked image; it is removed at the end unless the caller moved it."""
        node = self._node
        disk = node.paths.folder_of(guest.instance_uuid) / NEW_DISK
        mount_point = node.paths.mount_of(disk)
        try:
            with node.images.pinned(guest.image.image_id), os_errors_as("The disk could not be made"):
                progress("fetching the image", 0.0)
                image = node.images.fetch(guest.image, lambda share: progress("fetching the image", share))
                disks.unmount(mount_point)
                disk.unlink(missing_ok=True)  # left over from an interrupted call
                first_id = node.options.first_id
                disks.create(disk, disk_size_gb(guest.flavor), first_id)
                disks.mount(disk, mount_point)
                root_archives.unpack(guest.image, image, mount_point, first_id, lambda: progress("unpacking", None))
                disks.unmount(mount_point)
            yield disk
        finally:
            disks.unmount(mount_point)
            disk.unlink(missing_ok=True)

    def start(self, guest: GuestSpec) -> None:
        """Start a guest that is off, with its present disk and ports."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        node.end(uuid)
        try:
            bundle.write(folder, guest, self._mount_disks(folder), node.options)
            node.runtime.create(uuid, folder, node.paths.console_of(uuid))
            node.network_cards.plug(uuid, node.runtime.pid(uuid), guest.ports)
            node.runtime.start(uuid)
        except BaseException:
            node.force_off(uuid)
            raise

    def _mount_disks(self, folder: Path) -> bundle.ContainerMounts:
        """Mount the guest's disks; a rescued guest has its rescue disk as root and its own disk beside it."""
        mount_of = self._node.paths.mount_of
        own, rescue = folder / DISK, folder / RESCUE_DISK
        existing = [disk for disk in (own, rescue) if disk.exists()]
        for disk in existing:
            disks.mount(disk, mount_of(disk))
        if rescue in existing:
            return bundle.ContainerMounts(mount_of(rescue), folder / RESCUE_SEED, own_disk=mount_of(own))
        return bundle.ContainerMounts(mount_of(own), folder / SEED)

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        try:
            self._node.destroy(instance_uuid)
        except Exception:  # the build's own error is raised; `guests` keeps listing what is left
            log.exception("unfinished guest could not be removed: instance=%s", instance_uuid)


def disk_size_gb(flavor: FlavorSpec) -> int:
    return flavor.root_gb or SMALLEST_DISK_GB
