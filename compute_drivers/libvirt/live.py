"""How guests move from host to host while they run: the two libvirts send each other memory and disks."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compute_drivers.host_places import files
from compute_drivers.libvirt import config_drive, disks
from compute_drivers.libvirt.actions import ON
from compute_drivers.libvirt.holders import Holder
from compute_drivers.libvirt.host import require_uuid
from compute_drivers.libvirt.options import LibvirtOptions
from compute_drivers.libvirt.taking import LibvirtTaker
from conductor.core import disk_images
from conductor.core.compute_driver import GuestInfo, GuestSpec, Progress
from conductor.core.errors import DriverError, GuestMissing, Invalid, MigrationAborted
from conductor.core.live_steering import DOWNTIME, POST_COPY
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.migration import Journey

# Notes that outlive the process: a guest that is expected here, and one that is on its way from here.
EXPECTED, LEAVING = "expected", "leaving"
UNIX = "unix"
# By this note in the guest's folder the source sees that the destination means the very same.
SEEN = "seen"
SHARE_NONE = "These hosts share no disks: the guest's own have to be sent by a block migration."


class LibvirtLive(LibvirtTaker):
    """A guest is where it runs: at the one instant at which the destination lets it go on, it is there and not here."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        _check(self._options)
        self._journeys: dict[str, Journey] = {}

    def start(self) -> None:
        super().start()
        for uuid in self._places.noted():
            # libvirt forgets a guest only when it has arrived.
            if self._read(uuid, LEAVING) and not self._connection.has(uuid):
                self._remove_files(uuid)

    def guests(self) -> list[GuestInfo]:
        on_the_way = self._places.noted()  # before and after: a note may come or go meanwhile
        found = super().guests()
        on_the_way |= self._places.noted()
        looked = (self._look_again(guest) if guest.instance_uuid in on_the_way else guest for guest in found)
        return [guest for guest in looked if guest is not None]

    # -- at the destination

    def prepare_live_migration(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        require_uuid(uuid)
        if self._connection.has(uuid):
            if self._read(uuid, EXPECTED) and not self._is_here(uuid):
                return self._read(uuid, EXPECTED)
            raise DriverError("The guest is on this host already.")
        if told := self._read(uuid, EXPECTED):
            return told
        holder = self._places.holder_of(uuid)
        is_shared = holder is not None and holder.host != self.host
        self._refuse_what_cannot_be_sent(guest, is_block_migration, is_shared=is_shared)
        self._note(uuid, EXPECTED, {})
        self._places.remove_files(uuid)  # of a call that was cut off
        with self._all_or_nothing(guest):
            self._boot_parts(guest, _quietly)
            target = self._expect(guest) if is_shared else self._make_ready(guest)
            self._note(uuid, EXPECTED, target)
        return target

    def _expect(self, guest: GuestSpec) -> dict[str, Any]:
        """Its disks and the note of its network are seen from here."""
        drive = str(self._places.own_drive_of(guest.instance_uuid))
        self._write_drive(Path(drive), guest, guest.admin_password)
        self._networks.join(guest.instance_uuid)
        target = self._target(guest.instance_uuid, is_on_image=False, is_block_migration=False)
        target[SEEN] = secrets.token_hex(16)
        with files("The guest's folder could not be marked"):
            (self._places.folder_of(guest.instance_uuid) / SEEN).write_text(target[SEEN])
        return {**target, "places": {**target["places"], "config": drive}}

    def _make_ready(self, guest: GuestSpec) -> dict[str, Any]:
        """Disks to be filled, and a network for them."""
        uuid, backing = guest.instance_uuid, self._kept_image(guest, _quietly)
        folder = self._places.make_folder(uuid)
        _make_room(folder, guest, backing)
        self._write_drive(folder / config_drive.NAME, guest, guest.admin_password)
        target = self._target(uuid, is_on_image=backing is not None, is_block_migration=True)
        self._networks.tell(guest)
        return {**target, "places": {**target["places"], "own_drive": str(folder / config_drive.NAME)}}

    def finish_live_migration(self, guest: GuestSpec) -> None:
        if not self._is_here(guest.instance_uuid):
            raise GuestMissing()
        self._unmark(guest.instance_uuid)
        if self._places.holder_of(guest.instance_uuid) is not None:
            self._places.hold(guest.instance_uuid, Holder(self.host))
        self._forget(guest.instance_uuid, EXPECTED)

    def cancel_live_migration(self, instance_uuid: str) -> None:
        if not self._places.note_of(instance_uuid, EXPECTED).exists():
            return
        if self._connection.is_between(instance_uuid):
            raise DriverError("The guest is on its way to this host: its move has to be aborted first.")
        if not self._is_here(instance_uuid):
            self._unmark(instance_uuid)
            self._remove_files(instance_uuid)

    # -- at the source

    def live_migrate(
        self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress, *, is_block_migration: bool | None
    ) -> None:
        from compute_drivers.libvirt.migration import Journey  # it loads libvirt

        uuid = guest.instance_uuid
        journey = self._journeys[uuid] = Journey(self._options, guest.ports, self._networks.played(uuid))
        try:
            self._join(uuid, journey, progress)
            if self._is_to_go(uuid, target):
                self._go(uuid, journey, target, progress)
            self._remove_files(uuid)  # it runs there
        finally:
            del self._journeys[uuid]

    def abort_live_migration(self, instance_uuid: str) -> None:
        journey = self._journeys.get(instance_uuid)
        if self._connection.is_post_copy(instance_uuid) or (journey is not None and journey.is_post_copy):
            raise DriverError("The guest has switched to post-copy: its move cannot be aborted any more.")
        if journey is not None:
            journey.is_aborted = True

    def force_live_migration(self, instance_uuid: str) -> None:
        if instance_uuid in self._journeys:
            self._journeys[instance_uuid].is_forced = True

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        """Also of a move that an earlier process began, before it is joined."""
        from compute_drivers.libvirt import migration, steering  # they load libvirt

        journey = self._journeys.get(instance_uuid)
        if journey is not None and journey.is_post_copy and kind == POST_COPY:
            return  # given again, perhaps when all has arrived
        if journey is not None and kind == DOWNTIME:
            journey.downtime_ms = amount  # one that has just begun sets it itself
        with self._connection.domain(instance_uuid, "steer the move") as domain:
            steering.steer(domain, migration.job_of(domain), kind, amount)
        if journey is not None and kind == POST_COPY:
            journey.is_post_copy = True

    # -- what they are made of

    def _join(self, uuid: str, journey: Journey, progress: Progress) -> None:
        """A move that an earlier process began goes on without it."""
        if self._read(uuid, LEAVING) and self._connection.has(uuid):
            with self._connection.domain(uuid, "move the guest") as domain:
                journey.join(domain, progress)

    def _is_to_go(self, uuid: str, target: Mapping[str, Any]) -> bool:
        """False for one that is there already. Raises GuestMissing, DriverError for one that is off."""
        if self._is_here(uuid):
            if self._state(uuid) not in ON:
                raise DriverError("The guest is not running.")
            self._require_same(uuid, target)
            return True
        if self._has_arrived(uuid, target):
            return False
        raise GuestMissing()

    def _go(self, uuid: str, journey: Journey, target: Mapping[str, Any], progress: Progress) -> None:
        progress("connecting the hosts", None)
        state = self._state(uuid)
        self._note(uuid, LEAVING, target)
        try:
            with self._connection.domain(uuid, "move the guest") as domain:
                journey.go(domain, uuid, target, self._places.told(uuid), progress)
        except BaseException as error:
            if not self._is_here(uuid):
                if isinstance(error, DriverError) and self._has_arrived(uuid, target):
                    return
                raise
            self._go_on(uuid, state)
            self._forget(uuid, LEAVING)
            if journey.is_aborted and isinstance(error, DriverError):
                raise MigrationAborted() from error
            raise

    def _go_on(self, uuid: str, state: PowerState) -> None:
        """One that stood still for a switch that did not come to be."""
        if state is PowerState.RUNNING and self._state(uuid) is PowerState.PAUSED:
            with self._guest(uuid, "let the guest go on") as found:
                found.thaw()

    def _look_again(self, guest: GuestInfo) -> GuestInfo | None:
        uuid = guest.instance_uuid
        try:
            return GuestInfo(uuid, self._state(uuid)) if self._is_here(uuid) else None
        except GuestMissing:  # it left between the two looks
            return None

    def _is_here(self, uuid: str) -> bool:
        if not self._connection.is_between(uuid):
            return self._connection.is_here(uuid)
        target = self._read(uuid, LEAVING)
        return bool(target) and not self._has_arrived(uuid, target)

    def _require_same(self, uuid: str, target: Mapping[str, Any]) -> None:
        """The note of whose a folder is may have been copied with it; what the destination has just written was not.

        An earlier release of it wrote nothing.
        """
        if target.get("is_block_migration", True) or SEEN not in target:
            return
        try:
            is_same = (self._places.folder_of(uuid) / SEEN).read_text() == target[SEEN]
        except OSError:
            is_same = False
        if not is_same:
            raise DriverError(SHARE_NONE)

    def _unmark(self, uuid: str) -> None:
        with files("The mark in the guest's folder could not be removed"), suppress(NotADirectoryError):
            (self._places.folder_of(uuid) / SEEN).unlink(missing_ok=True)

    def _has_arrived(self, uuid: str, target: Mapping[str, Any]) -> bool:
        return self._connection.is_at(str(target.get("uri", "")), uuid)

    def _target(self, uuid: str, *, is_on_image: bool, is_block_migration: bool) -> dict[str, Any]:
        address = self._options.migration_address
        memory, blocks = (address, "") if address != UNIX else self._places.doors_of(uuid)
        return {
            "uri": self._options.migration_uri,
            "host": self.host,
            "places": self._places.told(uuid),
            "memory_uri": memory,
            "disks_uri": blocks,
            "is_on_image": is_on_image,
            "is_block_migration": is_block_migration,
        }

    def _remove_files(self, instance_uuid: str) -> None:
        """Disks that the hosts share go along with the guest: they are not this host's to remove any more."""
        target = self._read(instance_uuid, LEAVING)
        if target and not target.get("is_block_migration", True) and self._places.has_folder(instance_uuid):
            self._places.hold(instance_uuid, Holder(str(target["host"])))
        super()._remove_files(instance_uuid)

    @staticmethod
    def _refuse_what_cannot_be_sent(guest: GuestSpec, is_block_migration: bool | None, *, is_shared: bool) -> None:
        flavor = guest.flavor
        has_disks = bool(guest.image.image_id or flavor.ephemeral_gb or flavor.swap_mb)
        if is_block_migration and is_shared:
            raise DriverError("These hosts share the guest's disks: a block migration has nothing to send.")
        if is_block_migration is False and has_disks and not is_shared:
            raise DriverError(SHARE_NONE)
        for volume in guest.volumes:
            if not Path(volume.path).exists():
                raise DriverError(f"This host cannot open volume {volume.volume_uuid} of the guest.")

    # -- notes

    def _read(self, uuid: str, kind: str) -> dict[str, Any]:
        """Empty where there is none, or where its writing was cut off."""
        try:
            return dict(json.loads(self._places.note_of(uuid, kind).read_text() or "{}"))
        except (FileNotFoundError, ValueError):
            return {}

    def _note(self, uuid: str, kind: str, told: Mapping[str, Any]) -> None:
        with files("The move of the guest could not be noted"):
            self._places.note_of(uuid, kind).write_text(json.dumps(dict(told)))

    def _forget(self, uuid: str, kind: str) -> None:
        with files("The note of the guest's move could not be removed"):
            self._places.note_of(uuid, kind).unlink(missing_ok=True)


def _check(options: LibvirtOptions) -> None:
    """Raises Invalid for what does not go together."""
    address = options.migration_address
    if options.migration_uri and not options.uri:
        raise Invalid("Option libvirt.migration_uri: other hosts cannot reach the hypervisor of a process; set uri.")
    if not re.fullmatch(r"|unix|tcp://[^\s/]+", address):
        raise Invalid(f"Option libvirt.migration_address: {address!r} is neither unix nor like tcp://192.0.2.7.")
    if options.migration_transport == "tls" and address == UNIX:
        raise Invalid("Option libvirt.migration_transport: tls needs a migration_address like tcp://192.0.2.7.")


def _make_room(folder: Path, guest: GuestSpec, backing: disk_images.Backing | None) -> None:
    """Disks of the guest's sizes, to be filled."""
    disks.create_disks(folder, guest.flavor, backing)
    if backing is None and guest.image.image_id and (guest.image.size or not guest.kernel):
        if not guest.flavor.root_gb:
            raise DriverError("The image of the guest cannot be had any more, and its flavor does not say a size.")
        disks.create_blank(folder / disks.ROOT, guest.flavor.root_gb * disks.GB)


def _quietly(message: str, share: float | None = None, figures: object = None, /) -> None:
    """Who prepares a host tells nobody how far it is."""
