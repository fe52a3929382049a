"""State that all parts of the container driver share: options, paths, OCI runtime, network cards and images."""

from __future__ import annotations

import os
import platform
import shutil
import socket

from compute_drivers import console_log, programs
from compute_drivers.container import disks, terminal
from compute_drivers.container.network_cards import NetworkCards, far_ends_of
from compute_drivers.container.options import OVN, ContainerOptions
from compute_drivers.container.paths import BUILT_MARK, NEW_DISK, SNAPSHOT, ContainerPaths
from compute_drivers.container.runtime import Runtime, cgroup_version, missing_cgroup_controllers
from compute_drivers.host_paths import os_errors_as
from compute_drivers.image_cache import ImageCache
from conductor.core.compute_driver import GuestInfo, Inventory, NetworkPort, NodeReport, OpenImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import BuildAborted, DriverError, GuestMissing
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

TRAITS = frozenset(
    {"COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_NET_ATTACH_INTERFACE", "COMPUTE_SAME_HOST_COLD_MIGRATE"}
)
MB = 1 << 20
PROGRAMS = ("ip", "nsenter", "mount", "umount", "mke2fs", "e2fsck", "resize2fs", "tar", "cp", "sync")
ON = (PowerState.RUNNING, PowerState.PAUSED)


