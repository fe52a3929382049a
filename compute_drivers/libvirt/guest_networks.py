"""Networks of guests that are not QEMU's own: the notes that say how they are played, and what QEMU is told."""

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

from compute_drivers.guest_files import files_of
from compute_drivers.guest_metadata import GuestPages
from compute_drivers.host_net.dhcp import Client
from compute_drivers.host_net.host_net import HostNet
from compute_drivers.libvirt.options import BRIDGE
from compute_drivers.libvirt.places import Places
from compute_drivers.libvirt.user_network import Tap, WiresOf
from compute_drivers.user_net.segment import GuestSegment
from compute_drivers.user_net.wires import WirePaths, Wires
from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.errors import DriverError
from conductor.core.port_filters import PortFilter

log = logging.getLogger(__name__)

NOTE, POSTED = "network.json", "posted-password"
Note = dict[str, Any]


class GuestNetworks:
    """A note lies beside the guest's disks and goes with them; whoever starts next goes on from it.

    It names who plays: this process by sockets, or the host's kernel by taps. Another choice of the operator's counts
    for a guest from its next start on.
    """

    def __init__(self, places: Places, vendor_data: Mapping[str, Any], player: str) -> None:
        self._places = places
        self._vendor_data = vendor_data
        self._wires = Wires()
        self._kernel = HostNet(places.networks_dir)
        self.player = player

    def start(self) -> None:
        """Raises DriverError where the kernel cannot do what the operator chose."""
        own = {folder.name for folder in self._places.own_folders()}
        bridged: list[tuple[str, Client]] = []
        for uuid in sorted(own | self._places.noted()):
            try:
                note = self._read(uuid)
                if note.get("player") == BRIDGE:
                    bridged += [(uuid, client) for client in self._clients(uuid, note)]
                elif uuid in own:
                    self._open_all(uuid, note)
            except (OSError, ValueError, KeyError, TypeError, DriverError):
                log.exception("network of a guest cannot be played: instance=%s", uuid)
        if self.player == BRIDGE or bridged or self._places.networks_dir.exists():
            self._kernel.start(bridged)

    def stop(self) -> None:
        self._wires.stop()
        self._kernel.stop()

    def tell(self, guest: GuestSpec) -> None:
        """Play these ports from now on, and say this of the guest. Raises BuildAborted, DriverError."""
        note: Note = {"player": self.player, "hostname": guest.hostname}
        made = files_of(guest, guest.admin_password, self._vendor_data)
        note["files"] = {path: base64.b64encode(data).decode() for path, data in made.items()}
        note["ports"] = [asdict(port) for port in guest.ports if port.ip_address]
        self._keep(guest.instance_uuid, note)
        self.close(guest.instance_uuid)
        self._open(guest.instance_uuid)

    def planned(self, port: NetworkPort) -> Tap | None:
        """The tap of a port that is not plugged yet; None where it gets none. Raises BuildAborted for a wrong port."""
        return Tap(self._kernel.planned(port)) if self.player == BRIDGE else None

    def join(self, instance_uuid: str) -> None:
        """Play them as the note says that hosts share. Raises DriverError."""
        self.close(instance_uuid)
        self._open(instance_uuid)

    def plug(self, instance_uuid: str, port: NetworkPort) -> None:
        """One port more. Raises DriverError."""
        note = self._read(instance_uuid) or {"player": self.player}
        others = [told for told in note.get("ports", ()) if told["port_uuid"] != port.port_uuid]
        self._keep(instance_uuid, {**note, "ports": [*others, asdict(port)]})
        self._open(instance_uuid)

    def unplug(self, instance_uuid: str, port_uuid: str) -> None:
        """Nothing where it was not played. Raises DriverError."""
        note = self._read(instance_uuid)
        others = [told for told in note.get("ports", ()) if told["port_uuid"] != port_uuid]
        if len(others) < len(note.get("ports", ())):
            self._keep(instance_uuid, {**note, "ports": others})
        self._wires.close(instance_uuid, port_uuid)
        self._kernel.unplug(instance_uuid, port_uuid)

    def drop(self, instance_uuid: str) -> None:
        """It is QEMU that plays them from now on. Raises DriverError."""
        self.close(instance_uuid)
        try:
            (self._places.folder_of(instance_uuid) / NOTE).unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"The note of the guest's network could not be removed: {error.strerror}.") from error

    def password(self, instance_uuid: str) -> str:
        """What the guest has posted; "" when nothing. Raises DriverError."""
        try:
            return (self._places.folder_of(instance_uuid) / POSTED).read_bytes().decode(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise DriverError(f"The password of the guest could not be read: {error.strerror}.") from error

    def counted(self, instance_uuid: str) -> list[dict[str, Any]]:
        """What came and went by each port that is played here."""
        if self._kernel.ports_of(instance_uuid):
            return self._kernel.counted(instance_uuid)
        cards = {told["port_uuid"]: told["mac_address"] for told in self._read(instance_uuid).get("ports", ())}
        counted = self._wires.counted(instance_uuid).items()
        return [{"mac_address": cards[port], **figures} for port, figures in counted if port in cards]

    def forget_password(self, instance_uuid: str) -> None:
        """The system that posted it is no more. Raises DriverError."""
        try:
            (self._places.folder_of(instance_uuid) / POSTED).unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"The password of the guest could not be removed: {error.strerror}.") from error

    def close(self, instance_uuid: str) -> None:
        """Raises DriverError."""
        self._wires.close(instance_uuid)
        self._kernel.unplug(instance_uuid)

    def filter(self, filters: Mapping[str, PortFilter]) -> None:
        """What the ports of the host's kernel let through from now on. Raises DriverError."""
        self._kernel.filter(filters)

    @property
    def filters(self) -> Mapping[str, PortFilter]:
        return self._kernel.filters

    def played(self, instance_uuid: str) -> WiresOf:
        """What each port is plugged into; None for one that QEMU plays itself. Raises DriverError."""
        note = self._read(instance_uuid)
        known = {told["port_uuid"] for told in note.get("ports", ())}
        if note.get("player") == BRIDGE:
            return lambda port: Tap(self._kernel.device_of(port)) if port.port_uuid in known else None
        find = self._paths_of(instance_uuid)
        return lambda port: find(port) if port.port_uuid in known else None

    def _paths_of(self, instance_uuid: str) -> Callable[[NetworkPort], WirePaths]:
        prefix = self._places.wires_of(instance_uuid)
        return lambda port: _paths(prefix, port.port_uuid)

    def _open(self, instance_uuid: str) -> None:
        try:
            self._open_all(instance_uuid, self._read(instance_uuid))
        except OSError as error:
            raise DriverError(f"The network of the guest could not be opened: {error.strerror}.") from error

    def _open_all(self, instance_uuid: str, note: Mapping[str, Any]) -> None:
        if note.get("player") == BRIDGE:
            self._kernel.plug(instance_uuid, self._clients(instance_uuid, note))
            return
        pages = self._pages(instance_uuid, note)
        find = self._paths_of(instance_uuid)
        for told in note.get("ports", ()):
            port = NetworkPort.from_json(told)
            segment = GuestSegment(port, str(note.get("hostname", "")), pages)
            self._wires.open(instance_uuid, port.port_uuid, find(port), segment)

    def _pages(self, instance_uuid: str, note: Mapping[str, Any]) -> GuestPages:
        files = {path: base64.b64decode(data) for path, data in note.get("files", {}).items()}
        return GuestPages(files, self._places.folder_of(instance_uuid) / POSTED)

    def _clients(self, instance_uuid: str, note: Mapping[str, Any]) -> list[Client]:
        hostname, pages = str(note.get("hostname", "")), self._pages(instance_uuid, note)
        return [Client(NetworkPort.from_json(told), hostname, pages) for told in note.get("ports", ())]

    def _read(self, instance_uuid: str) -> Note:
        """Empty where there is none."""
        try:
            return dict(json.loads((self._places.folder_of(instance_uuid) / NOTE).read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def _keep(self, instance_uuid: str, note: Mapping[str, Any]) -> None:
        """Only its owner may read it: passwords and user data are in it."""
        path = self._places.folder_of(instance_uuid) / NOTE
        part = path.with_suffix(".part")
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(note, file)
            os.replace(part, path)
        except OSError as error:
            raise DriverError(f"The network of the guest could not be noted: {error.strerror}.") from error


def _paths(prefix: Path, port_uuid: str) -> WirePaths:
    # Sockets have short paths or none.
    short = hashlib.sha256(port_uuid.encode()).hexdigest()[:8]
    return WirePaths(Path(f"{prefix}.{short}.net"), Path(f"{prefix}.{short}.own"))
