"""Networks of guests, and for those on OVN the notes of their ports and metadata."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compute_drivers.host_paths import os_errors_as
from compute_drivers.libvirt.options import NO_NETWORK, OVN, LibvirtOptions
from compute_drivers.libvirt.paths import LibvirtPaths
from compute_drivers.libvirt.qemu_network import Backend, BackendOf, OwnNetwork, Tap
from compute_drivers.metadata_files import metadata_files
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service.service import MetadataClient
from compute_drivers.ovn_net.integration_bridge import IntegrationBridge
from compute_drivers.ovn_net.ovn_net import OvnNet
from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

NETWORK_NOTE, POSTED_PASSWORD = "network.json", "posted-password"
NetworkNote = dict[str, Any]


class GuestNetworks:
    """The networks of one host's guests.

    On OVN, a note beside the guest's disks holds its ports and metadata, so that the next process or host can continue.
    A guest without a note has a network of QEMU's own, or none. A changed option `guest_network` applies to a guest
    from its next start on.
    """

    def __init__(
        self, host: str, paths: LibvirtPaths, options: LibvirtOptions, uid_of: Callable[[str], int | None]
    ) -> None:
        self._paths = paths
        self._vendor_data = options.vendor_data
        self._is_on_ovn = options.guest_network == OVN
        self._own_network = OwnNetwork.NONE if options.guest_network == NO_NETWORK else OwnNetwork.USER
        bridge = IntegrationBridge(host, options.ovs_run_dir, options.ovn_run_dir)
        self._ovn = OvnNet(paths.state_dir, bridge, options.plug_seconds, uid_of)

    def check(self) -> None:
        """Raises DriverError where this machine lacks what the option `guest_network` needs."""
        if self._is_on_ovn:
            self._require_ovn()

    def start(self) -> None:
        """Serve the networks of guests that run. Raises DriverError where this machine lacks what they need."""
        own = {folder.name for folder in self._paths.own_folders()}
        found: list[tuple[str, MetadataClient]] = []
        for uuid in sorted(own | self._paths.migrating_guests()):
            try:
                found += [(uuid, client) for client in self._clients(uuid)]
            except (OSError, ValueError, KeyError, TypeError):
                log.exception("network of a guest cannot be served: instance=%s", uuid)
        if self._is_on_ovn or found:
            self._require_ovn()
            self._ovn.start(found)

    def stop(self) -> None:
        self._ovn.stop()

    # -- guests and ports

    def configure(self, guest: GuestSpec) -> None:
        """Serve the guest's present ports and metadata, where the agent does. Raises BuildAborted, DriverError."""
        if not self._is_on_ovn:
            self._drop(guest.instance_uuid)
            return
        files = metadata_files(guest, guest.admin_password, self._vendor_data)
        note: NetworkNote = {
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
        """Serve one more port, where the agent does. Raises DriverError."""
        if not self._is_on_ovn or not port.ip_address:
            return
        note = self._read(instance_uuid)
        others = [one for one in note.get("ports", ()) if one["port_uuid"] != port.port_uuid]
        self._write(instance_uuid, {**note, "ports": [*others, asdict(port)]})
        self._open(instance_uuid)

    def unplug(self, instance_uuid: str, port_uuid: str) -> None:
        """Stop serving a port, if it is served here. Raises DriverError."""
        note = self._read(instance_uuid)
        others = [one for one in note.get("ports", ()) if one["port_uuid"] != port_uuid]
        if len(others) < len(note.get("ports", ())):
            self._write(instance_uuid, {**note, "ports": others})
        self._ovn.unplug(instance_uuid, port_uuid)

    def close(self, instance_uuid: str) -> None:
        """Stop serving the guest's ports; the note stays. Raises DriverError."""
        self._ovn.unplug(instance_uuid)

    def _drop(self, instance_uuid: str) -> None:
        """Stop serving the guest's ports and remove the note. Raises DriverError."""
        self.close(instance_uuid)
        with os_errors_as("The note of the guest's network could not be removed"):
            self._note_path(instance_uuid).unlink(missing_ok=True)

    def planned_backend(self, port: NetworkPort) -> Backend:
        """Return the backend that a port will have at the guest's next start."""
        return self._backend(port, is_on_ovn=self._is_on_ovn)

    def backends(self, instance_uuid: str) -> BackendOf:
        """Return a function from a port of the guest to its backend. Raises DriverError."""
        plugged = {port["port_uuid"] for port in self._read(instance_uuid).get("ports", ())}
        return lambda port: self._backend(port, is_on_ovn=port.port_uuid in plugged)

    def counters(self, instance_uuid: str) -> list[dict[str, Any]]:
        """Return the traffic of each port that is served here, by the guest's view of receive and transmit."""
        return self._ovn.counters(instance_uuid)

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

    def _require_ovn(self) -> None:
        if cause := self._ovn.missing():
            raise DriverError(f"Option libvirt.guest_network: {OVN} cannot be had here: {cause}.")

    def _backend(self, port: NetworkPort, *, is_on_ovn: bool) -> Backend:
        return Tap(self._ovn.device_of(port)) if is_on_ovn else self._own_network

    def _open(self, instance_uuid: str) -> None:
        with os_errors_as("The network of the guest could not be opened"):
            clients = self._clients(instance_uuid)
        if clients:
            self._ovn.plug(instance_uuid, clients)

    def _clients(self, instance_uuid: str) -> list[MetadataClient]:
        note = self._read(instance_uuid)
        files = {path: base64.b64decode(data) for path, data in note.get("files", {}).items()}
        pages = MetadataPages(files, self._paths.folder_of(instance_uuid) / POSTED_PASSWORD)
        return [MetadataClient(NetworkPort.from_json(values), pages) for values in note.get("ports", ())]

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
