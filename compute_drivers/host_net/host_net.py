"""Networks of guests in the host's kernel: a bridge and DHCP server for each, a tap and rules for each port."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from compute_drivers import programs, taps
from compute_drivers.host_net import rules
from compute_drivers.host_net.anti_spoofing import SERVER
from compute_drivers.host_net.dhcp import Client, DhcpServer
from compute_drivers.host_net.host_ports import HostPort
from compute_drivers.host_net.metadata_service import SERVICE_FAILED, MetadataService
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.port_filters import PortFilter

log = logging.getLogger(__name__)

BRIDGED_CALLS = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
FILTERS = "filters.json"
# Pass bridged packets to the inet table, which tracks connections.
BRIDGE_FILTERING = ("nf_call_iptables", "1", "nf_call_ip6tables", "1")


@dataclass(frozen=True)
class _PluggedPort:
    """A port that is plugged on this host, with the kernel's names."""

    owner: str
    client: Client
    device: str
    bridge: str

    def with_filter(self, filters: Mapping[str, PortFilter]) -> HostPort:
        port = self.client.port
        found = filters.get(port.port_uuid, PortFilter())
        more = tuple(one.ip_address for one in port.more)
        return HostPort(self.device, self.bridge, port.mac_address, port.ip_address, found, more)


def names_of(folder: Path) -> rules.NetNames:
    """Return the names of the host with this folder."""
    key = taps.key_of(folder)
    return rules.NetNames(f"novella_{key}", f"nt{key}", f"nb{key}", f"nm{key}")


