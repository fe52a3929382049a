"""How a container is made: its image unpacked onto a disk of its own, and all of that described for the runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compute_drivers.container import bundle, cards, disks, root_archives, seed
from compute_drivers.container.host import ContainerHost, require_uuid
from compute_drivers.container.places import DISK, MADE, NEW_DISK, RESCUE_DISK, RESCUE_SEED, SEED
from compute_drivers.host_places import files
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.request_spec import FlavorSpec
from conductor.core.states import PowerState

log = logging.getLogger(__name__)

SMALLEST_GB = 1  # a flavor may name no disk


class ContainerMaker(ContainerHost):
    """Files first, the container last: what is built can start."""

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        uuid = guest.instance_uuid
        require_uuid(uuid)
        if self._runtime.state(uuid) is PowerState.RUNNING:
            return
        self.destroy(uuid)  # what does not run is one whose building was cut off
        with self._all_or_nothing(guest):
            folder = self._make_folder(guest)
            with self._new_disk(guest, progress) as disk:
                disk.rename(folder / DISK)
            seed.write(folder / SEED, guest, self._options.first_id, guest.admin_password)
            (folder / MADE).touch()
            progress("starting the guest", None)
            self._launch(guest)

    @contextmanager
    def _all_or_nothing(self, guest: GuestSpec) -> Iterator[None]:
        """What cannot be had is refused before anything is made; what went wrong leaves nothing."""
        try:
            self._check(guest)
            with files("The guest could not be built"):
                yield
        except BaseException:
            self._destroy_unfinished(guest.instance_uuid)
            raise

    @staticmethod
    def _check(guest: GuestSpec) -> None:
        """Raises DriverError for what other hosts may have, BuildAborted for what none can make sense of."""
        flavor = guest.flavor
        wanted = (("volumes", guest.volumes), ("ephemeral disks", flavor.ephemeral_gb), ("swap", flavor.swap_mb))
        for what, is_wanted in wanted:
            if is_wanted:
                raise DriverError(f"Containers on this host have no {what}.")
        if not guest.image.image_id:
            raise DriverError("A container is built from an image; there is none.")
        if guest.image.disk_format not in ("raw", ""):
            raise DriverError(root_archives.NO_TAR.format(guest.image.image_id))
        for port in guest.ports:
            cards.words(port)
        bundle.init_of(guest)

    def _make_folder(self, guest: GuestSpec) -> Path:
        folder = self._places.folder_of(guest.instance_uuid)
        folder.mkdir(mode=0o700)
        return folder

    @contextmanager
    def _new_disk(self, guest: GuestSpec, progress: Progress) -> Iterator[Path]:
        """A disk with the image on it, not mounted; gone afterwards where it is not taken away."""
        disk = self._places.folder_of(guest.instance_uuid) / NEW_DISK
        place = self._places.mount_of(disk)
        try:
            with self._images.held(guest.image.image_id), files("The disk could not be made"):
                progress("fetching the image", 0.0)
                image = self._images.fetch(guest.image, lambda share: progress("fetching the image", share))
                disks.unmount(place)
                disk.unlink(missing_ok=True)  # of a call that was cut off
                disks.create(disk, size_of(guest.flavor), self._options.first_id)
                disks.mount(disk, place)
                first_id = self._options.first_id
                root_archives.unpack(guest.image, image, place, first_id, lambda: progress("unpacking", None))
                disks.unmount(place)
            yield disk
        finally:
            disks.unmount(place)
            disk.unlink(missing_ok=True)

    def _launch(self, guest: GuestSpec) -> None:
        """Start it from the disk that it has now, with the ports that it has now. It must be off."""
        uuid, folder = guest.instance_uuid, self._places.folder_of(guest.instance_uuid)
        self._runtime.end(uuid)
        try:
            bundle.write(folder, guest, self._mounted_parts(folder), self._options)
            self._runtime.create(uuid, folder, self._places.console_of(uuid))
            self._cards.plug(uuid, self._runtime.pid(uuid), guest.ports)
            self._runtime.start(uuid)
        except BaseException:
            self._end(uuid)
            raise

    def _mounted_parts(self, folder: Path) -> bundle.Parts:
        own, rescue = folder / DISK, folder / RESCUE_DISK
        used = [disk for disk in (own, rescue) if disk.exists()]
        for disk in used:
            disks.mount(disk, self._places.mount_of(disk))
        if rescue in used:
            return bundle.Parts(
                self._places.mount_of(rescue), folder / RESCUE_SEED, own_disk=self._places.mount_of(own)
            )
        return bundle.Parts(self._places.mount_of(own), folder / SEED)

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        try:
            self.destroy(instance_uuid)
        except Exception:  # what made the build fail is what counts; `guests` goes on to show what is left
            log.exception("unfinished guest stays: instance=%s", instance_uuid)


def size_of(flavor: FlavorSpec) -> int:
    return flavor.root_gb or SMALLEST_GB
