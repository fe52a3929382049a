"""Builds guests: fetches images, creates disks and describes the machine for the hypervisor."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from compute_drivers import config_drive
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt import accounts, devices_xml, disks, domain_xml, machine_spec, qemu_network
from compute_drivers.libvirt.accounts import Account
from compute_drivers.libvirt.node import LibvirtNode, require_uuid
from conductor.core import disk_images
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted
from conductor.core.hardware.wire import grant_from_json
from conductor.core.request_spec import ImageSpec

log = logging.getLogger(__name__)

# Disks that several hosts see are written without the page cache, so that the next host reads what this one wrote.
SHARED_DISK_CACHE = "none"
# Kernel and ramdisk, where the image has them apart.
BootFiles = tuple[Path | None, Path | None]


class GuestBuilder:
    """Creates the files of a guest first and its domain last, so that whatever is defined can also start."""

    def __init__(self, node: LibvirtNode) -> None:
        self._node = node

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest and start it; does nothing when it already runs."""
        node = self._node
        require_uuid(guest.instance_uuid)
        if node.connection.is_running(guest.instance_uuid):
            return
        node.destroy(guest.instance_uuid)  # a domain that does not run is left over from an interrupted build
        with self.all_or_nothing(guest):
            boot = self.boot_files(guest, progress)
            backing = self.backing_image(guest, progress)
            progress("making the disk", None)
            directory = node.paths.make_folder(guest.instance_uuid)
            disks.create_disks(directory, guest.flavor, backing)
            self.write_config_drive(directory / config_drive.NAME, guest, guest.admin_password)
            progress("starting the guest", None)
            node.connection.start(self.domain_xml(guest, boot))

    @contextmanager
    def all_or_nothing(self, guest: GuestSpec) -> Iterator[None]:
        """Refuse an impossible guest before anything is fetched, keep its images, and remove it on failure."""
        try:
            self.check(guest)
            with self._node.images.pinned(*image_ids(guest)):
                yield
        except BaseException:
            self._destroy_unfinished(guest.instance_uuid)
            raise

    def check(self, guest: GuestSpec) -> machine_spec.MachineSpec:
        """Return the machine that the guest needs. Raises BuildAborted, DriverError where this host cannot have it."""
        spec = machine_spec.from_guest(guest)
        backends = self._node.networks.planned_backend
        qemu_network.arguments(guest.ports, guest.hostname, spec.nic_model, backends, spec.machine)
        return spec

    def domain_xml(self, guest: GuestSpec, boot: BootFiles) -> str:
        """Return the domain of a guest with its present disks, after starting to serve its network."""
        node, uuid = self._node, guest.instance_uuid
        spec, folder = machine_spec.from_guest(guest), node.paths.folder_of(uuid)
        account = self._prepare_account(guest)
        kernel, ramdisk = self._copy_boot_files(uuid, *boot)
        node.networks.configure(guest)
        node.paths.local_config_drive(uuid).unlink(missing_ok=True)  # replaced by the one in the guest's folder
        drives = (folder / name for name in (config_drive.RESCUE_NAME, config_drive.NAME))
        all_disks = devices_xml.arrange_disks(
            disks.own_disks(folder),
            guest.volumes,
            bus=spec.disk_bus,
            limits=spec.limits,
            cache=SHARED_DISK_CACHE if node.options.shared_dir else "",
        )
        config = domain_xml.DomainConfig(
            host=node.host,
            virt_type=node.virt_type,
            spec=spec,
            disks=all_disks if account is None else [replace(disk, chain=self._chain_of(disk)) for disk in all_disks],
            account=account,
            consoles=node.paths.console_sockets(uuid),
            grant=grant_from_json(guest.hardware),
            config_drive=next((path for path in drives if path.exists()), None),
            kernel=kernel,
            ramdisk=ramdisk,
            qemu_arguments=qemu_network.arguments(
                guest.ports, guest.hostname, spec.nic_model, node.networks.backends(uuid), spec.machine
            ),
        )
        return domain_xml.build(guest, config)

    def boot_files(self, guest: GuestSpec, progress: Progress) -> BootFiles:
        """Fetch kernel and ramdisk, where the image has them apart."""
        kernel = self._fetch(guest.kernel, "kernel", progress) if guest.kernel else None
        ramdisk = self._fetch(guest.ramdisk, "ramdisk", progress) if guest.ramdisk else None
        return kernel, ramdisk

    def backing_image(self, guest: GuestSpec, progress: Progress) -> disk_images.Backing | None:
        """Return the image below the root disk; None for a guest that boots from a kernel or a volume alone.

        Raises BuildAborted when there is nothing to boot from.
        """
        if has_root_image(guest):
            return disk_images.inspect(self._fetch(guest.image, "image", progress), guest.image)
        if guest.kernel is None and not any(volume.boot_index == 0 for volume in guest.volumes):
            raise BuildAborted("There is nothing to start the guest from: neither an image nor a kernel.")
        return None

    def backing_image_if_any(self, guest: GuestSpec, progress: Progress) -> disk_images.Backing | None:
        """Return the backing image. None if the image is gone; the disk is then copied whole."""
        try:
            return self.backing_image(guest, progress)
        except BuildAborted:
            return None

    def write_config_drive(self, path: Path, guest: GuestSpec, password: str) -> None:
        """Write the guest's metadata as a config drive. Raises BuildAborted, DriverError."""
        config_drive.write(path, guest, password, self._node.options.vendor_data)

    def _prepare_account(self, guest: GuestSpec) -> Account | None:
        """Open the guest's folders and volumes to its account; None where guests have no accounts."""
        node, uuid = self._node, guest.instance_uuid
        if node.accounts is None:
            return None
        node.accounts.allow_only(node.paths.folder_of(uuid), uuid)
        node.accounts.make_owned_folder(node.paths.socket_prefix(uuid), uuid)
        node.accounts.grant_volumes(uuid, accounts.volume_permissions(guest.volumes))
        return node.accounts.account_of(uuid)

    def _copy_boot_files(self, instance_uuid: str, kernel: Path | None, ramdisk: Path | None) -> BootFiles:
        """Copy kernel and ramdisk for a guest with an account: libvirt changes their owner at each start."""
        node = self._node
        if node.accounts is None:
            return kernel, ramdisk
        folder, copies = node.paths.folder_of(instance_uuid), []
        with os_errors_as("The guest's kernel could not be copied"):
            for source, name in ((kernel, "kernel"), (ramdisk, "ramdisk")):
                copy = folder / name
                copy.unlink(missing_ok=True)
                if source is not None:
                    shutil.copyfile(source, copy)
                copies.append(copy if source is not None else None)
        return copies[0], copies[1]

    def _chain_of(self, disk: devices_xml.Disk) -> devices_xml.BackingChain:
        """Return the backing chain of an account's disk, after opening that to all guests for reading."""
        if disk.alias:
            return devices_xml.BackingChain(is_volume=True)
        backing = disks.backing_of(disk.path)
        if backing is not None and self._node.accounts is not None:
            self._node.accounts.allow_reading(backing.path)
        return devices_xml.BackingChain(backing)

    def _fetch(self, image: ImageSpec, what: str, progress: Progress) -> Path:
        progress(f"fetching the {what}", 0.0)
        return self._node.images.fetch(image, lambda share: progress(f"fetching the {what}", share))

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        try:
            self._node.destroy(instance_uuid)
        except Exception:  # the build's own error is raised; `guests` keeps listing what is left
            log.exception("unfinished guest could not be removed: instance=%s", instance_uuid)


def has_root_image(guest: GuestSpec) -> bool:
    """Return whether the guest's root disk begins as its image; beside a kernel, an image may be empty."""
    return bool(guest.image.image_id and (guest.image.size or not guest.kernel))


def image_ids(guest: GuestSpec) -> list[str]:
    """Return the ids of the images that a guest is built from."""
    return [image.image_id for image in (guest.image, guest.kernel, guest.ramdisk) if image and image.image_id]


def no_progress(message: str, share: float | None = None, figures: object = None, /) -> None:
    """Discard progress: a short operation reports none."""
