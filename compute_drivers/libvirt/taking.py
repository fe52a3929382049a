"""Guests whose host is dead live on here, from the disks that they left on storage that the hosts share."""

from __future__ import annotations

import logging

from compute_drivers.host_places import files
from compute_drivers.libvirt import config_drive, disks
from compute_drivers.libvirt.holders import Holder
from compute_drivers.libvirt.host import require_uuid
from compute_drivers.libvirt.making import image_ids
from compute_drivers.libvirt.moves import LibvirtMoves
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)


class LibvirtTaker(LibvirtMoves):
    """Whatever goes wrong, the disks stay, and are the dead host's again: they are all that is left of the guest."""

    def take_over(self, guest: GuestSpec, source_host: str, progress: Progress) -> None:
        uuid = guest.instance_uuid
        require_uuid(uuid)
        self._claim(uuid, source_host)
        try:
            if not self._connection.is_running(uuid):
                self._start_from_disks(guest, progress)
            self._places.hold(uuid, Holder(self.host))
        except BaseException:
            self._give_up(uuid, source_host)
            raise

    def hand_back(self, instance_uuid: str, source_host: str) -> None:
        require_uuid(instance_uuid)
        self._connection.remove(instance_uuid)
        holder = self._places.holder_of(instance_uuid)
        if holder is not None and holder.host == self.host:
            self._places.hold(instance_uuid, Holder(source_host))
        self._remove_files(instance_uuid)

    def _claim(self, uuid: str, source_host: str) -> None:
        holder = self._places.holder_of(uuid)
        if holder is None:
            raise DriverError("This host does not see the guest's disks on the storage that it shares with others.")
        if holder.host == self.host:  # a call that was cut off came as far as that
            return
        if holder.host != source_host:
            raise DriverError("The guest's disks were taken over by another host, which has not given them back.")
        self._places.hold(uuid, Holder(self.host, taken_from=source_host))

    def _start_from_disks(self, guest: GuestSpec, progress: Progress) -> None:
        """As it was when its host died; a rescue system that it had then is not waited for any more."""
        uuid = guest.instance_uuid
        folder = self._places.folder_of(uuid)
        self._check(guest)
        with self._images.held(*image_ids(guest)):
            boot = self._boot_parts(guest, progress)
            progress("opening the disks", None)
            with files("What the guest was rescued with could not be removed"):
                for name in (disks.RESCUE, config_drive.RESCUE_NAME):
                    (folder / name).unlink(missing_ok=True)
            disks.require_free(folder)
            self._write_drive(folder / config_drive.NAME, guest, guest.admin_password)
            progress("starting the guest", None)
            self._connection.remove(uuid)  # one that is off
            self._connection.start(self._describe(guest, boot))

    def _give_up(self, uuid: str, source_host: str) -> None:
        try:
            self.hand_back(uuid, source_host)
        except Exception:  # what went wrong first is what counts; `guests` goes on to show what is left
            log.exception("a guest that could not be taken over stays: instance=%s", uuid)
