"""Networks of guests that the agent, the host's kernel or OVN serves, and the notes that describe them."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compute_drivers.host_net.dhcp import Client
from compute_drivers.host_net.host_net import HostNet
from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt.options import BRIDGE, OVN, LibvirtOptions
from compute_drivers.libvirt.paths import LibvirtPaths
from compute_drivers.libvirt.qemu_network import BackendOf, Tap
from compute_drivers.metadata_files import metadata_files
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.ovn_net.integration_bridge import IntegrationBridge
from compute_drivers.ovn_net.ovn_net import OvnNet
from compute_drivers.user_net.segment import GuestSegment
from compute_drivers.user_net.wires import WirePaths, Wires
from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.errors import DriverError
from conductor.core.port_filters import PortFilter

log = logging.getLogger(__name__)

NETWORK_NOTE, POSTED_PASSWORD = "network.json", "posted-password"
NetworkNote = dict[str, Any]


class GuestNetworks:
    """Serves the networks of one host's guests.

    A note beside the guest's disks holds its ports and metadata, so that the next process or host can continue. The
    note names the backend ("player"): this process by sockets, or the kernel or OVN by taps. A changed option
    `guest_network` applies to a guest from its next start on.
    """

    def __init__(
        self, host: str, paths: LibvirtPaths, options: LibvirtOptions, uid_of: Callable[[str], int | None]
    ) -> None:
        self._paths = paths
        self._vendor_data = options.vendor_data
        self._backend = options.guest_network
        self._wires = Wires()
        self._kernel = HostNet(paths.networks_dir, uid_of)
        bridge = IntegrationBridge(host, options.ovs_run_dir, options.ovn_run_dir)
        ovn = OvnNet(paths.networks_dir, bridge, options.plug_seconds, uid_of)
        self._by_taps: Mapping[str, HostNet | OvnNet] = {BRIDGE: self._kernel, OVN: ovn}

    def check(self) -> None:
        """Raises DriverError where this machine lacks what the option `guest_network` needs."""
        self._require(self._backend)

    def start(self) -> None:
        """Serve the networks of guests that run. Raises DriverError where this machine lacks what they need."""
        own = {folder.name for folder in self._paths.own_folders()}
        on_taps: dict[str, list[tuple[str, Client]]] = {backend: [] for backend in self._by_taps}
        for uuid in sorted(own | self._paths.migrating_guests()):
            try:
                note = self._read(uuid)
                if (player := str(note.get("player"))) in on_taps:
                    on_taps[player] += [(uuid, client) for client in self._clients(uuid, note)]
                elif uuid in own:
                    self._open_all(uuid, note)
            except (OSError, ValueError, KeyError, TypeError, DriverError):
                log.exception("network of a guest cannot be served: instance=%s", uuid)
        was_used = {BRIDGE: self._paths.networks_dir.exists()}
        for backend, net in self._by_taps.items():
            if backend == self._backend or on_taps[backend] or was_used.get(backend):
                self._require(backend)
                net.start(on_taps[backend])

    def stop(self) -> None:
        self._wires.stop()
        for net in self._by_taps.values():
            net.stop()

    # -- guests and ports

    def configure(self, guest: GuestSpec) -> None:
        """Serve the guest's present ports and metadata. Raises BuildAborted, DriverError."""
        files = metadata_files(guest, guest.admin_password, self._vendor_data)
        note: NetworkNote = {
            "player": self._backend,
            "hostname": guest.hostname,
            "files": {path: base64.b64encode(data).decode() for path, data in files.items()},
            "ports": [asdict(port) for port in guest.ports if port.ip_address],
        }
        self._write(guest.instance_uuid, note)
        self.reopen(guest.instance_uuid)

    def reopen(self, instance_uuid: str) -> None:
        """Serve the ports in the guest's note anew. Raises DriverError."""
        self.close(instance_uuid)
        self._open(instance_uuid)

    def plug(self, instance_uuid: str, port: NetworkPort) -> None:
        """Serve one more port. Raises DriverError."""
        note = self._read(instance_uuid) or {"player": self._backend}
        others = [one for one in note.get("ports", ()) if one["port_uuid"] != port.port_uuid]
        self._write(instance_uuid, {**note, "ports": [*others, asdict(port)]})
        self._open(instance_uuid)

    def unplug(self, instance_uuid: str, port_uuid: str) -> None:
        """Stop serving a port, if it is served here. Raises DriverError."""
        note = self._read(instance_uuid)
        others = [one for one in note.get("ports", ()) if one["port_uuid"] != port_uuid]
        if len(others) < len(note.get("ports", ())):
            self._write(instance_uuid, {**note, "ports": others})
        self._wires.close(instance_uuid, port_uuid)
        for net in self._by_taps.values():
            net.unplug(instance_uuid, port_uuid)

    def close(self, instance_uuid: str) -> None:
        """Stop serving the guest's ports; the note stays. Raises DriverError."""
        self._wires.close(instance_uuid)
        for net in self._by_taps.values():
            net.unplug(instance_uuid)

    def drop(self, instance_uuid: str) -> None:
        """Stop serving the guest's ports and remove the note: QEMU serves them itself. Raises DriverError."""
        self.close(instance_uuid)
        with os_errors_as("The note of the guest's network could not be removed"):
            self._note_path(instance_uuid).unlink(missing_ok=True)

    def planned_tap(self, port: NetworkPort) -> Tap | None:
        """Return the tap that a port will have; None without taps. Raises BuildAborted for an invalid port."""
        net = self._by_taps.get(self._backend)
        return None if net is None else Tap(net.planned(port), net.needs_checksums)

    def backends(self, instance_uuid: str) -> BackendOf:
        """Return a function from port to backend; None for a port that QEMU serves itself. Raises DriverError."""
        note = self._read(instance_uuid)
        known = {port["port_uuid"] for port in note.get("ports", ())}
        if (net := self._by_taps.get(str(note.get("player")))) is not None:
            return lambda port: Tap(net.device_of(port), net.needs_checksums) if port.port_uuid in known else None
        paths_of = self._paths_of(instance_uuid)
        return lambda port: paths_of(port) if port.port_uuid in known else None

    def counters(self, instance_uuid: str) -> list[dict[str, Any]]:
        """Return the traffic of each port that is served here, by the guest's view of receive and transmit."""
        for net in self._by_taps.values():
            if net.ports_of(instance_uuid):
                return net.counters(instance_uuid)
        macs = {port["port_uuid"]: port["mac_address"] for port in self._read(instance_uuid).get("ports", ())}
        counters = self._wires.counters(instance_uuid).items()
        return [{"mac_address": macs[port], **found} for port, found in counters if port in macs]

    # -- port filters of the kernel

    def filter(self, filters: Mapping[str, PortFilter]) -> None:
        """Replace the security group rules of all ports. Raises DriverError."""
        self._kernel.filter(filters)

    @property
    def filters(self) -> Mapping[str, PortFilter]:
        return self._kernel.filters

    # -- the password that a guest posts

    def posted_password(self, instance_uuid: str) -> str:
        """Return what the guest posted to the metadata service, "" for nothing. Raises DriverError."""
        try:
            return (self._paths.folder_of(instance_uuid) / POSTED_PASSWORD).read_bytes().decode(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise DriverError(f"The password of the guest could not be read: {error.strerror}.") from error

    def forget_password(self, instance_uuid: str) -> None:
        """Remove the posted password, so that another one can be posted. Raises DriverError."""
        with os_errors_as("The password of the guest could not be removed"):
            (self._paths.folder_of(instance_uuid) / POSTED_PASSWORD).unlink(missing_ok=True)

    # -- opening

    def _require(self, backend: str) -> None:
        if (net := self._by_taps.get(backend)) is not None and (cause := net.missing()):
            raise DriverError(f"Option libvirt.guest_network: {backend} cannot be had here: {cause}.")

    def _open(self, instance_uuid: str) -> None:
        with os_errors_as("The network of the guest could not be opened"):
            self._open_all(instance_uuid, self._read(instance_uuid))

    def _open_all(self, instance_uuid: str, note: Mapping[str, Any]) -> None:
        if (net := self._by_taps.get(str(note.get("player")))) is not None:
            net.plug(instance_uuid, self._clients(instance_uuid, note))
            return
        pages = self._pages(instance_uuid, note)
        paths_of = self._paths_of(instance_uuid)
        for values in note.get("ports", ()):
            port = NetworkPort.from_json(values)
            segment = GuestSegment(port, str(note.get("hostname", "")), pages)
            self._wires.open(instance_uuid, port.port_uuid, paths_of(port), segment)

    def _pages(self, instance_uuid: str, note: Mapping[str, Any]) -> MetadataPages:
        files = {path: base64.b64decode(data) for path, data in note.get("files", {}).items()}
        return MetadataPages(files, self._paths.folder_of(instance_uuid) / POSTED_PASSWORD)

    def _clients(self, instance_uuid: str, note: Mapping[str, Any]) -> list[Client]:
        hostname, pages = str(note.get("hostname", "")), self._pages(instance_uuid, note)
        return [Client(NetworkPort.from_json(values), hostname, pages) for values in note.get("ports", ())]

    def _paths_of(self, instance_uuid: str) -> Callable[[NetworkPort], WirePaths]:
        prefix = self._paths.socket_prefix(instance_uuid)
        return lambda port: _wire_paths(prefix, port.port_uuid)

    # -- the note

    def _note_path(self, instance_uuid: str) -> Path:
        return self._paths.folder_of(instance_uuid) / NETWORK_NOTE

    def _read(self, instance_uuid: str) -> NetworkNote:
        """Return the guest's note; empty where there is none."""
        try:
            return dict(json.loads(self._note_path(instance_uuid).read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def _write(self, instance_uuid: str, note: Mapping[str, Any]) -> None:
        """Replace the note, readable for its owner only: it contains passwords and user data."""
        path = self._note_path(instance_uuid)
        part = path.with_suffix(".part")
        with os_errors_as("The network of the guest could not be noted"):
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(note, file)
            os.replace(part, path)


def _wire_paths(prefix: Path, port_uuid: str) -> WirePaths:
    # Paths of sockets have a limit of 107 bytes.
    short = hashlib.sha256(port_uuid.encode()).hexdigest()[:8]
    # A guest with its own account creates its sockets in its folder, and cannot touch the agent's.
    theirs = prefix / f"{short}.net" if prefix.is_dir() else Path(f"{prefix}.{short}.net")
    return WirePaths(theirs, Path(f"{prefix}.{short}.own"))
