"""State that all parts of the libvirt driver share: options, paths, connection, networks, images and accounts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compute_drivers import console_log, taps
from compute_drivers.host_paths import os_errors_as
from compute_drivers.image_cache import ImageCache
from compute_drivers.libvirt import disks, embedded, guest_socket, host_inventory
from compute_drivers.libvirt.accounts import ROOT, GuestAccounts
from compute_drivers.libvirt.capability import KVM, KVM_DEVICE, choose_virt_type_here
from compute_drivers.libvirt.guest_networks import GuestNetworks
from compute_drivers.libvirt.options import OVN, LibvirtOptions
from compute_drivers.libvirt.paths import OUTGOING, DiskOwner, LibvirtPaths, MigrationNotes
from conductor.core.compute_driver import GuestInfo, NodeReport, OpenImage
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.connection import Connection
    from compute_drivers.libvirt.guest import LibvirtGuest

CONSOLE_CONNECT_SECONDS = 5.0
ON = (PowerState.RUNNING, PowerState.PAUSED)
OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)


class LibvirtNode:
    """One host: a folder of this machine and an open hypervisor."""

    def __init__(self, host: str, options: LibvirtOptions, open_image: OpenImage) -> None:
        """Raises Invalid for options that contradict each other or this machine."""
        self.host = host
        self.options = options
        options.check()
        host_inventory.numa_cells(options.pinned_cpus)
        host_inventory.parse_pci_devices(options.pci_devices)
        self.virt_type = choose_virt_type_here(options.virt_type).name
        shared = options.shared_dir
        self.paths = LibvirtPaths(options.state_dir.absolute(), shared and shared.absolute(), host)
        self.migration_notes = MigrationNotes(self.paths)
        self.accounts = self._make_accounts()
        self.networks = GuestNetworks(host, self.paths, options, self._uid_of)
        self.images = ImageCache(
            self.paths.images_dir,
            open_image,
            most_bytes=options.image_cache_gb * disks.GB,
            keep_seconds=options.image_cache_seconds,
        )
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The open connection to libvirt. Raises DriverError before `start` and after `stop`."""
        if self._connection is None:
            raise DriverError("The hypervisor is not open.")
        return self._connection

    def start(self) -> None:
        """Make the folders and connect to the hypervisor. Guests of earlier processes are found again."""
        try:
            self.paths.prepare()
            self.images.prepare()
            disks.remove_unfinished(self.paths.own_folders())
        except OSError as error:
            raise DriverError(f"The folder of this host cannot be used: {error}") from error
        self.networks.check()  # first: a process can open the embedded hypervisor some fifteen times only
        uri = self.options.uri or embedded.prepare(self.paths.root_dir, has_accounts=self.accounts is not None)
        connection = self._connect(uri)
        connection.open()
        self._connection = connection
        if self.accounts is not None:
            self._prepare_accounts(self.accounts)
        self.networks.start()

    def stop(self) -> None:
        """Disconnect. Guests keep running."""
        self.networks.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def report(self) -> NodeReport:
        """Return what this host offers now, and drop cached images that no disk uses."""
        self.images.expire_if_due(partial(disks.backing_images, self.paths.instances_dir, self.paths.all_kept_dir))
        version = self.connection.version()
        return host_inventory.node_report(self.host, version, self.virt_type, self.paths.disks_dir, self.options)

    def list_guests(self) -> list[GuestInfo]:
        """Return every guest of this host; one whose build was interrupted is listed as NOSTATE, to be destroyed."""
        # Folders first: a guest that starts between the two listings is found with its real state.
        folders = [path.name for path in self.paths.own_folders()]
        known = self.connection.guests()
        unfinished = set(folders) - {guest.instance_uuid for guest in known}
        found = [*known, *(GuestInfo(uuid, PowerState.NOSTATE) for uuid in unfinished if uuid_or_none(uuid))]
        return sorted(found, key=lambda guest: guest.instance_uuid)

    # -- one guest

    @contextmanager
    def guest(self, instance_uuid: str, action: str) -> Iterator[LibvirtGuest]:
        """Yield the guest; `action` completes "The hypervisor could not …" in errors. Raises GuestMissing."""
        with self.connection.guest(instance_uuid, action) as guest:
            yield guest

    @contextmanager
    def running_guest(self, instance_uuid: str, action: str) -> Iterator[LibvirtGuest]:
        """Yield the guest. Raises DriverError for one that is neither running nor paused."""
        with self.guest(instance_uuid, action) as guest:
            state = guest.power_state()
            if state not in ON:
                raise wrong_power_state(state)
            yield guest

    def power_state(self, instance_uuid: str) -> PowerState:
        """Raises GuestMissing."""
        with self.guest(instance_uuid, "look at the guest") as guest:
            return guest.power_state()

    def force_off(self, instance_uuid: str) -> None:
        """End the guest at once; its definition and files stay."""
        with self.guest(instance_uuid, "end the guest") as guest:
            guest.force_off()

    def define_and_start(self, instance_uuid: str, domain_xml: str) -> None:
        """Redefine a guest that is off, and start it."""
        self.connection.define(domain_xml)
        with self.guest(instance_uuid, "start the guest") as guest:
            guest.start()

    def destroy(self, instance_uuid: str) -> None:
        """End the guest and remove its definition and files."""
        require_uuid(instance_uuid)
        self.connection.remove(instance_uuid)
        self.remove_files(instance_uuid)

    def remove_files(self, instance_uuid: str) -> None:
        """Remove the guest's network, files and account.

        After a live migration on shared storage the disks belong to the destination, so they are handed over first.
        """
        target = self.migration_notes.read(instance_uuid, OUTGOING)
        if target and not target.get("is_block_migration", True) and self.paths.has_folder(instance_uuid):
            self.paths.set_owner(instance_uuid, DiskOwner(str(target["host"])))
        self.networks.close(instance_uuid)
        self.paths.remove(instance_uuid)
        self.release_account(instance_uuid)

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        """Return statistics of a guest that is on."""
        with self.running_guest(instance_uuid, "look at the guest") as guest:
            counters = {nic["mac_address"].lower(): nic for nic in self.networks.counters(instance_uuid)}
            known = {mac: {"mac_address": mac, "addresses": found} for mac, found in guest.addresses().items()}
            nics = [{**known.get(mac, {}), **counters.get(mac, {})} for mac in {**counters, **known}]
            return {**guest.statistics(), "nics": nics}

    # -- consoles

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Return what the guest wrote to its serial console from byte `offset` on."""
        if uuid_or_none(instance_uuid) is None:
            return b""
        path = self.paths.console_of(instance_uuid)
        console_log.trim(path)
        return console_log.read(path, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Return a connection to the guest's screen or serial port. Raises GuestMissing, DriverError."""
        with self.guest(instance_uuid, "look at the guest"):
            sockets = self.paths.console_sockets(instance_uuid)
        return _connect_console(sockets.screen if kind == ConsoleKind.VNC else sockets.serial)

    # -- accounts of guests

    def release_account(self, instance_uuid: str) -> None:
        if self.accounts is not None:
            self.accounts.release(instance_uuid)

    def _make_accounts(self) -> GuestAccounts | None:
        """Return None where guests run under the account that the hypervisor chooses: only root can run others."""
        first_uid = self.options.guest_uid_base
        if not first_uid or self.options.uri or os.geteuid() != ROOT:
            return None
        return GuestAccounts(self.paths.accounts_dir, self.host, first_uid)

    def _prepare_accounts(self, accounts: GuestAccounts) -> None:
        """Give the accounts access to what all guests share. Raises DriverError."""
        known = {guest.instance_uuid for guest in self.connection.guests()}
        with os_errors_as("The accounts of guests could not be noted"):
            accounts.prepare()
            accounts.release_all_but(known | {path.name for path in self.paths.own_folders()})
        root = embedded.short_path(self.paths.root_dir)
        traversed = (root / name for name in embedded.TRAVERSED_FOLDERS)
        for folder in (*traversed, self.paths.instances_dir, self.paths.images_dir):
            accounts.allow_traversal(folder)
        devices = {KVM_DEVICE: self.virt_type == KVM, taps.TUN: self.options.guest_network == OVN}
        for device in (device for device, is_used in devices.items() if is_used):
            accounts.allow_device(device)

    def _uid_of(self, instance_uuid: str) -> int | None:
        return None if self.accounts is None else self.accounts.account_of(instance_uuid).uid

    def _connect(self, uri: str) -> Connection:
        try:
            with embedded.log_to_file(self.paths.root_dir) if not self.options.uri else nullcontext():
                # Imported here: a machine without libvirt can still run the other drivers.
                from compute_drivers.libvirt.connection import Connection
        except ImportError as error:
            raise DriverError(f"The Python bindings of libvirt cannot be loaded: {error}") from error
        return Connection(uri, self.host)


def require_uuid(instance_uuid: str) -> None:
    """Raises BuildAborted for anything but a uuid: it becomes part of paths."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")


def wrong_power_state(state: PowerState) -> DriverError:
    return DriverError(f"The guest cannot do that while it is {state.name.lower()}.")


def _connect_console(path: Path) -> socket.socket:
    """Connect to a console's socket. Raises DriverError when nothing listens on it."""
    # A guest with its own account owns the folder, so only a socket that belongs to that account is trusted.
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONSOLE_CONNECT_SECONDS)
        with guest_socket.opened(path) as address:
            connection.connect(address)
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        raise DriverError("The guest has no such console now: it is off, or was started without one.") from error
    return connection
