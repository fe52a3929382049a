"""Live migration: both libvirt daemons send a running guest's memory and disks from the source to the destination."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compute_drivers import config_drive
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt import disks
from compute_drivers.libvirt.node import ON, LibvirtNode, require_uuid
from compute_drivers.libvirt.options import UNIX
from compute_drivers.libvirt.paths import INCOMING, OUTGOING, DiskOwner, Location
from compute_drivers.libvirt.spawn import GuestBuilder, has_root_image, no_progress
from conductor.core import disk_images
from conductor.core.compute_driver import GuestInfo, GuestSpec, Progress
from conductor.core.errors import DriverError, GuestMissing, MigrationAborted
from conductor.core.live_steering import DOWNTIME, POST_COPY
from conductor.core.messages import message
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.migration_job import MigrationJob

# The destination writes this file into the guest's folder. The source reads it to check that both see the same folder.
SHARED_MARK = "seen"
NOT_SHARED = "These hosts share no disks: the guest's own have to be sent by a block migration."


class LiveMigration:
    """Prepares, runs, steers and finishes live migrations.

    A guest belongs to the host on which it runs. Notes in files outlive the process: INCOMING for a guest that is
    expected here, OUTGOING for one that is migrating away.
    """

    def __init__(self, node: LibvirtNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder
        self._notes = node.migration_notes
        self._jobs: dict[str, MigrationJob] = {}

    def clean_up_departed(self) -> None:
        """Remove the files of guests that arrived elsewhere while no agent ran."""
        for uuid in self._node.paths.migrating_guests():
            # libvirt undefines a guest at the source only when it has arrived.
            if self._notes.read(uuid, OUTGOING) and not self._node.connection.has(uuid):
                self._node.remove_files(uuid)

    def list_guests(self) -> list[GuestInfo]:
        """Return every guest of this host, without those that have left or not arrived yet."""
        migrating = self._node.paths.migrating_guests()  # before and after: a note may come or go meanwhile
        found = self._node.list_guests()
        migrating |= self._node.paths.migrating_guests()
        checked = (self._recheck(guest) if guest.instance_uuid in migrating else guest for guest in found)
        return [guest for guest in checked if guest is not None]

    # -- at the destination

    def prepare(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        """Make room for the guest; return the target, which the source needs to send it."""
        node, uuid = self._node, guest.instance_uuid
        require_uuid(uuid)
        expected = self._notes.read(uuid, INCOMING)
        if node.connection.has(uuid):
            if expected and not self._is_here(uuid):
                return expected
            raise DriverError("The guest is on this host already.")
        if expected:
            return expected
        owner = node.paths.owner_of(uuid)
        is_shared = owner is not None and owner.host != node.host
        _check_sendable(guest, is_block_migration, is_shared=is_shared)
        self._notes.write(uuid, INCOMING, {})
        node.paths.remove_files(uuid)  # left over from an interrupted call
        with self._builder.all_or_nothing(guest):
            self._builder.boot_files(guest, no_progress)
            target = self._prepare_shared(guest) if is_shared else self._prepare_block(guest)
            self._notes.write(uuid, INCOMING, target)
        return target

    def finish(self, instance_uuid: str) -> None:
        """Make the arrived guest permanent. Raises GuestMissing for one that has not arrived."""
        if not self._is_here(instance_uuid):
            raise GuestMissing()
        self._remove_shared_mark(instance_uuid)
        if self._node.paths.owner_of(instance_uuid) is not None:
            self._node.paths.set_owner(instance_uuid, DiskOwner(self._node.host))
        self._notes.remove(instance_uuid, INCOMING)

    def cancel(self, instance_uuid: str) -> None:
        """Remove what was prepared. A guest that has arrived stays."""
        if not self._notes.exists(instance_uuid, INCOMING):
            return
        location = self._node.connection.location(instance_uuid)
        if location is Location.BETWEEN:
            raise DriverError("The guest is on its way to this host: its move has to be aborted first.")
        if location is not Location.HERE:
            self._remove_shared_mark(instance_uuid)
            self._node.remove_files(instance_uuid)

    def _prepare_shared(self, guest: GuestSpec) -> dict[str, Any]:
        """Prepare for a guest whose disks and network note this host sees."""
        node, uuid = self._node, guest.instance_uuid
        drive = node.paths.local_config_drive(uuid)
        self._builder.write_config_drive(drive, guest, guest.admin_password)
        node.networks.reopen(uuid)
        target = self._target(uuid, is_on_image=False, is_block_migration=False)
        target[SHARED_MARK] = secrets.token_hex(16)
        with os_errors_as("The guest's folder could not be marked"):
            (node.paths.folder_of(uuid) / SHARED_MARK).write_text(target[SHARED_MARK])
        return {**target, "places": {**target["places"], "config": str(drive)}}

    def _prepare_block(self, guest: GuestSpec) -> dict[str, Any]:
        """Create empty disks for the source to fill, and serve the guest's network."""
        node, uuid = self._node, guest.instance_uuid
        backing = self._builder.backing_image_if_any(guest, no_progress)
        folder = node.paths.make_folder(uuid)
        _create_empty_disks(folder, guest, backing)
        drive = folder / config_drive.NAME
        self._builder.write_config_drive(drive, guest, guest.admin_password)
        target = self._target(uuid, is_on_image=backing is not None, is_block_migration=True)
        node.networks.configure(guest)
        return {**target, "places": {**target["places"], "own_drive": str(drive)}}

    def _target(self, uuid: str, *, is_on_image: bool, is_block_migration: bool) -> dict[str, Any]:
        """Return what the source needs to send the guest here. The keys are part of the protocol between hosts."""
        paths, address = self._node.paths, self._node.options.migration_address
        memory, blocks = (address, "") if address != UNIX else paths.migration_sockets(uuid)
        return {
            "uri": self._node.options.migration_uri,
            "host": self._node.host,
            "places": paths.path_table(uuid),
            "memory_uri": memory,
            "disks_uri": blocks,
            "is_on_image": is_on_image,
            "is_block_migration": is_block_migration,
        }

    # -- at the source

    def migrate(self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress) -> None:
        """Send the guest to `target`; returns once it runs there. Called again, it joins a running migration."""
        from compute_drivers.libvirt.migration_job import MigrationJob  # it loads libvirt

        node, uuid = self._node, guest.instance_uuid
        job = self._jobs[uuid] = MigrationJob(node.options, guest.ports, node.networks.backends(uuid))
        try:
            self._join(uuid, job, progress)
            if self._must_send(uuid, target):
                self._send(uuid, job, target, progress)
            node.remove_files(uuid)
        finally:
            del self._jobs[uuid]

    def abort(self, instance_uuid: str) -> None:
        """Stop the migration before the switch. Raises DriverError after a switch to post-copy."""
        job = self._jobs.get(instance_uuid)
        if self._node.connection.is_post_copy(instance_uuid) or (job is not None and job.is_post_copy):
            raise DriverError(message("migration.no_abort"))
        if job is not None:
            job.is_aborted = True

    def force(self, instance_uuid: str) -> None:
        """Have the migration switch to the destination now."""
        if instance_uuid in self._jobs:
            self._jobs[instance_uuid].is_forced = True

    def steer(self, instance_uuid: str, kind: str, amount: int) -> None:
        """Change a running migration, also one that an earlier process started and that was not joined yet."""
        from compute_drivers.libvirt import migration_job  # it loads libvirt

        job = self._jobs.get(instance_uuid)
        if job is not None and job.is_post_copy and kind == POST_COPY:
            return  # repeated, possibly after everything has arrived
        if job is not None and kind == DOWNTIME:
            job.downtime_ms = amount  # a migration that has only just started applies it itself
        with self._node.connection.domain(instance_uuid, "steer the move") as domain:
            migration_job.steer(domain, migration_job.job_stats(domain), kind, amount)
        if job is not None and kind == POST_COPY:
            job.is_post_copy = True

    def _join(self, uuid: str, job: MigrationJob, progress: Progress) -> None:
        """Follow a migration that an earlier process started: libvirt continues it on its own."""
        if self._notes.read(uuid, OUTGOING) and self._node.connection.has(uuid):
            with self._node.connection.domain(uuid, "move the guest") as domain:
                job.join(domain, progress)

    def _must_send(self, uuid: str, target: Mapping[str, Any]) -> bool:
        """Return False for a guest that has arrived. Raises GuestMissing, and DriverError for one that is off."""
        if self._is_here(uuid):
            if self._node.power_state(uuid) not in ON:
                raise DriverError("The guest is not running.")
            self._require_same_folder(uuid, target)
            return True
        if self._has_arrived(uuid, target):
            return False
        raise GuestMissing()

    def _send(self, uuid: str, job: MigrationJob, target: Mapping[str, Any], progress: Progress) -> None:
        progress("connecting the hosts", None)
        state = self._node.power_state(uuid)
        self._notes.write(uuid, OUTGOING, target)
        try:
            with self._node.connection.domain(uuid, "move the guest") as domain:
                job.run(domain, uuid, target, self._node.paths.path_table(uuid), progress)
        except BaseException as error:
            if not self._is_here(uuid):
                if isinstance(error, DriverError) and self._has_arrived(uuid, target):
                    return
                raise
            self._unpause_after_failure(uuid, state)
            self._notes.remove(uuid, OUTGOING)
            if job.is_aborted and isinstance(error, DriverError):
                raise MigrationAborted() from error
            raise

    def _unpause_after_failure(self, uuid: str, state: PowerState) -> None:
        """Let a guest run again that was paused for a switch that failed."""
        if state is PowerState.RUNNING and self._node.power_state(uuid) is PowerState.PAUSED:
            with self._node.guest(uuid, "let the guest go on") as domain:
                domain.unpause()

    def _require_same_folder(self, uuid: str, target: Mapping[str, Any]) -> None:
        """Raises DriverError when source and destination see different folders.

        The owner note may have been copied along with a folder; the mark that the destination has just written was
        not. Earlier releases write no mark.
        """
        if target.get("is_block_migration", True) or SHARED_MARK not in target:
            return
        try:
            is_same = (self._node.paths.folder_of(uuid) / SHARED_MARK).read_text() == target[SHARED_MARK]
        except OSError:
            is_same = False
        if not is_same:
            raise DriverError(NOT_SHARED)

    # -- where a guest is

    def _recheck(self, guest: GuestInfo) -> GuestInfo | None:
        """Return the present state of a guest in migration; None where it is not here."""
        uuid = guest.instance_uuid
        try:
            return GuestInfo(uuid, self._node.power_state(uuid)) if self._is_here(uuid) else None
        except GuestMissing:  # it left meanwhile
            return None

    def _is_here(self, uuid: str) -> bool:
        location = self._node.connection.location(uuid)
        if location is not Location.BETWEEN:
            return location is Location.HERE
        target = self._notes.read(uuid, OUTGOING)
        return bool(target) and not self._has_arrived(uuid, target)

    def _has_arrived(self, uuid: str, target: Mapping[str, Any]) -> bool:
        return self._node.connection.is_at(str(target.get("uri", "")), uuid)

    def _remove_shared_mark(self, uuid: str) -> None:
        with os_errors_as("The mark in the guest's folder could not be removed"), suppress(NotADirectoryError):
            (self._node.paths.folder_of(uuid) / SHARED_MARK).unlink(missing_ok=True)


def _check_sendable(guest: GuestSpec, is_block_migration: bool | None, *, is_shared: bool) -> None:
    """Raises DriverError where the kind of migration does not fit the guest's disks, or a volume cannot be opened."""
    flavor = guest.flavor
    has_disks = bool(guest.image.image_id or flavor.ephemeral_gb or flavor.swap_mb)
    if is_block_migration and is_shared:
        raise DriverError("These hosts share the guest's disks: a block migration has nothing to send.")
    if is_block_migration is False and has_disks and not is_shared:
        raise DriverError(NOT_SHARED)
    for volume in guest.volumes:
        if not Path(volume.path).exists():
            raise DriverError(f"This host cannot open volume {volume.volume_uuid} of the guest.")


def _create_empty_disks(folder: Path, guest: GuestSpec, backing: disk_images.Backing | None) -> None:
    """Create disks of the guest's sizes for the source to fill."""
    disks.create_disks(folder, guest.flavor, backing)
    if backing is None and has_root_image(guest):
        if not guest.flavor.root_gb:
            raise DriverError("The image of the guest cannot be had any more, and its flavor does not say a size.")
        disks.create_blank(folder / disks.ROOT, guest.flavor.root_gb * disks.GB)
