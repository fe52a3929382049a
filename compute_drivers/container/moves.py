"""How containers that are off move from host to host, and change their size: by files that both hosts can open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import put_aside
from compute_drivers.container import disks, seed
from compute_drivers.container.actions import ContainerActions
from compute_drivers.container.making import size_of
from compute_drivers.container.places import DISK, MADE, SEED
from compute_drivers.host_places import files
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.states import PowerState


class ContainerMoves(ContainerActions):
    """What went out lies in the folder `kept` until the move is confirmed or reverted."""

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        if not self._places.kept_of(uuid).exists():
            self._state(uuid)
            progress("powering the guest off", None)
            self._shut_down(uuid, self._options.shutdown_seconds)
            self._end(uuid)
            put_aside.put_aside(self._places, uuid)
        return put_aside.told_of(self._places, uuid)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        folder = self._places.folder_of(uuid)
        if (folder / MADE).exists():
            if is_running:  # it may have been cut off before the last step
                self.power_on(guest)
            return
        source = self._found(disks)
        self.destroy(uuid)
        with self._all_or_nothing(guest):
            self._take_over(source, self._make_folder(guest), guest, progress)
            (folder / MADE).touch()
            if is_running:
                progress("starting the guest", None)
                self._launch(guest)

    def kept_guests(self) -> list[str]:
        return put_aside.kept(self._places)

    def confirm_migration(self, instance_uuid: str) -> None:
        put_aside.drop(self._places, instance_uuid)

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        if not put_aside.is_away(self._places, uuid):
            self._state(uuid)  # it never went out
            return
        with files("The guest could not be brought back"):
            put_aside.begin_return(self._places, uuid, self.destroy)
            if is_running and self._state(uuid) is not PowerState.RUNNING:
                self._launch(guest)
            put_aside.end_return(self._places, uuid)

    def _take_over(self, source: Path, folder: Path, guest: GuestSpec, progress: Progress) -> None:
        progress("copying the disk", None)
        disks.copy(source / DISK, folder / DISK)
        progress("enlarging the disk", None)
        disks.grow(folder / DISK, size_of(guest.flavor))
        seed.write(folder / SEED, guest, self._options.first_id)

    @staticmethod
    def _found(told: Mapping[str, Any]) -> Path:
        """The folder that the source told of, if this host sees the very same. Raises DriverError."""
        source = put_aside.found(told)
        if source is not None:
            return source
        raise DriverError("This host cannot open the guest's disk: it is gone, or on storage of the source's own.")
