"""How a guest is made: its image fetched, its disks on it, and all of that described for the hypervisor."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compute_drivers.libvirt import config_drive, devices_xml, disks, domain_xml, user_network, wishes
from compute_drivers.libvirt.host import LibvirtHost, require_uuid
from conductor.core import disk_images
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted
from conductor.core.hardware.wire import grant_from_json
from conductor.core.request_spec import ImageSpec

log = logging.getLogger(__name__)

# What one host has written, the next one reads: nothing of it waits in the memory of this machine.
SEEN_BY_OTHERS = "none"
BootParts = tuple[Path | None, Path | None]


class LibvirtMaker(LibvirtHost):
    """Files first, the domain last: what is defined can start."""

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        require_uuid(guest.instance_uuid)
        if self._connection.is_running(guest.instance_uuid):
            return
        self.destroy(guest.instance_uuid)  # a domain that does not run is one whose building was cut off
        with self._all_or_nothing(guest):
            boot = self._boot_parts(guest, progress)
            backing = self._backing(guest, progress)
            progress("making the disk", None)
            directory = self._places.make_folder(guest.instance_uuid)
            disks.create_disks(directory, guest.flavor, backing)
            self._write_drive(directory / config_drive.NAME, guest, guest.admin_password)
            progress("starting the guest", None)
            self._connection.start(self._describe(guest, boot))

    @contextmanager
    def _all_or_nothing(self, guest: GuestSpec) -> Iterator[None]:
        """What cannot be had is refused before anything is fetched; what went wrong leaves nothing."""
        try:
            self._check(guest)
            with self._images.held(*image_ids(guest)):
                yield
        except BaseException:
            self._destroy_unfinished(guest.instance_uuid)
            raise

    def _check(self, guest: GuestSpec) -> wishes.Wished:
        """Raises BuildAborted, DriverError for a guest that this host cannot have."""
        wished = wishes.read(guest)
        wires = self._networks.planned
        user_network.arguments(guest.ports, guest.hostname, wished.card_model, wires, wished.machine)
        return wished

    def _describe(self, guest: GuestSpec, boot: BootParts) -> str:
        """The domain of a guest with the disks that it has now; its network is played from here on."""
        kernel, ramdisk = boot
        wished, folder = wishes.read(guest), self._places.folder_of(guest.instance_uuid)
        wires = self._play(guest)
        self._places.own_drive_of(guest.instance_uuid).unlink(missing_ok=True)  # the one in its folder is as good
        drives = (folder / name for name in (config_drive.RESCUE_NAME, config_drive.NAME))
        machine = domain_xml.Machine(
            host=self.host,
            virt_type=self._virt_type,
            wished=wished,
            disks=devices_xml.arranged(
                disks.own_disks(folder),
                guest.volumes,
                bus=wished.disk_bus,
                limits=wished.limits,
                cache=SEEN_BY_OTHERS if self._options.shared_dir else "",
            ),
            lines=self._places.lines_of(guest.instance_uuid),
            grant=grant_from_json(guest.hardware),
            config_drive=next((path for path in drives if path.exists()), None),
            kernel=kernel,
            ramdisk=ramdisk,
            qemu_arguments=user_network.arguments(
                guest.ports, guest.hostname, wished.card_model, wires, wished.machine
            ),
        )
        return domain_xml.build(guest, machine)

    def _write_drive(self, path: Path, guest: GuestSpec, password: str) -> None:
        config_drive.write(path, guest, password, self._options.vendor_data)

    def _play(self, guest: GuestSpec) -> user_network.WiresOf | None:
        if not self._plays_networks:
            self._networks.drop(guest.instance_uuid)
            return None
        self._networks.tell(guest)
        return self._networks.played(guest.instance_uuid)

    def _boot_parts(self, guest: GuestSpec, progress: Progress) -> BootParts:
        """Kernel and ramdisk, where the image has them apart."""
        kernel = self._fetch(guest.kernel, "kernel", progress) if guest.kernel else None
        ramdisk = self._fetch(guest.ramdisk, "ramdisk", progress) if guest.ramdisk else None
        return kernel, ramdisk

    def _backing(self, guest: GuestSpec, progress: Progress) -> disk_images.Backing | None:
        """The image below the root disk; None for a guest that boots from a kernel or a volume alone."""
        if guest.image.image_id and (guest.image.size or not guest.kernel):
            return disk_images.inspect(self._fetch(guest.image, "image", progress), guest.image)
        if guest.kernel is None and not any(volume.boot_index == 0 for volume in guest.volumes):
            raise BuildAborted("There is nothing to start the guest from: neither an image nor a kernel.")
        return None

    def _fetch(self, image: ImageSpec, what: str, progress: Progress) -> Path:
        progress(f"fetching the {what}", 0.0)
        return self._images.fetch(image, lambda share: progress(f"fetching the {what}", share))

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        try:
            self.destroy(instance_uuid)
        except Exception:  # what made the build fail is what counts; `guests` goes on to show what is left
            log.exception("unfinished guest stays: instance=%s", instance_uuid)


def image_ids(guest: GuestSpec) -> list[str]:
    """The images that it is made of."""
    return [image.image_id for image in (guest.image, guest.kernel, guest.ramdisk) if image and image.image_id]
