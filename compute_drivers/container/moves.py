"""How containers that are off move from host to host, and change their size: by files that both hosts can open."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers.container import disks, seed
from compute_drivers.container.actions import ContainerActions
from compute_drivers.container.making import size_of
from compute_drivers.container.places import DISK, MADE, SEED
from compute_drivers.container.programs import files
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

TICKET = "ticket"
# A folder that has this is on its way back; whoever finds it goes on with that.
COMING_BACK = "coming-back"
CONSOLE = "console.log"


class ContainerMoves(ContainerActions):
    """What went out lies in the folder `kept` until the move is confirmed or reverted."""

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        folder, kept = self._places.folder_of(uuid), self._places.kept_of(uuid)
        if not kept.exists():
            self._state(uuid)
            progress("powering the guest off", None)
            self._shut_down(uuid, self._options.shutdown_seconds)
            self._end(uuid)
            with files("The guest could not be put aside"):
                (folder / TICKET).write_text(secrets.token_hex(16))
                _move(self._places.console_of(uuid), folder / CONSOLE)
                os.replace(folder, kept)
        with files("The guest that was put aside cannot be read"):
            return {"path": str(kept), "ticket": (kept / TICKET).read_text()}

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

    def confirm_migration(self, instance_uuid: str) -> None:
        with files("What was kept of the guest could not be removed"):
            if self._places.kept_of(instance_uuid).exists():
                shutil.rmtree(self._places.kept_of(instance_uuid))

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        folder, kept = self._places.folder_of(uuid), self._places.kept_of(uuid)
        mark = folder / COMING_BACK
        if not kept.exists() and not mark.exists():
            self._state(uuid)  # it never went out
            return
        with files("The guest could not be brought back"):
            if kept.exists():
                self.destroy(uuid)
                (kept / COMING_BACK).touch()
                os.replace(kept, folder)
            _move(folder / CONSOLE, self._places.console_of(uuid))
            if is_running and self._state(uuid) is not PowerState.RUNNING:
                self._launch(guest)
            (folder / TICKET).unlink(missing_ok=True)
            mark.unlink()

    def _take_over(self, source: Path, folder: Path, guest: GuestSpec, progress: Progress) -> None:
        progress("copying the disk", None)
        disks.copy(source / DISK, folder / DISK)
        progress("enlarging the disk", None)
        disks.grow(folder / DISK, size_of(guest.flavor))
        seed.write(folder / SEED, guest, self._options.first_id)

    @staticmethod
    def _found(told: Mapping[str, Any]) -> Path:
        """The folder that the source told of, if this host sees the very same. Raises DriverError."""
        source = Path(str(told.get("path", "")))
        try:
            if source.is_absolute() and (source / TICKET).read_text() == told.get("ticket"):
                return source
        except OSError:
            pass
        raise DriverError("This host cannot open the guest's disk: it is gone, or on storage of the source's own.")


def _move(path: Path, target: Path) -> None:
    """Nothing where there is nothing, or no more."""
    if path.exists():
        os.replace(path, target)
