"""The host itself: what it offers, and how its guests come, go and are looked at."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compute_drivers.libvirt import console, disks, domain_xml, embedded, machine, user_network
from compute_drivers.libvirt.image_cache import ImageCache
from compute_drivers.libvirt.options import LibvirtOptions
from compute_drivers.libvirt.virt_type import KVM, choose_here
from compute_drivers.options import parse
from conductor.core import disk_images
from conductor.core.compute_driver import (
    ComputeDriver,
    GuestInfo,
    GuestSpec,
    Inventory,
    NodeReport,
    OpenImage,
    Progress,
)
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import ImageSpec
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.connection import Connection

log = logging.getLogger(__name__)

# A small emulated guest takes about its own memory again, for translated code and for QEMU itself.
EMULATED_RAM_RATIO = 0.5
BootParts = tuple[Path | None, Path | None]
TRAITS = frozenset({"COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW"})


class LibvirtHost(ComputeDriver):
    """Keeps `<state_dir>/{images,instances,consoles}`, and in `libvirt` the hypervisor's own folder."""

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self._options = parse(LibvirtOptions, options, self.name)
        self._virt_type = choose_here(self._options.virt_type).name
        self._state_dir = self._options.state_dir.absolute()
        self._instances_dir = self._state_dir / "instances"
        self._consoles_dir = self._state_dir / "consoles"
        self._root_dir = self._state_dir / "libvirt"
        self._images = ImageCache(self._state_dir / "images", open_image)
        self._opened: Connection | None = None

    def start(self) -> None:
        """Make the folders and open the hypervisor; guests of earlier processes are found."""
        try:
            self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self._instances_dir, self._consoles_dir):
                directory.mkdir(exist_ok=True)
            self._images.prepare()
        except OSError as error:
            raise DriverError(f"The folder of this host cannot be used: {error}") from error
        uri = self._options.uri or embedded.prepare(self._root_dir)
        connection = self._connect(uri)
        connection.open()
        self._opened = connection

    def stop(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def report(self) -> NodeReport:
        found, has = machine.look(self._state_dir), self._options
        vcpus, memory_mb = has.vcpus or found.vcpus, has.memory_mb or found.memory_mb
        disk_gb = has.disk_gb or found.disk_gb
        ram_ratio = has.ram_allocation_ratio or (1.0 if self._virt_type == KVM else EMULATED_RAM_RATIO)
        kinds = ("qemu", "kvm") if self._virt_type == KVM else ("qemu",)
        return NodeReport(
            node=self.host,
            hypervisor_type="QEMU",
            hypervisor_version=self._connection.version(),
            inventory={
                "VCPU": _inventory(vcpus, 0, has.cpu_allocation_ratio),
                "MEMORY_MB": _inventory(memory_mb, has.reserved_memory_mb, ram_ratio),
                "DISK_GB": _inventory(disk_gb, has.reserved_disk_gb, has.disk_allocation_ratio),
            },
            traits=TRAITS,
            supported_instances=tuple(("x86_64", kind, "hvm") for kind in kinds),
            cpu_info=found.cpu_info,
            capabilities={"virt_type": self._virt_type},
            disk_available_least_gb=found.free_disk_gb,
        )

    def guests(self) -> list[GuestInfo]:
        """Also what a killed process began to build, as NOSTATE: whoever manages this host can have it destroyed."""
        # Folders first: a guest that starts between the two looks is found as what it is.
        folders = [path.name for path in self._instances_dir.iterdir()]
        known = self._connection.guests()
        begun = set(folders) - {guest.instance_uuid for guest in known}
        unfinished = [GuestInfo(name, PowerState.NOSTATE) for name in begun if uuid_or_none(name)]
        return sorted([*known, *unfinished], key=lambda guest: guest.instance_uuid)

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        _require_uuid(guest.instance_uuid)
        if self._connection.is_running(guest.instance_uuid):
            return
        self.destroy(guest.instance_uuid)  # a domain that does not run is one whose building was cut off
        try:
            self._build(guest, progress)
        except BaseException:
            self._destroy_unfinished(guest.instance_uuid)
            raise

    def destroy(self, instance_uuid: str) -> None:
        _require_uuid(instance_uuid)
        self._connection.remove(instance_uuid)
        try:
            if (self._folder_of(instance_uuid)).exists():
                shutil.rmtree(self._folder_of(instance_uuid))
            self._console_of(instance_uuid).unlink(missing_ok=True)
            self._log_of(instance_uuid).unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"Files of the guest could not be removed: {error.strerror}.") from error

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        if uuid_or_none(instance_uuid) is None:
            return b""
        path = self._console_of(instance_uuid)
        console.trim(path)
        return console.read(path, offset)

    def _connect(self, uri: str) -> Connection:
        try:
            with embedded.own_log(self._root_dir) if not self._options.uri else nullcontext():
                # Loaded here: a machine without libvirt can still run the other drivers.
                from compute_drivers.libvirt.connection import Connection
        except ImportError as error:
            raise DriverError(f"The Python bindings of libvirt cannot be loaded: {error}") from error
        return Connection(uri)

    def _build(self, guest: GuestSpec, progress: Progress) -> None:
        """Files first, the domain last: what is defined can start."""
        user_network.arguments(guest.ports, guest.hostname)  # refused before anything is fetched
        boot = self._boot_parts(guest, progress)
        backing = self._backing(guest, progress)
        progress("making the disk", None)
        directory = self._folder_of(guest.instance_uuid)
        try:
            directory.mkdir(mode=0o700)
        except OSError as error:
            raise DriverError(f"The guest's folder could not be made: {error.strerror}.") from error
        disks.create_disks(directory, guest.flavor, backing)
        progress("starting the guest", None)
        self._connection.start(self._describe(guest, boot))

    def _describe(self, guest: GuestSpec, boot: BootParts) -> str:
        """The domain of a guest with the disks that it has now."""
        kernel, ramdisk = boot
        machine = domain_xml.Machine(
            virt_type=self._virt_type,
            disks=domain_xml.arranged(disks.own_disks(self._folder_of(guest.instance_uuid)), guest.volumes),
            console=self._console_of(guest.instance_uuid),
            kernel=kernel,
            ramdisk=ramdisk,
            qemu_arguments=user_network.arguments(guest.ports, guest.hostname),
        )
        return domain_xml.build(guest, machine)

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

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            raise DriverError("The hypervisor is not open.")
        return self._opened

    def _folder_of(self, instance_uuid: str) -> Path:
        return self._instances_dir / instance_uuid

    def _console_of(self, instance_uuid: str) -> Path:
        return self._consoles_dir / f"{instance_uuid}.log"

    def _log_of(self, instance_uuid: str) -> Path:
        return self._root_dir / "log" / "qemu" / f"{domain_xml.name_of(instance_uuid)}.log"


def _inventory(total: int, reserved: int, ratio: float) -> Inventory:
    return Inventory(total, reserved=min(reserved, total - 1), max_unit=total, allocation_ratio=ratio)


def _require_uuid(instance_uuid: str) -> None:
    """It becomes part of paths."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")
