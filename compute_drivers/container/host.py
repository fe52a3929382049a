"""The host itself: what it offers, which guests it has, and how they go and are looked at."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from typing import Any

from compute_drivers import console_log, programs
from compute_drivers.container import cgroups, disks, terminal
from compute_drivers.container.cards import Cards
from compute_drivers.container.options import ContainerOptions
from compute_drivers.container.places import MADE, NEW_DISK, SNAPSHOT, Places
from compute_drivers.container.runtime import Runtime
from compute_drivers.host_places import files
from compute_drivers.image_cache import ImageCache
from compute_drivers.options import parse
from conductor.core.compute_driver import ComputeDriver, GuestInfo, Inventory, NodeReport, OpenImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import BuildAborted, DriverError, GuestMissing
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

TRAITS = frozenset(
    {"COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_NET_ATTACH_INTERFACE", "COMPUTE_SAME_HOST_COLD_MIGRATE"}
)
MB = 1 << 20


class ContainerHost(ComputeDriver):
    """A folder of this machine and a runtime; `places.py` says what is where."""

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self._options = parse(ContainerOptions, options, self.name)
        has = self._options
        self._places = Places(has.state_dir.absolute(), has.run_dir.absolute(), has.first_id)
        self._runtime = Runtime(has.runtime, self._places.runtime_dir)
        self._cards = Cards(self._places.key)
        self._images = ImageCache(
            self._places.images_dir,
            open_image,
            most_bytes=has.image_cache_gb * disks.GB,
            keep_seconds=has.image_cache_seconds,
        )
        self._version = 0

    def start(self) -> None:
        """Guests of earlier processes are found; what one that was killed left half-done goes."""
        if os.geteuid() != 0:
            raise DriverError("Containers need an agent that root runs: it mounts disks and makes namespaces.")
        missing = {package for program, package in programs.PACKAGES.items() if not shutil.which(program)}
        if self._options.runtime != "runc":
            missing.discard("runc")
        if missing:
            raise DriverError(f"Not installed on this host: {', '.join(sorted(missing))}.")
        unbounded = cgroups.missing()
        if unbounded:
            text = f"Without the cgroup controllers {', '.join(unbounded)} containers would be bounded by nothing."
            raise DriverError(f"{text} This machine does not have them, or hands them to nobody.")
        major, minor, patch = self._runtime.check()
        self._version = (major * 1000 + minor) * 1000 + patch
        with files("The folders of this host cannot be used"):
            self._places.prepare()
            self._images.prepare()
        self._cards.prepare()
        for folder in self._places.instances_dir.iterdir():
            disks.unmount(self._places.mount_of(folder / NEW_DISK))
            for name in (NEW_DISK, SNAPSHOT):
                (folder / name).unlink(missing_ok=True)

    def report(self) -> NodeReport:
        self._images.expire_sometimes(frozenset)
        self._runtime.check()  # a host whose runtime is dead has nothing to offer
        return NodeReport(
            node=self.host,
            hypervisor_type="lxc",
            hypervisor_version=self._version,
            inventory=self._inventory(),
            traits=TRAITS,
            supported_instances=((platform.machine(), "lxc", "exe"),),
            cpu_info={"arch": platform.machine(), "topology": {"cores": len(os.sched_getaffinity(0))}},
            capabilities={"runtime": self._options.runtime, "cgroups": cgroups.version_of()},
            disk_available_least_gb=shutil.disk_usage(self._places.state_dir).free // disks.GB,
        )

    def guests(self) -> list[GuestInfo]:
        """Also what a killed process began to build, as NOSTATE: whoever manages this host can have it destroyed."""
        with files("The guests of this host cannot be listed"):
            folders = sorted(path for path in self._places.instances_dir.iterdir() if uuid_or_none(path.name))
        states = self._runtime.states()
        return [GuestInfo(folder.name, states.get(folder.name) or _at_rest(folder / MADE)) for folder in folders]

    def destroy(self, instance_uuid: str) -> None:
        require_uuid(instance_uuid)
        self._end(instance_uuid)
        self._places.remove(instance_uuid)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        if uuid_or_none(instance_uuid) is None:
            return b""
        path = self._places.console_of(instance_uuid)
        console_log.trim(path)
        return console_log.read(path, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        if kind != ConsoleKind.SERIAL:
            raise DriverError("A container has no screen.")
        if self._state(instance_uuid) is not PowerState.RUNNING:
            raise DriverError("The guest does not run: it has no console.")
        return terminal.connect(self._runtime, instance_uuid, self._places.own_run_dir)

    def _state(self, instance_uuid: str) -> PowerState:
        """Raises GuestMissing."""
        folder = self._places.folder_of(instance_uuid)
        if uuid_or_none(instance_uuid) is None or not folder.exists():
            raise GuestMissing()
        return self._runtime.state(instance_uuid) or _at_rest(folder / MADE)

    def _end(self, instance_uuid: str) -> None:
        """Whatever it does, it is off, and its disks are let go."""
        self._runtime.end(instance_uuid)
        for place in self._places.mounts_of(instance_uuid):
            disks.unmount(place)

    def _inventory(self) -> dict[str, Inventory]:
        has = self._options
        vcpus = has.vcpus or len(os.sched_getaffinity(0))
        memory_mb = has.memory_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MB
        disk_gb = has.disk_gb or max(shutil.disk_usage(self._places.state_dir).total // disks.GB, 1)
        return {
            "VCPU": _amount(vcpus, 0, has.cpu_allocation_ratio),
            "MEMORY_MB": _amount(memory_mb, has.reserved_memory_mb, has.ram_allocation_ratio),
            "DISK_GB": _amount(disk_gb, has.reserved_disk_gb, has.disk_allocation_ratio),
        }


def require_uuid(instance_uuid: str) -> None:
    """It becomes part of paths."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")


def _at_rest(made: os.PathLike[str]) -> PowerState:
    """Of a guest that the runtime does not have."""
    return PowerState.SHUTDOWN if os.path.exists(made) else PowerState.NOSTATE


def _amount(total: int, reserved: int, ratio: float) -> Inventory:
    return Inventory(total, reserved=min(reserved, total - 1), max_unit=total, allocation_ratio=ratio)