class HostNet:
    """All networks of one host.

    Names of devices and tables begin with a key of the host, so that several hosts can share a machine. Ports are
    given at each start; their rules are kept in `folder` until they are replaced.
    """

    needs_checksums = False  # the kernel fills them in

    def __init__(self, folder: Path, uid_of: Callable[[str], int | None] = lambda owner: None) -> None:
        """`uid_of` returns the uid that opens a guest's taps; None for the uid of this process."""
        self._folder = folder
        self._uid_of = uid_of
        self._names = names_of(folder)
        self._lock = threading.Lock()
        self._held: dict[str, _PluggedPort] = {}
        self._filters: dict[str, PortFilter] = {}
        self._metadata = MetadataService(self._attach_service)

    @staticmethod
    def missing() -> str:
        """Return why this machine cannot have bridged networks, as a clause; "" when it can."""
        if not taps.TUN.exists():
            return f"{taps.TUN} is not there"
        if not BRIDGED_CALLS.exists():
            return "the kernel's module br_netfilter is not loaded"
        return ""

    def start(self, ports: Iterable[tuple[str, Client]]) -> None:
        """Set up exactly these ports, each with its guest's id, and remove everything else. Raises DriverError."""
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._filters = self._read()
            self._held = {held.client.port.port_uuid: held for held in self._usable(ports)}
            self._remove_left_over()
            self._filter()  # before any packet can pass
            for held in self._held.values():
                self._make(held)
            self._serve({held.bridge for held in self._held.values()})

    def stop(self) -> None:
        """Stop the metadata service; networks keep working."""
        with self._lock:
            self._metadata.stop()

    def plug(self, owner: str, clients: Sequence[Client]) -> None:
        """Plug a guest's ports. Raises BuildAborted, DriverError, and then none of them is plugged."""
        with self._lock:
            new = [self._of(owner, client) for client in clients]
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = dict(self._held)
            self._held |= {held.client.port.port_uuid: held for held in new}
            try:
                self._filter()
                for held in new:
                    self._make(held)
                self._serve({held.bridge for held in new})
            except BaseException:
                self._held = before
                self._remove_left_over()
                raise

    def unplug(self, owner: str, port_uuid: str = "") -> None:
        """Unplug one port of a guest, or all. Raises DriverError."""
        with self._lock:
            gone = [held for uuid, held in self._held.items() if held.owner == owner and port_uuid in ("", uuid)]
            if not gone:
                return
            for held in gone:
                taps.remove(held.device)
                del self._held[held.client.port.port_uuid]
            self._serve({held.bridge for held in gone})
            self._filter()

    def filter(self, filters: Mapping[str, PortFilter]) -> None:
        """Replace the rules of all ports. Raises DriverError, and then the former rules stay."""
        with self._lock:
            before, self._filters = self._filters, dict(filters)
            try:
                self._filter()
            except BaseException:
                self._filters = before
                raise
            self._write()

    @property
    def filters(self) -> Mapping[str, PortFilter]:
        return self._filters

    def device_of(self, port: NetworkPort) -> str:
        """Return the name of the port's tap on this host."""
        return f"{self._names.devices}{taps.short(port.port_uuid)}"

    def planned(self, port: NetworkPort) -> str:
        """Return the name of the tap of a port that is not plugged yet. Raises BuildAborted for an invalid port."""
        return self._of("", Client(port, "")).device

    def _service_of(self, bridge: str) -> str:
        """Return the name of the tap of a bridge's metadata service."""
        return f"{self._names.services}{bridge.removeprefix(self._names.bridges)}"

    def ports_of(self, owner: str) -> set[str]:
        return {uuid for uuid, held in self._held.items() if held.owner == owner}

    def counters(self, owner: str) -> list[dict[str, Any]]:
        """Return the traffic of each port, by the guest's view of receive and transmit. Raises DriverError."""
        held = (one for one in self._held.values() if one.owner == owner)
        return taps.counters({one.device: one.client.port.mac_address for one in held})

    # -- devices

    def _usable(self, ports: Iterable[tuple[str, Client]]) -> Iterator[_PluggedPort]:
        """Yield the valid ports; an invalid one is logged and must not affect the others."""
        for owner, client in ports:
            try:
                yield self._of(owner, client)
            except BuildAborted:
                log.exception("a port cannot be plugged: instance=%s", owner)

    def _of(self, owner: str, client: Client) -> _PluggedPort:
        port = client.port
        _require_usable(port)
        network = (
            port.network_uuid or port.port_uuid
        )  # without a network (earlier releases) a port is alone on its bridge
        held = _PluggedPort(owner, client, self.device_of(port), f"{self._names.bridges}{taps.short(network)}")
        rules.ruleset(self._names, [held.with_filter({})])  # raises for an invalid port
        return held

    def _make(self, held: _PluggedPort) -> None:
        links = self._links()
        if held.bridge not in links:
            self._make_bridge(held.bridge)
        elif ":" in "".join(
            one.ip_address for one in held.client.port.addresses
        ):  # may be from an earlier release without IPv6
            words = ("ip", "link", "set", held.bridge, "type", "bridge", *BRIDGE_FILTERING)
            programs.check_output(taps.PLUG_FAILED, *words)
        if held.device not in links:
            taps.add(held.device, self._uid_of(held.owner))
        taps.start(held.device, "master", held.bridge)

    @staticmethod
    def _attach_service(bridge: str, device: str) -> None:
        taps.start(device, "master", bridge, failure=SERVICE_FAILED)

    @staticmethod
    def _make_bridge(name: str) -> None:
        """Create a bridge with the DHCP server's link-local address, so that the host's routes do not change."""
        mac = "02:" + ":".join(f"{byte:02x}" for byte in hashlib.sha256(name.encode()).digest()[:5])
        kind = ("type", "bridge", *BRIDGE_FILTERING, "mcast_snooping", "0")
        programs.check_output(taps.PLUG_FAILED, "ip", "link", "add", name, "address", mac, *kind)
        programs.check_output(taps.PLUG_FAILED, "ip", "address", "add", f"{SERVER}/32", "dev", name)
        taps.start(name)

    def _serve(self, bridges: Iterable[str]) -> None:
        """Run the servers of each bridge with ports, and remove bridges without ports."""
        for bridge in sorted(bridges):
            clients = [held.client for held in self._held.values() if held.bridge == bridge]
            server = DhcpServer(self._folder, bridge)
            if any(client.leased for client in clients):
                server.serve(clients)
            else:
                server.stop()
            if clients:
                self._metadata.serve(bridge, self._service_of(bridge), clients)
            else:
                self._metadata.end(bridge)
                taps.remove(bridge)

    def _filter(self) -> None:
        ports = [held.with_filter(self._filters) for held in self._held.values()]
        self._apply(rules.ruleset(self._names, ports) if ports else rules.empty_ruleset(self._names))

    @staticmethod
    def _apply(text: str) -> None:
        programs.check_output("The rules of the ports could not be applied", "nft", "-f", "-", given=text.encode())

    def _remove_left_over(self) -> None:
        """Remove devices and servers of guests that are gone, and of interrupted calls."""
        held = self._held.values()
        bridges = {one.bridge for one in held}
        wanted = {one.device for one in held} | bridges | {self._service_of(bridge) for bridge in bridges}
        for name in self._links() - wanted:
            self._metadata.end(name)
            taps.remove(name)
        for settings in self._folder.glob(f"{self._names.bridges}*.dnsmasq"):
            if settings.stem not in wanted:
                DhcpServer(self._folder, settings.stem).stop()
        self._filter()

    def _links(self) -> set[str]:
        """Return the devices of this host."""
        return taps.devices(*self._names.prefixes)

    def _read(self) -> dict[str, PortFilter]:
        """Return the kept rules; empty where there are none or the file is damaged, and then they are sent again."""
        try:
            stored = json.loads((self._folder / FILTERS).read_text())
            return {uuid: PortFilter.from_json(found) for uuid, found in stored.items()}
        except (OSError, ValueError, TypeError):
            return {}

    def _write(self) -> None:
        stored = {uuid: found.to_json() for uuid, found in self._filters.items()}
        try:
            part = self._folder / f"{FILTERS}.part"
            part.write_text(json.dumps(stored))
            part.replace(self._folder / FILTERS)
        except OSError as error:
            raise DriverError(f"The rules of the ports could not be kept: {error.strerror}.") from error


def _require_usable(port: NetworkPort) -> None:
    """Raises BuildAborted for invalid addresses. Further addresses of an earlier release have no subnet."""
    addresses = [one for one in port.addresses if one.cidr or one.ip_address == port.ip_address]
    if not addresses:
        raise BuildAborted(f"Port {port.port_uuid} has no address.")
    for one in addresses:
        try:
            is_in = ip_address(one.ip_address) in ip_network(one.cidr)
        except ValueError:
            is_in = False
        if not is_in:
            raise BuildAborted(f"Port {port.port_uuid} has the address {one.ip_address}, which is not in {one.cidr!r}.")
