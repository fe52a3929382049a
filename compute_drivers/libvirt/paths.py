"""Layout of the files of a host's guests, and the notes that say which host owns a guest's folder."""

from __future__ import annotations

import enum
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compute_drivers import config_drive
from compute_drivers.host_paths import HostPaths, os_errors_as
from compute_drivers.libvirt import embedded
from compute_drivers.libvirt.devices_xml import ConsoleSockets
from compute_drivers.libvirt.domain_xml import domain_name
from compute_drivers.ovn_net.ovn_net import device_prefix
from conductor.core.errors import DriverError

DRIVE_SUFFIX = ".iso"
ANY_UUID = "?" * 36
OWNER_NOTE = "holder.json"
# Notes of live migrations: for a guest that is expected here, and for one that is migrating away.
INCOMING, OUTGOING = "expected", "leaving"


class Location(enum.Enum):
    """Location of a guest in its live migration, as one host's libvirt reports it."""

    ABSENT = enum.auto()
    BETWEEN = enum.auto()
    HERE = enum.auto()


@dataclass(frozen=True)
class DiskOwner:
    """The host that owns a guest's folder. `taken_from` is the dead host that had it, until the guest runs here."""

    host: str
    taken_from: str = ""


def read_owner(folder: Path) -> DiskOwner | None:
    """Return the owner of a guest's folder; None where the folder or its note is missing."""
    try:
        note = json.loads((folder / OWNER_NOTE).read_text())
        return DiskOwner(str(note["host"]), str(note.get("taken_from", "")))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def write_owner(folder: Path, owner: DiskOwner) -> None:
    """Replace the owner note atomically. Raises OSError."""
    part = folder / f"{OWNER_NOTE}.part"
    with part.open("w") as file:
        json.dump(asdict(owner), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, folder / OWNER_NOTE)


