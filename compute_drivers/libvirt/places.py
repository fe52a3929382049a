"""Where the files of a host's guests are."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from compute_drivers.host_places import HostPlaces
from compute_drivers.libvirt import embedded
from compute_drivers.libvirt.devices_xml import Lines
from compute_drivers.libvirt.domain_xml import name_of
from conductor.core.errors import DriverError


@dataclass(frozen=True)
class Places(HostPlaces):
    """`<state_dir>/{images,instances,consoles,kept,lines,moving}`, and in `libvirt` the hypervisor's own folder."""

    @property
    def root_dir(self) -> Path:
        return self.state_dir / "libvirt"

    @property
    def lines_dir(self) -> Path:
        return self.state_dir / "lines"

    @property
    def moving_dir(self) -> Path:
        """Notes of guests that come or go while they run."""
        return self.state_dir / "moving"

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders = (self.instances_dir, self.consoles_dir, self.kept_dir, self.lines_dir, self.moving_dir)
        for directory in folders:
            directory.mkdir(exist_ok=True)

    def lines_of(self, instance_uuid: str) -> Lines:
        """Sockets have short paths or none. Raises DriverError."""
        short = self._short_lines()
        return Lines(self.console_of(instance_uuid), short / f"{instance_uuid}.tty", short / f"{instance_uuid}.vnc")

    def doors_of(self, instance_uuid: str) -> tuple[str, str]:
        """By these sockets a guest's memory and disks come in from another host of this machine. Raises DriverError."""
        short = self._short_lines()
        return f"unix://{short / instance_uuid}.mem", f"unix://{short / instance_uuid}.nbd"

    def wires_of(self, instance_uuid: str) -> Path:
        """With this begin the sockets of a guest's ports. Raises DriverError."""
        return self._short_lines() / instance_uuid

    def told(self, instance_uuid: str) -> dict[str, str]:
        """What of this host's is named where a guest is described; other hosts have it elsewhere."""
        lines = self.lines_of(instance_uuid)
        return {
            "folder": str(self.folder_of(instance_uuid)),
            "images": str(self.images_dir),
            "console": str(lines.log),
            "serial": str(lines.serial),
            "screen": str(lines.screen),
            "wires": str(self.wires_of(instance_uuid)),
        }

    def note_of(self, instance_uuid: str, kind: str) -> Path:
        return self.moving_dir / f"{instance_uuid}.{kind}"

    def noted(self) -> set[str]:
        """The guests that there is a note of."""
        return {path.stem for path in self.moving_dir.iterdir()}

    def remove(self, instance_uuid: str) -> None:
        """All of a guest but what was kept for going back; last the notes that say what it is. Raises DriverError."""
        self.remove_files(instance_uuid)
        try:
            for note in self.moving_dir.glob(f"{instance_uuid}.*"):
                note.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Notes of the guest could not be removed: {error.strerror}.") from error

    def remove_files(self, instance_uuid: str) -> None:
        """Raises DriverError."""
        try:
            if self.folder_of(instance_uuid).exists():
                shutil.rmtree(self.folder_of(instance_uuid))
            for path in (
                self.console_of(instance_uuid),
                self.root_dir / "log" / "qemu" / f"{name_of(instance_uuid)}.log",
                *self.lines_dir.glob(f"{instance_uuid}.*"),
            ):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Files of the guest could not be removed: {error.strerror}.") from error

    def _short_lines(self) -> Path:
        try:
            return embedded.short_path(self.lines_dir)
        except OSError as error:
            raise DriverError(f"The sockets of the guest's consoles have no place: {error.strerror}.") from error
