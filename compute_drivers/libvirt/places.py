"""Where the files of a host's guests are."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from compute_drivers.host_net.host_net import names_of
from compute_drivers.host_places import HostPlaces, files
from compute_drivers.libvirt import config_drive, embedded, holders
from compute_drivers.libvirt.devices_xml import Lines
from compute_drivers.libvirt.domain_xml import name_of
from compute_drivers.libvirt.holders import Holder
from conductor.core.errors import DriverError

DRIVE = ".iso"
ANY_UUID = "?" * 36


@dataclass(frozen=True)
class Places(HostPlaces):
    """`<state_dir>/{images,instances,consoles,kept,lines,moving,networks}`; the hypervisor has `libvirt` in it.

    With a `shared_dir` the guests' disks are there, where other hosts see them by the same paths: `instances` of all
    hosts, and of each `images/<host>` and `kept/<host>`. Only whoever holds a guest's folder changes or removes it.
    """

    shared_dir: Path | None = None
    host: str = ""

    @property
    def disks_dir(self) -> Path:
        return self.shared_dir or self.state_dir

    @property
    def images_dir(self) -> Path:
        return self.shared_dir / "images" / self.host if self.shared_dir else self.state_dir / "images"

    @property
    def instances_dir(self) -> Path:
        return self.disks_dir / "instances"

    @property
    def kept_dir(self) -> Path:
        return self.all_kept_dir / self.host if self.shared_dir else self.all_kept_dir

    @property
    def all_kept_dir(self) -> Path:
        """What was put aside by any host: its disks may lie on images of this one."""
        return self.disks_dir / "kept"

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

    @property
    def networks_dir(self) -> Path:
        """What this host serves networks of its kernel with."""
        return self.state_dir / "networks"

    def prepare(self) -> None:
        """Make the folders. Raises OSError; the shared one must be there: on a bare mount point nobody would see it."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.shared_dir is not None and not self.shared_dir.is_dir():
            raise FileNotFoundError(f"{self.shared_dir} is not there; is the shared storage mounted?")
        folders = (self.instances_dir, self.consoles_dir, self.kept_dir, self.lines_dir, self.moving_dir)
        for directory in folders:
            directory.mkdir(parents=True, exist_ok=True)
        for left in self.instances_dir.glob(f"{ANY_UUID}.{self.host}"):  # the making or the end of it was cut off
            shutil.rmtree(left)

    # -- the folders of guests

    def own_folders(self) -> list[Path]:
        """Those of this host's guests. Raises OSError."""
        return [path for path in self.instances_dir.iterdir() if "." not in path.name and self._is_own(path)]

    def has_folder(self, instance_uuid: str) -> bool:
        """Whether there is one, and it is this host's."""
        folder = self.folder_of(instance_uuid)
        return folder.exists() and self._is_own(folder)

    def make_folder(self, instance_uuid: str) -> Path:
        """Raises DriverError where there is one already."""
        folder = self.folder_of(instance_uuid)
        with files("The guest's folder could not be made"):
            if self.shared_dir is None:
                folder.mkdir(mode=0o700)
                return folder
            fresh = self._leaving(folder)
            shutil.rmtree(fresh, ignore_errors=True)  # of a call that was cut off
            fresh.mkdir(mode=0o700)
            holders.hold(fresh, Holder(self.host))
            os.rename(fresh, folder)  # so that it is somebody's from its first instant on
        return folder

    def holder_of(self, instance_uuid: str) -> Holder | None:
        """Who has its folder; None where hosts share none, or not this one."""
        return holders.holder_of(self.folder_of(instance_uuid)) if self.shared_dir else None

    def hold(self, instance_uuid: str, holder: Holder) -> None:
        """Raises DriverError."""
        with files("Whose the guest's folder is could not be noted"):
            holders.hold(self.folder_of(instance_uuid), holder)

    def _is_own(self, folder: Path) -> bool:
        if self.shared_dir is None:
            return True
        holder = holders.holder_of(folder)
        return holder is not None and holder.host == self.host

    def _leaving(self, folder: Path) -> Path:
        """What a folder is called by which nobody goes any more, or not yet."""
        return folder.with_name(f"{folder.name}.{self.host}")

    def _remove_folder(self, instance_uuid: str) -> None:
        """One that was taken over, and whose guest never ran here, goes back to whom it was taken from."""
        folder = self.folder_of(instance_uuid)
        if self.shared_dir is None:
            if folder.exists():
                shutil.rmtree(folder)
            return
        shutil.rmtree(self._leaving(folder), ignore_errors=True)
        holder = holders.holder_of(folder)
        if holder is None or holder.host != self.host:
            return
        if holder.taken_from:
            holders.hold(folder, Holder(holder.taken_from))
            return
        os.rename(folder, self._leaving(folder))  # half removed it would be nobody's
        shutil.rmtree(self._leaving(folder))

    # -- what is beside them

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
        lines, folder = self.lines_of(instance_uuid), self.folder_of(instance_uuid)
        return {
            "config": str(folder / config_drive.NAME),
            "own_drive": str(self.own_drive_of(instance_uuid)),
            "folder": str(folder),
            "images": str(self.images_dir),
            "console": str(lines.log),
            "serial": str(lines.serial),
            "screen": str(lines.screen),
            "wires": str(self.wires_of(instance_uuid)),
            "taps": names_of(self.networks_dir).devices,
        }

    def note_of(self, instance_uuid: str, kind: str) -> Path:
        return self.moving_dir / f"{instance_uuid}.{kind}"

    def own_drive_of(self, instance_uuid: str) -> Path:
        """The config drive of a guest that comes here while it runs, and whose disks this host shares.

        It is all that is not there before the guest is expected, and so keeps one out that is not.
        """
        return self.moving_dir / f"{instance_uuid}{DRIVE}"

    def noted(self) -> set[str]:
        """The guests that there is a note of."""
        return {path.stem for path in self.moving_dir.iterdir() if path.suffix != DRIVE}

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
            self._remove_folder(instance_uuid)
            for path in (
                self.console_of(instance_uuid),
                self.root_dir / "log" / "qemu" / f"{name_of(instance_uuid)}.log",
            ):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Files of the guest could not be removed: {error.strerror}.") from error
        self.remove_lines(instance_uuid)

    def remove_lines(self, instance_uuid: str) -> None:
        """The sockets of its consoles: a QEMU that was killed leaves them. Raises DriverError."""
        with files("The sockets of the guest's consoles could not be removed"):
            for path in self.lines_dir.glob(f"{instance_uuid}.*"):
                path.unlink(missing_ok=True)

    def _short_lines(self) -> Path:
        try:
            return embedded.short_path(self.lines_dir)
        except OSError as error:
            raise DriverError(f"The sockets of the guest's consoles have no place: {error.strerror}.") from error