@dataclass(frozen=True)
class LibvirtPaths(HostPaths):
    """`<state_dir>/{images,instances,consoles,kept,lines,moving}`, and `libvirt` for the hypervisor.

    With a `shared_dir` the disks of guests are there, where other hosts see them at the same paths: `instances` for
    all hosts, `images/<host>` and `kept/<host>` for each. Only the owner of a guest's folder changes or removes it.
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
        """Retained guests of all hosts: images of this host may back their disks."""
        return self.disks_dir / "kept"

    @property
    def root_dir(self) -> Path:
        return self.state_dir / "libvirt"

    @property
    def sockets_dir(self) -> Path:
        """Sockets of consoles."""
        return self.state_dir / "lines"

    @property
    def accounts_dir(self) -> Path:
        """Notes of which guest has which uid. Hosts that share disks share them, so that no uid is given out twice."""
        return self.disks_dir / "accounts"

    @property
    def moving_dir(self) -> Path:
        """Notes of live migrations."""
        return self.state_dir / "moving"

    def prepare(self) -> None:
        """Make the folders. Raises OSError, also where the shared folder is missing because it is not mounted."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.shared_dir is not None and not self.shared_dir.is_dir():
            raise FileNotFoundError(f"{self.shared_dir} is not there; is the shared storage mounted?")
        folders = (self.instances_dir, self.consoles_dir, self.kept_dir, self.sockets_dir, self.moving_dir)
        for directory in folders:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.instances_dir.glob(f"{ANY_UUID}.{self.host}"):  # creation or removal was interrupted
            shutil.rmtree(path)

    # -- the folders of guests

    def own_folders(self) -> list[Path]:
        """Return the folders of this host's guests. Raises OSError."""
        return [path for path in self.instances_dir.iterdir() if "." not in path.name and self._is_own(path)]

    def has_folder(self, instance_uuid: str) -> bool:
        """Return whether the guest has a folder that this host owns."""
        folder = self.folder_of(instance_uuid)
        return folder.exists() and self._is_own(folder)

    def make_folder(self, instance_uuid: str) -> Path:
        """Create the guest's folder. Raises DriverError where it exists already."""
        folder = self.folder_of(instance_uuid)
        with os_errors_as("The guest's folder could not be made"):
            if self.shared_dir is None:
                folder.mkdir(mode=0o700)
                return folder
            hidden = self._hidden(folder)
            shutil.rmtree(hidden, ignore_errors=True)  # left over from an interrupted call
            hidden.mkdir(mode=0o700)
            write_owner(hidden, DiskOwner(self.host))
            os.rename(hidden, folder)  # atomically, so that the folder always has an owner
        return folder

    def owner_of(self, instance_uuid: str) -> DiskOwner | None:
        """Return the owner of the guest's folder; None where hosts share no folder, or not this one."""
        return read_owner(self.folder_of(instance_uuid)) if self.shared_dir else None

    def set_owner(self, instance_uuid: str, owner: DiskOwner) -> None:
        """Write down the owner of the guest's folder. Raises DriverError."""
        with os_errors_as("The owner of the guest's folder could not be noted"):
            write_owner(self.folder_of(instance_uuid), owner)

    def _is_own(self, folder: Path) -> bool:
        if self.shared_dir is None:
            return True
        owner = read_owner(folder)
        return owner is not None and owner.host == self.host

    def _hidden(self, folder: Path) -> Path:
        """Return the name of a folder while it is created or removed."""
        return folder.with_name(f"{folder.name}.{self.host}")

    def _remove_folder(self, instance_uuid: str) -> None:
        """Remove the folder; one that was taken over and whose guest never ran here goes back to its former owner."""
        folder = self.folder_of(instance_uuid)
        if self.shared_dir is None:
            if folder.exists():
                shutil.rmtree(folder)
            return
        hidden = self._hidden(folder)
        shutil.rmtree(hidden, ignore_errors=True)
        owner = read_owner(folder)
        if owner is None or owner.host != self.host:
            return
        if owner.taken_from:
            write_owner(folder, DiskOwner(owner.taken_from))
            return
        os.rename(folder, hidden)  # atomically: a half-removed folder would have no owner
        shutil.rmtree(hidden)

    # -- files beside the folders

    def console_sockets(self, instance_uuid: str) -> ConsoleSockets:
        """Return the guest's console log and sockets, at paths short enough for sockets. Raises DriverError."""
        own = self.socket_prefix(instance_uuid)
        serial, screen = (
            own / kind if own.is_dir() else own.with_name(f"{instance_uuid}.{kind}") for kind in ("tty", "vnc")
        )
        return ConsoleSockets(self.console_of(instance_uuid), serial, screen)

    def migration_sockets(self, instance_uuid: str) -> tuple[str, str]:
        """Return the URIs at which memory and disks arrive from another host of this machine. Raises DriverError."""
        short = self._short_sockets_dir()
        return f"unix://{short / instance_uuid}.mem", f"unix://{short / instance_uuid}.nbd"

    def socket_prefix(self, instance_uuid: str) -> Path:
        """Return the prefix of a guest's sockets; a guest with an account has a folder there. Raises DriverError."""
        return self._short_sockets_dir() / instance_uuid

    def path_table(self, instance_uuid: str) -> dict[str, str]:
        """Return the paths of this host that a guest's domain names. Live migration maps them to the destination's."""
        sockets, folder = self.console_sockets(instance_uuid), self.folder_of(instance_uuid)
        return {
            "config": str(folder / config_drive.NAME),
            "own_drive": str(self.local_config_drive(instance_uuid)),
            "folder": str(folder),
            "images": str(self.images_dir),
            "console": str(sockets.log),
            "serial": str(sockets.serial),
            "screen": str(sockets.screen),
            "taps": device_prefix(self.state_dir),
        }

    def migration_note(self, instance_uuid: str, kind: str) -> Path:
        """Return the path of the INCOMING or OUTGOING note of a guest."""
        return self.moving_dir / f"{instance_uuid}.{kind}"

    def local_config_drive(self, instance_uuid: str) -> Path:
        """Return the config drive of a guest that arrives by live migration from a host that shares its disks.

        It is the only file that does not exist before the guest is expected, so an unexpected guest cannot start.
        """
        return self.moving_dir / f"{instance_uuid}{DRIVE_SUFFIX}"

    def migrating_guests(self) -> set[str]:
        """Return the uuids of guests with an INCOMING or OUTGOING note."""
        return {path.stem for path in self.moving_dir.iterdir() if path.suffix != DRIVE_SUFFIX}

    def remove(self, instance_uuid: str) -> None:
        """Remove all files of a guest but those retained for a revert; migration notes last. Raises DriverError."""
        self.remove_files(instance_uuid)
        try:
            for note in self.moving_dir.glob(f"{instance_uuid}.*"):
                note.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Notes of the guest could not be removed: {error.strerror}.") from error

    def remove_files(self, instance_uuid: str) -> None:
        """Remove the guest's folder, console log and sockets. Raises DriverError."""
        try:
            self._remove_folder(instance_uuid)
            for path in (
                self.console_of(instance_uuid),
                self.root_dir / "log" / "qemu" / f"{domain_name(instance_uuid)}.log",
            ):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Files of the guest could not be removed: {error.strerror}.") from error
        self.remove_sockets(instance_uuid)

    def remove_sockets(self, instance_uuid: str) -> None:
        """Remove the sockets that a killed QEMU left. Raises DriverError."""
        with os_errors_as("The sockets of the guest's consoles could not be removed"):
            for path in self.sockets_dir.glob(f"{instance_uuid}.*"):
                path.unlink(missing_ok=True)
            shutil.rmtree(self.sockets_dir / instance_uuid, ignore_errors=True)

    def _short_sockets_dir(self) -> Path:
        try:
            return embedded.short_path(self.sockets_dir)
        except OSError as error:
            raise DriverError(f"The sockets of the guest's consoles have no place: {error.strerror}.") from error


class MigrationNotes:
    """Notes of live migrations, one JSON file for each guest and kind. They outlive the process."""

    def __init__(self, paths: LibvirtPaths) -> None:
        self._paths = paths

    def exists(self, instance_uuid: str, kind: str) -> bool:
        return self._paths.migration_note(instance_uuid, kind).exists()

    def read(self, instance_uuid: str, kind: str) -> dict[str, Any]:
        """Return the note; empty where there is none, or where its writing was interrupted."""
        try:
            return dict(json.loads(self._paths.migration_note(instance_uuid, kind).read_text() or "{}"))
        except (FileNotFoundError, ValueError):
            return {}

    def write(self, instance_uuid: str, kind: str, note: Mapping[str, Any]) -> None:
        """Raises DriverError."""
        with os_errors_as("The move of the guest could not be noted"):
            self._paths.migration_note(instance_uuid, kind).write_text(json.dumps(dict(note)))

    def remove(self, instance_uuid: str, kind: str) -> None:
        """Raises DriverError."""
        with os_errors_as("The note of the guest's move could not be removed"):
            self._paths.migration_note(instance_uuid, kind).unlink(missing_ok=True)