class ContainerNode:
    """One host: a folder of this machine and an OCI runtime."""

    def __init__(self, host: str, options: ContainerOptions, open_image: OpenImage) -> None:
        self.host = host
        self.options = options
        self.paths = ContainerPaths(options.state_dir.absolute(), options.run_dir.absolute(), options.first_id)
        self.runtime = Runtime(options.runtime, self.paths.runtime_dir)
        self.network_cards = NetworkCards(far_ends_of(host, self.paths, options))
        self.images = ImageCache(
            self.paths.images_dir,
            open_image,
            most_bytes=options.image_cache_gb * disks.GB,
            keep_seconds=options.image_cache_seconds,
        )
        self._version = 0

    def start(self) -> None:
        """Check that the machine can run containers, make the folders, and remove what killed processes left."""
        self._check_machine()
        major, minor, patch = self.runtime.version()
        self._version = (major * 1000 + minor) * 1000 + patch
        with os_errors_as("The folders of this host cannot be used"):
            self.paths.prepare()
            self.images.prepare()
        self.network_cards.prepare()
        for folder in self.paths.instances_dir.iterdir():
            disks.unmount(self.paths.mount_of(folder / NEW_DISK))
            for name in (NEW_DISK, SNAPSHOT):
                (folder / name).unlink(missing_ok=True)

    def _check_machine(self) -> None:
        """Raises DriverError, naming what is missing."""
        if os.geteuid() != 0:
            raise DriverError("Containers need an agent that root runs: it mounts disks and makes namespaces.")
        options = self.options
        required = {*PROGRAMS, *(("runc",) if options.runtime == "runc" else ())}
        required |= {"ethtool", "ovs-vsctl"} if options.guest_network == OVN else set()
        missing = {programs.PACKAGES[program] for program in required if not shutil.which(program)}
        if missing:
            raise DriverError(f"Not installed on this host: {', '.join(sorted(missing))}.")
        controllers = missing_cgroup_controllers()
        if controllers:
            text = f"Without the cgroup controllers {', '.join(controllers)} containers would be bounded by nothing."
            raise DriverError(f"{text} This machine does not have them, or does not delegate them.")

    def report(self) -> NodeReport:
        """Return what this host offers now. Raises DriverError when the runtime does not work."""
        self.images.expire_if_due(frozenset)
        self.runtime.version()
        options = self.options
        return NodeReport(
            node=self.host,
            hypervisor_type="lxc",
            hypervisor_version=self._version,
            inventory=self._inventory(),
            traits=TRAITS,
            supported_instances=((platform.machine(), "lxc", "exe"),),
            cpu_info={"arch": platform.machine(), "topology": {"cores": len(os.sched_getaffinity(0))}},
            capabilities={
                "runtime": options.runtime,
                "cgroups": cgroup_version(),
                "guest_network": options.guest_network,
            },
            disk_available_least_gb=shutil.disk_usage(self.paths.state_dir).free // disks.GB,
        )

    def _inventory(self) -> dict[str, Inventory]:
        options = self.options
        vcpus = options.vcpus or len(os.sched_getaffinity(0))
        memory_mb = options.memory_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MB
        disk_gb = options.disk_gb or max(shutil.disk_usage(self.paths.state_dir).total // disks.GB, 1)
        return {
            "VCPU": _inventory(vcpus, 0, options.cpu_allocation_ratio),
            "MEMORY_MB": _inventory(memory_mb, options.reserved_memory_mb, options.ram_allocation_ratio),
            "DISK_GB": _inventory(disk_gb, options.reserved_disk_gb, options.disk_allocation_ratio),
        }

    def list_guests(self) -> list[GuestInfo]:
        """Return every guest of this host; one whose build was interrupted is listed as NOSTATE, to be destroyed."""
        with os_errors_as("The guests of this host cannot be listed"):
            folders = sorted(path for path in self.paths.instances_dir.iterdir() if uuid_or_none(path.name))
        states = self.runtime.states()
        return [
            GuestInfo(folder.name, states.get(folder.name) or _state_when_off(folder / BUILT_MARK))
            for folder in folders
        ]

    # -- one guest

    def power_state(self, instance_uuid: str) -> PowerState:
        """Raises GuestMissing."""
        folder = self.paths.folder_of(instance_uuid)
        if uuid_or_none(instance_uuid) is None or not folder.exists():
            raise GuestMissing()
        return self.runtime.state(instance_uuid) or _state_when_off(folder / BUILT_MARK)

    def force_off(self, instance_uuid: str) -> None:
        """End the container in whatever state it is, unplug its ports, and unmount its disks."""
        self.end(instance_uuid)
        for mount_point in self.paths.mounts_of(instance_uuid):
            disks.unmount(mount_point)

    def end(self, instance_uuid: str) -> None:
        """End the container, and unplug its ports."""
        self.runtime.end(instance_uuid)
        self.network_cards.close(instance_uuid)

    def destroy(self, instance_uuid: str) -> None:
        """End the guest and remove its files."""
        require_uuid(instance_uuid)
        self.force_off(instance_uuid)
        self.paths.remove(instance_uuid)

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        """Set root's password by `chpasswd` inside the container. Raises DriverError."""
        if self.power_state(instance_uuid) is not PowerState.RUNNING:
            raise DriverError("The guest does not run.")
        if not password.isprintable():
            raise DriverError("adminPass: containers take passwords of one line, without control characters.")
        done = self.runtime.run_inside(instance_uuid, "chpasswd", given=f"root:{password}\n".encode())
        if done.returncode:  # its output may contain the password
            raise DriverError("The guest did not take the password: it has no program chpasswd, or one that failed.")

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        """Plug a port. A guest that is off gets it at its next start."""
        if self.power_state(instance_uuid) in ON:
            self.network_cards.plug(instance_uuid, self.runtime.pid(instance_uuid), [port])

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        if self.power_state(instance_uuid) in ON:
            self.network_cards.unplug(instance_uuid, port_uuid)

    # -- consoles

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Return what the guest wrote to its console from byte `offset` on."""
        if uuid_or_none(instance_uuid) is None:
            return b""
        path = self.paths.console_of(instance_uuid)
        console_log.trim(path)
        return console_log.read(path, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Return a connection to a new shell in the container. Raises GuestMissing, DriverError."""
        if kind != ConsoleKind.SERIAL:
            raise DriverError("A container has no screen.")
        if self.power_state(instance_uuid) is not PowerState.RUNNING:
            raise DriverError("The guest does not run: it has no console.")
        return terminal.open_shell(self.runtime, instance_uuid, self.paths.own_run_dir)


def require_uuid(instance_uuid: str) -> None:
    """Raises BuildAborted for anything but a uuid: it becomes part of paths."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")


def _state_when_off(built_mark: os.PathLike[str]) -> PowerState:
    """Return the state of a guest without a container."""
    return PowerState.SHUTDOWN if os.path.exists(built_mark) else PowerState.NOSTATE


def _inventory(total: int, reserved: int, ratio: float) -> Inventory:
    return Inventory(total, reserved=min(reserved, total - 1), max_unit=total, allocation_ratio=ratio)
