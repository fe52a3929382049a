"""The host itself: what it offers, which guests it has, and how they go and are looked at."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from compute_drivers import console_log
from compute_drivers.image_cache import ImageCache
from compute_drivers.libvirt import console, disks, embedded, numa, offer, pci
from compute_drivers.libvirt.guest_networks import GuestNetworks
from compute_drivers.libvirt.options import AGENT, BRIDGE, LibvirtOptions
from compute_drivers.libvirt.places import Places
from compute_drivers.libvirt.virt_type import choose_here
from compute_drivers.options import parse
from conductor.core.compute_driver import ComputeDriver, GuestInfo, NodeReport, OpenImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.identifiers import uuid_or_none
from conductor.core.port_filters import PORT_FILTERS, PortFilter, fingerprint
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.connection import Connection


# QEMU learned in this version to speak of datagrams between two paths.
FIRST_WITH_DATAGRAMS = 7_002_000


class LibvirtHost(ComputeDriver):
    """A folder of this machine and an open hypervisor; `places.py` says what is where."""

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self._options = parse(LibvirtOptions, options, self.name)
        numa.cells(self._options.pinned_cpus)  # what cannot be is refused before anything starts
        pci.wanted(self._options.pci_devices)
        self._virt_type = choose_here(self._options.virt_type).name
        shared = self._options.shared_dir
        self._places = Places(self._options.state_dir.absolute(), shared and shared.absolute(), host)
        self._networks = GuestNetworks(self._places, self._options.vendor_data, self._options.guest_network)
        self._images = ImageCache(
            self._places.images_dir,
            open_image,
            most_bytes=self._options.image_cache_gb * disks.GB,
            keep_seconds=self._options.image_cache_seconds,
        )
        self._opened: Connection | None = None

    def start(self) -> None:
        """Make the folders and open the hypervisor; guests of earlier processes are found."""
        try:
            self._places.prepare()
            self._images.prepare()
            disks.drop_unfinished(self._places.own_folders())
        except OSError as error:
            raise DriverError(f"The folder of this host cannot be used: {error}") from error
        uri = self._options.uri or embedded.prepare(self._places.root_dir)
        connection = self._connect(uri)
        connection.open()
        self._opened = connection
        if self._options.guest_network == AGENT and connection.version() < FIRST_WITH_DATAGRAMS:
            raise DriverError("Option libvirt.guest_network: agent needs QEMU 7.2 or later.")
        self._networks.start()

    def stop(self) -> None:
        self._networks.stop()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def watch(self, changed: Callable[[], None]) -> None:
        self._connection.watch(changed)

    def report(self) -> NodeReport:
        self._images.expire_sometimes(
            partial(disks.images_below, self._places.instances_dir, self._places.all_kept_dir)
        )
        version = self._connection.version()
        found = offer.node_report(self.host, version, self._virt_type, self._places.disks_dir, self._options)
        if not self.filters_ports:
            return found
        told = {PORT_FILTERS: fingerprint(self._networks.filters)}
        return replace(found, capabilities={**found.capabilities, **told})

    def filter_ports(self, filters: Mapping[str, PortFilter]) -> None:
        self._networks.filter(filters)

    def guests(self) -> list[GuestInfo]:
        """Also what a killed process began to build, as NOSTATE: whoever manages this host can have it destroyed."""
        # Folders first: a guest that starts between the two looks is found as what it is.
        folders = [path.name for path in self._places.own_folders()]
        known = self._connection.guests()
        begun = set(folders) - {guest.instance_uuid for guest in known}
        unfinished = [GuestInfo(name, PowerState.NOSTATE) for name in begun if uuid_or_none(name)]
        return sorted([*known, *unfinished], key=lambda guest: guest.instance_uuid)

    def destroy(self, instance_uuid: str) -> None:
        require_uuid(instance_uuid)
        self._connection.remove(instance_uuid)
        self._remove_files(instance_uuid)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        if uuid_or_none(instance_uuid) is None:
            return b""
        path = self._places.console_of(instance_uuid)
        console_log.trim(path)
        return console_log.read(path, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        with self._connection.guest(instance_uuid, "look at the guest"):
            lines = self._places.lines_of(instance_uuid)
        return console.join(lines.screen if kind == ConsoleKind.VNC else lines.serial)

    def _remove_files(self, instance_uuid: str) -> None:
        self._networks.close(instance_uuid)
        self._places.remove(instance_uuid)

    @property
    def _plays_networks(self) -> bool:
        """Whether somebody else than QEMU does."""
        return self._options.guest_network in (AGENT, BRIDGE)

    def _connect(self, uri: str) -> Connection:
        try:
            with embedded.own_log(self._places.root_dir) if not self._options.uri else nullcontext():
                # Loaded here: a machine without libvirt can still run the other drivers.
                from compute_drivers.libvirt.connection import Connection
        except ImportError as error:
            raise DriverError(f"The Python bindings of libvirt cannot be loaded: {error}") from error
        return Connection(uri, self.host)

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            raise DriverError("The hypervisor is not open.")
        return self._opened


def require_uuid(instance_uuid: str) -> None:
    """It becomes part of paths."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")
