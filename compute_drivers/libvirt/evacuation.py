"""Evacuation: starts guests of a dead host from disks on storage that the hosts share."""

from __future__ import annotations

import logging

from compute_drivers import config_drive
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt import disks
from compute_drivers.libvirt.node import LibvirtNode, require_uuid
from compute_drivers.libvirt.paths import DiskOwner
from compute_drivers.libvirt.spawn import GuestBuilder, image_ids
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)


class Evacuation:
    """Takes over the disks of a dead host's guests. On any failure the disks stay and go back to the dead host."""

    def __init__(self, node: LibvirtNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder

    def take_over(self, guest: GuestSpec, source_host: str, progress: Progress) -> None:
        """Claim the guest's disks and start it here."""
        uuid = guest.instance_uuid
        require_uuid(uuid)
        self._claim_disks(uuid, source_host)
        try:
            if not self._node.connection.is_running(uuid):
                self._start_from_disks(guest, progress)
            self._node.paths.set_owner(uuid, DiskOwner(self._node.host))
        except BaseException:
            self._undo(uuid, source_host)
            raise

    def hand_back(self, instance_uuid: str, source_host: str) -> None:
        """End the guest here and return its disks to the dead host."""
        node = self._node
        require_uuid(instance_uuid)
        node.connection.remove(instance_uuid)
        owner = node.paths.owner_of(instance_uuid)
        if owner is not None and owner.host == node.host:
            node.paths.set_owner(instance_uuid, DiskOwner(source_host))
        node.remove_files(instance_uuid)

    def _claim_disks(self, uuid: str, source_host: str) -> None:
        node = self._node
        owner = node.paths.owner_of(uuid)
        if owner is None:
            raise DriverError("This host does not see the guest's disks on the storage that it shares with others.")
        if owner.host == node.host:  # an interrupted call has claimed them already
            return
        if owner.host != source_host:
            raise DriverError("The guest's disks were taken over by another host, which has not given them back.")
        node.paths.set_owner(uuid, DiskOwner(node.host, taken_from=source_host))

    def _start_from_disks(self, guest: GuestSpec, progress: Progress) -> None:
        """Start the guest from its own root disk; a rescue disk that it had is removed."""
        node, uuid = self._node, guest.instance_uuid
        folder = node.paths.folder_of(uuid)
        self._builder.check(guest)
        with node.images.pinned(*image_ids(guest)):
            boot = self._builder.boot_files(guest, progress)
            progress("opening the disks", None)
            with os_errors_as("What the guest was rescued with could not be removed"):
                for name in (disks.RESCUE, config_drive.RESCUE_NAME):
                    (folder / name).unlink(missing_ok=True)
            disks.require_unused(folder)
            self._builder.write_config_drive(folder / config_drive.NAME, guest, guest.admin_password)
            progress("starting the guest", None)
            node.connection.remove(uuid)  # a domain that is off
            node.connection.start(self._builder.domain_xml(guest, boot))

    def _undo(self, uuid: str, source_host: str) -> None:
        try:
            self.hand_back(uuid, source_host)
        except Exception:  # the first error is raised; `guests` keeps listing what is left
            log.exception("evacuated guest could not be handed back: instance=%s", uuid)
