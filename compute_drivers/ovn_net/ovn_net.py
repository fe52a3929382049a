"""Networks of guests on OVN: a tap for each port in `br-int`, and a metadata service for each network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_drivers import taps
from compute_drivers.metadata_service.service import SERVICE_FAILED, MetadataClient, MetadataService
from compute_drivers.ovn_net.integration_bridge import IntegrationBridge
from conductor.core.compute_driver import NetworkPort
from conductor.core.ovn_names import metadata_port_name

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _PluggedPort:
    """A port that is plugged on this host, and its tap."""

    owner: str
    client: MetadataClient
    device: str

    @property
    def network(self) -> str:
        return self.client.port.network_uuid


def device_prefix(folder: Path) -> str:
    """Return what the names of guests' taps begin with on the host with this folder."""
    return f"no{taps.key_of(folder)}"


class OvnNet:
    """All ports of one host.

    OVN carries the traffic, answers DHCP and router solicitations, and filters; this class only plugs. Names of devices
    begin with a key of the host, and its ports in `br-int` carry its name, so that it removes nothing of others.
    """

    def __init__(
        self, folder: Path, bridge: IntegrationBridge, seconds: float, uid_of: Callable[[str], int | None]
    ) -> None:
        """Describe the networks of a host.

        Args:
            folder: What the host's names are made from.
            seconds: How long OVN may take to set up a port.
            uid_of: Returns the uid that opens a guest's taps; None for the uid of this process.
        """
        self._bridge = bridge
        self._seconds = seconds
        self._uid_of = uid_of
        self._devices = device_prefix(folder)
        self._services = f"nq{taps.key_of(folder)}"
        self._lock = threading.Lock()
        self._held: dict[str, _PluggedPort] = {}
        self._metadata = MetadataService(self._attach_service, bridge.remove)

    def missing(self) -> str:
        """Return why this host cannot have its networks on OVN, as a clause; "" when it can. Raises DriverError."""
        return self._bridge.missing()

    def start(self, ports: Iterable[tuple[str, MetadataClient]]) -> None:
        """Plug exactly these ports, each with its guest's id, and remove all others of ours. Raises DriverError."""
        with self._lock:
            self._held = {client.port.port_uuid: self._of(owner, client) for owner, client in ports}
            self._remove_orphans()
            for held in self._held.values():
                self._make(held)
            self._serve({held.network for held in self._held.values()})

    def stop(self) -> None:
        """Stop the metadata service; networks keep working."""
        with self._lock:
            self._metadata.stop()

    def plug(self, owner: str, clients: Sequence[MetadataClient]) -> None:
        """Plug a guest's ports, and wait until OVN has set them up.

        Raises DriverError, and then those that were not plugged before are not.
        """
        ports = {client.port.port_uuid: self._of(owner, client) for client in clients}
        with self._lock:
            new = [held for uuid, held in ports.items() if uuid not in self._held]
            self._held |= ports
        try:
            with self._lock:
                for held in ports.values():
                    self._make(held)
                self._serve({held.network for held in ports.values()})
            for uuid, held in ports.items():
                self._bridge.await_installed(held.device, uuid, self._seconds)
        except BaseException:
            with self._lock:
                self._drop(new)
            raise

    def unplug(self, owner: str, port_uuid: str = "") -> None:
        """Unplug one port of a guest, or all. Raises DriverError."""
        with self._lock:
            self._drop([held for uuid, held in self._held.items() if held.owner == owner and port_uuid in ("", uuid)])

    def device_of(self, port: NetworkPort) -> str:
        """Return the name of the port's tap on this host."""
        return f"{self._devices}{taps.short(port.port_uuid)}"

    def ports_of(self, owner: str) -> set[str]:
        return {uuid for uuid, held in self._held.items() if held.owner == owner}

    def counters(self, owner: str) -> list[dict[str, Any]]:
        """Return the traffic of each port, by the guest's view of receive and transmit. Raises DriverError."""
        held = (one for one in self._held.values() if one.owner == owner)
        return taps.counters({one.device: one.client.port.mac_address for one in held})

    # -- devices

    def _of(self, owner: str, client: MetadataClient) -> _PluggedPort:
        return _PluggedPort(owner, client, self.device_of(client.port))

    def _make(self, held: _PluggedPort) -> None:
        if held.device not in taps.devices(held.device):
            self._bridge.remove(held.device)  # a port whose device was replaced passes nothing
            taps.add(held.device, self._uid_of(held.owner))
        taps.start(held.device)
        self._bridge.add(held.device, held.client.port.port_uuid, held.owner)

    def _drop(self, gone: Sequence[_PluggedPort]) -> None:
        for held in gone:
            self._remove(held.device)
            self._held.pop(held.client.port.port_uuid, None)
        self._serve({held.network for held in gone})

    def _remove(self, device: str) -> None:
        self._bridge.remove(device)
        taps.remove(device)

    def _remove_orphans(self) -> None:
        """Remove ports and devices of guests that are gone, of interrupted calls, and of an earlier process."""
        wanted = {held.device for held in self._held.values()}
        for device in (self._bridge.ports() | taps.devices(self._devices, self._services)) - wanted:
            log.info("port of no guest is removed: device=%s", device)
            if device.startswith(self._services):
                self._metadata.remove(device)
            else:
                self._remove(device)

    # -- metadata

    def _service_of(self, network: str) -> str:
        return f"{self._services}{taps.short(network)}"

    def _serve(self, networks: Iterable[str]) -> None:
        """Run the metadata service of each network with ports, and end that of others."""
        for network in sorted(networks):
            clients = [held.client for held in self._held.values() if held.network == network]
            device = self._service_of(network)
            if clients:
                self._metadata.serve(network, device, clients)
            else:
                self._metadata.end(device)

    def _attach_service(self, network: str, device: str) -> None:
        self._bridge.add(device, metadata_port_name(network), failure=SERVICE_FAILED)
