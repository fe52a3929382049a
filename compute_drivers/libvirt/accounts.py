"""Accounts of guests: the QEMU of each guest runs under a uid that can open that guest's files and no others.

Only an agent that runs as root, with the hypervisor inside its process, can give out accounts.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_drivers.host_paths import os_errors_as
from conductor.core import posix_acl
from conductor.core.compute_driver import VolumeConnection
from conductor.core.errors import DriverError
from conductor.core.guest_uids import COUNT
from conductor.core.posix_acl import READ, SEARCH, WRITE

log = logging.getLogger(__name__)

ROOT = 0
UNCHANGED = -1


@dataclass(frozen=True)
class Account:
    """Uid of one guest, and the gid of all guests, which may traverse folders and read images and nothing else."""

    uid: int
    gid: int


def volume_permissions(volumes: Iterable[VolumeConnection]) -> dict[str, int]:
    """Return the permissions that a guest needs for its volumes, by path."""
    return {volume.path: permissions_of(is_read_only=volume.is_read_only) for volume in volumes}


def permissions_of(*, is_read_only: bool) -> int:
    return READ if is_read_only else READ | WRITE


class GuestAccounts:
    """Gives out uids. Each uid in use has a file in `folder`, named after it, with guest, host and opened volumes.

    Hosts that share a folder of disks share these files, so no two guests on it have the same uid.
    """

    def __init__(self, folder: Path, host: str, first_id: int) -> None:
        self._folder = folder
        self._host = host
        self._first_id = first_id
        self._lock = threading.Lock()

    @property
    def gid(self) -> int:
        return self._first_id

    def prepare(self) -> None:
        """Make the folder. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def account_of(self, instance_uuid: str) -> Account:
        """Return the guest's account, a new one where it has none yet. Raises DriverError."""
        with self._lock, os_errors_as("The guest's account could not be noted"):
            uid = self._uid_of(instance_uuid)
            return Account(self._claim(instance_uuid) if uid is None else uid, self.gid)

    def release(self, instance_uuid: str) -> None:
        """Revoke access to volumes and free the uid of a guest that is gone. Raises DriverError."""
        with self._lock, os_errors_as("The guest's account could not be given back"):
            uid = self._uid_of(instance_uuid)
            if uid is not None:
                self._revoke(uid, self._read(uid).get("volumes", ()))
                self._note_of(uid).unlink(missing_ok=True)

    def release_all_but(self, instance_uuids: Collection[str]) -> None:
        """Release accounts of this host that a killed process left. Raises DriverError."""
        for uuid in {note["instance"] for _, note in self._own()} - set(instance_uuids):
            self.release(uuid)

    def grant_volumes(self, instance_uuid: str, permissions: Mapping[str, int]) -> None:
        """Let the guest's uid open these volumes, and revoke all others; their owners stay. Raises DriverError.

        Args:
            permissions: Permissions of `posix_acl` by path.
        """
        account = self.account_of(instance_uuid)
        with self._lock, os_errors_as("The guest's account could not be let in to its volumes"):
            note = self._read(account.uid)
            before = note.get("volumes", [])
            # Written first, so that an interrupted call leaves no open volume unrecorded.
            self._replace(account.uid, {**note, "volumes": sorted({*before, *permissions})})
            for path, permission in permissions.items():
                self.allow_traversal(Path(path).parent)
                self._permit(Path(path), posix_acl.user(account.uid), permission)
            self._revoke(account.uid, set(before) - set(permissions))
            self._replace(account.uid, {**note, "volumes": sorted(permissions)})

    def allow_traversal(self, folder: Path) -> None:
        """Let all guests traverse a folder and its parents, without listing them. Raises DriverError."""
        with suppress(FileNotFoundError):
            for start in {folder, folder.resolve()}:
                for one in (start, *start.parents):
                    if not posix_acl.others_may(one, SEARCH):
                        self._permit(one, posix_acl.group(self.gid), SEARCH, may_be_group=True)

    def allow_only(self, folder: Path, instance_uuid: str) -> None:
        """Let one guest, and no other, traverse the folder of its disks. Raises DriverError."""
        account = self.account_of(instance_uuid)
        self.allow_traversal(folder.parent)
        with os_errors_as("The guest's folder could not be opened to its account"):
            for party in set(posix_acl.named(folder)) - {posix_acl.user(account.uid)}:  # of an earlier uid
                posix_acl.forget(folder, party)
            self._permit(folder, posix_acl.user(account.uid), SEARCH, may_be_group=True)

    def allow_reading(self, path: Path) -> None:
        """Let all guests read an image. Raises DriverError."""
        self.allow_traversal(path.parent)
        with os_errors_as("The image of the guest could not be opened to it"):
            self._permit(path, posix_acl.group(self.gid), READ, may_be_group=True)

    def allow_device(self, device: Path) -> None:
        """Let all guests use a device of the host, such as /dev/kvm. Raises DriverError."""
        if device.exists() and not posix_acl.others_may(device, READ | WRITE):
            self._permit(device, posix_acl.group(self.gid), READ | WRITE)

    def make_owned_folder(self, folder: Path, instance_uuid: str) -> None:
        """Create a folder that the guest's account owns, for QEMU's sockets. Raises DriverError."""
        account = self.account_of(instance_uuid)
        self.allow_traversal(folder.parent)
        with os_errors_as("The folder of the guest's sockets could not be made"):
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)

    # -- files

    def _uid_of(self, instance_uuid: str) -> int | None:
        return next((uid for uid, note in self._own() if note["instance"] == instance_uuid), None)

    def _own(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield uid and content for accounts of this host within its present range."""
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.name.isdecimal() and self._first_id < int(path.name) <= self._first_id + COUNT:
                note = self._read(int(path.name))
                if note.get("host") == self._host:
                    yield int(path.name), note

    def _claim(self, instance_uuid: str) -> int:
        """Take the first free uid, searching from a position that depends on guest and host to avoid collisions."""
        part = self._write({"instance": instance_uuid, "host": self._host, "volumes": []})
        begin = int.from_bytes(hashlib.sha256(f"{instance_uuid}.{self._host}".encode()).digest()[:8], "big")
        try:
            for step in range(COUNT):
                uid = self._first_id + 1 + (begin + step) % COUNT
                with suppress(FileExistsError):
                    os.link(part, self._note_of(uid))  # atomic: with its content, or not at all
                    return uid
        finally:
            part.unlink()
        raise DriverError("There is no free account for the guest.")

    def _note_of(self, uid: int) -> Path:
        return self._folder / str(uid)

    def _read(self, uid: int) -> dict[str, Any]:
        """Return the file's content; empty where it was removed meanwhile."""
        with suppress(FileNotFoundError):
            return dict(json.loads(self._note_of(uid).read_text()))
        return {}

    def _replace(self, uid: int, note: dict[str, Any]) -> None:
        os.replace(self._write(note), self._note_of(uid))

    def _write(self, note: dict[str, Any]) -> Path:
        part = self._folder / f"{note['instance']}.{self._host}.part"
        with part.open("w") as file:
            json.dump(note, file)
            file.flush()
            os.fsync(file.fileno())
        return part

    # -- access

    def _revoke(self, uid: int, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):  # the volume was deleted
                posix_acl.forget(Path(path), posix_acl.user(uid))

    def _permit(
        self, path: Path, party: posix_acl.AclPrincipal, permissions: int, *, may_be_group: bool = False
    ) -> None:
        """Add an access control entry.

        Args:
            may_be_group: Where the file system has no access control lists, such as NFS 4, give the file to the
                group of all guests instead.
        """
        try:
            try:
                posix_acl.permit(path, party, permissions)
            except OSError as error:
                if error.errno != errno.ENOTSUP or not may_be_group or not self._give_to_group(path, permissions):
                    raise
        except FileNotFoundError:
            raise
        except OSError as error:
            log.warning("access for guests cannot be granted: path=%s: %s", path, error)
            raise DriverError(
                f"{path.name} cannot be opened to the accounts of guests ({error.strerror}): its file system has no "
                "access control lists, or this machine has no such uids. Choose another folder or option "
                "libvirt.guest_uid_base; 0 has guests run as root."
            ) from error

    def _give_to_group(self, path: Path, permissions: int) -> bool:
        """Return False where another account or group has access already. Raises OSError."""
        found = path.stat()
        if found.st_uid != ROOT or (found.st_mode & stat.S_IRWXG and found.st_gid != self.gid):
            return False
        os.chown(path, UNCHANGED, self.gid)
        path.chmod(stat.S_IMODE(found.st_mode) & ~stat.S_IRWXG | permissions << 3)
        return True
