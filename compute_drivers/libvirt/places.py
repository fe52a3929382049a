"""Where the files of a host's guests are."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from compute_drivers.libvirt import embedded
from compute_drivers.libvirt.devices_xml import Lines
from compute_drivers.libvirt.domain_xml import name_of
from conductor.core.errors import DriverError


@dataclass(frozen=True)
class Places:
    """`<state_dir>/{images,instances,consoles,kept,lines}`, and in `libvirt` the hypervisor's own folder."""

    state_dir: Path

    @property
    def root_dir(self) -> Path:
        return self.state_dir / "libvirt"

    @property
    def images_dir(self) -> Path:
        return self.state_dir / "images"

    @property
    def instances_dir(self) -> Path:
        return self.state_dir / "instances"

    @property
    def kept_dir(self) -> Path:
        """Guests that went out and may come back."""
        return self.state_dir / "kept"

    @property
    def lines_dir(self) -> Path:
        return self.state_dir / "lines"

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.instances_dir, self.state_dir / "consoles", self.kept_dir, self.lines_dir):
            directory.mkdir(exist_ok=True)

    def folder_of(self, instance_uuid: str) -> Path:
        return self.instances_dir / instance_uuid

    def kept_of(self, instance_uuid: str) -> Path:
        return self.kept_dir / instance_uuid

    def lines_of(self, instance_uuid: str) -> Lines:
        """Sockets have short paths or none. Raises DriverError."""
        try:
            short = embedded.short_path(self.lines_dir)
        except OSError as error:
            raise DriverError(f"The sockets of the guest's consoles have no place: {error.strerror}.") from error
        return Lines(self.console_of(instance_uuid), short / f"{instance_uuid}.tty", short / f"{instance_uuid}.vnc")

    def console_of(self, instance_uuid: str) -> Path:
        return self.state_dir / "consoles" / f"{instance_uuid}.log"

    def remove(self, instance_uuid: str) -> None:
        """All of a guest but what was kept for going back. Raises DriverError."""
        try:
            if self.folder_of(instance_uuid).exists():
                shutil.rmtree(self.folder_of(instance_uuid))
            for path in (
                self.console_of(instance_uuid),
                self.root_dir / "log" / "qemu" / f"{name_of(instance_uuid)}.log",
                *(self.lines_dir / f"{instance_uuid}.{kind}" for kind in ("tty", "vnc")),
            ):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Files of the guest could not be removed: {error.strerror}.") from error
