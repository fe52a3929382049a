"""Networks of guests in the host's kernel: a bridge and a DHCP server for each, a tap and rules for each port."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from compute_drivers import programs
from compute_drivers.host_net import rules
from compute_drivers.host_net.dhcp import Client, DhcpServer
from compute_drivers.host_net.honest import SERVER
from compute_drivers.host_net.metadata import MetadataService
from compute_drivers.host_net.plugs import Plug
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.port_filters import PortFilter

log = logging.getLogger(__name__)

BRIDGED_CALLS = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
TUN = Path("/dev/net/tun")
WHAT = "The port could not be plugged"
FILTERS = "filters.json"
# By the layer above, which remembers connections.
LOOKED_AT = ("nf_call_iptables", "1", "nf_call_ip6tables", "1")


@dataclass(frozen=True)
class _Held:
    """A port that is plugged here, by the kernel's names."""

    owner: str
    client: Client
    device: str
    bridge: str

    def plug(self, filters: Mapping[str, PortFilter]) -> Plug:
        port = self.client.port
        found = filters.get(port.port_uuid, PortFilter())
        more = tuple(one.ip_address for one in port.more)
        return Plug(self.device, self.bridge, port.mac_address, port.ip_address, found, more)


def names_of(folder: Path) -> rules.Names:
    """Names of what belongs to the host with this folder."""
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:4]
    return rules.Names(f"novella_{key}", f"nt{key}", f"nb{key}", f"nm{key}")


class HostNet:
    """What it made has names that begin with a key of this host's: others on the same machine are left alone.

    The ports are told anew at each start; what they let through is kept in `folder`, until it is told otherwise.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = names_of(folder)
        self._gate = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._filters: dict[str, PortFilter] = {}
        self._metadata = MetadataService()

    @staticmethod
    def missing() -> str:
        """Why this machine can have no such networks, in one sentence; "" when it can."""
        if not TUN.exists():
            return f"{TUN} is not there"
        if not BRIDGED_CALLS.exists():
            return "the kernel's module br_netfilter is not loaded"
        return ""

    def start(self, ports: Iterable[tuple[str, Client]]) -> None:
        """Have these ports, each with its guest's id, and nothing that was left over. Raises DriverError."""
        if cause := self.missing():
            raise DriverError(f"Option libvirt.guest_network: bridge cannot be had here: {cause}.")
        with self._gate:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._filters = self._read()
            self._held = {held.client.port.port_uuid: held for held in self._usable(ports)}
            self._remove_left_over()
            self._filter()  # before there is anything to pass
            for held in self._held.values():
                self._make(held)
            self._serve({held.bridge for held in self._held.values()})

    def stop(self) -> None:
        """Guests go on; there is nobody to tell them of themselves until the next start."""
        with self._gate:
            self._metadata.stop()

    def plug(self, owner: str, clients: Sequence[Client]) -> None:
        """Make what is not there of a guest's ports. Raises BuildAborted, DriverError; then none of them is new."""
        with self._gate:
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
        """One port of a guest, or all; nothing where there is none. Raises DriverError."""
        with self._gate:
            gone = [held for uuid, held in self._held.items() if held.owner == owner and port_uuid in ("", uuid)]
            if not gone:
                return
            for held in gone:
                self._remove(held.device)
                del self._held[held.client.port.port_uuid]
            self._serve({held.bridge for held in gone})
            self._filter()

    def filter(self, filters: Mapping[str, PortFilter]) -> None:
        """What ports let through from now on. Raises DriverError; then it is what it was."""
        with self._gate:
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
        """By this name the kernel has the port's tap, here."""
        return f"{self._names.devices}{_short(port.port_uuid)}"

    def planned(self, port: NetworkPort) -> str:
        """The same, of one that is not plugged yet. Raises BuildAborted for one that cannot be."""
        return self._of("", Client(port, "")).device

    def _service_of(self, bridge: str) -> str:
        """By this name the kernel has the tap of a network's metadata service."""
        return f"{self._names.services}{bridge.removeprefix(self._names.bridges)}"

    def ports_of(self, owner: str) -> set[str]:
        return {uuid for uuid, held in self._held.items() if held.owner == owner}

    def counted(self, owner: str) -> list[dict[str, Any]]:
        """What came and went by each port, as the guest sees it. Raises DriverError."""
        said = programs.must("The ports could not be counted", "ip", "-json", "-stats", "link", "show", "type", "tun")
        links = {link["ifname"]: link.get("stats64", {}) for link in json.loads(said or b"[]")}
        held = [one for one in self._held.values() if one.owner == owner]
        return [_counted(one.client.port.mac_address, links[one.device]) for one in held if one.device in links]

    # -- what they are made of

    def _usable(self, ports: Iterable[tuple[str, Client]]) -> Iterator[_Held]:
        """One that cannot be had keeps no other from its network."""
        for owner, client in ports:
            try:
                yield self._of(owner, client)
            except BuildAborted:
                log.exception("a port cannot be plugged: instance=%s", owner)

    def _of(self, owner: str, client: Client) -> _Held:
        port = client.port
        _require_usable(port)
        network = port.network_uuid or port.port_uuid  # of an earlier release: nobody else is in it
        held = _Held(owner, client, self.device_of(port), f"{self._names.bridges}{_short(network)}")
        rules.ruleset(self._names, [held.plug({})])  # what is wrong with it is said now
        return held

    def _make(self, held: _Held) -> None:
        links = self._links()
        if held.bridge not in links:
            self._make_bridge(held.bridge)
        elif ":" in "".join(one.ip_address for one in held.client.port.addresses):  # an earlier release made it
            programs.must(WHAT, "ip", "link", "set", held.bridge, "type", "bridge", *LOOKED_AT)
        if held.device not in links:
            programs.must(WHAT, "ip", "tuntap", "add", "dev", held.device, "mode", "tap")
        programs.must(WHAT, "ip", "link", "set", held.device, "master", held.bridge, "addrgenmode", "none", "up")

    @staticmethod
    def _make_bridge(name: str) -> None:
        """With an address of its own for its DHCP server and of no network's: the host's routes stay as they are."""
        mac = "02:" + ":".join(f"{byte:02x}" for byte in hashlib.sha256(name.encode()).digest()[:5])
        kind = ("type", "bridge", *LOOKED_AT, "mcast_snooping", "0")
        programs.must(WHAT, "ip", "link", "add", name, "address", mac, *kind)
        programs.must(WHAT, "ip", "address", "add", f"{SERVER}/32", "dev", name)
        programs.must(WHAT, "ip", "link", "set", name, "addrgenmode", "none", "up")

    def _serve(self, bridges: Iterable[str]) -> None:
        """Each bridge with its server, and none that has no port."""
        for bridge in sorted(bridges):
            clients = [held.client for held in self._held.values() if held.bridge == bridge]
            server = DhcpServer(self._folder, bridge)
            if any(client.leased for client in clients):
                server.serve(clients)
            else:
                server.end()
            if clients:
                self._metadata.serve(bridge, self._service_of(bridge), clients)
            else:
                self._metadata.end(bridge)
                self._remove(bridge)

    def _filter(self) -> None:
        plugs = [held.plug(self._filters) for held in self._held.values()]
        self._apply(rules.ruleset(self._names, plugs) if plugs else rules.nothing(self._names))

    @staticmethod
    def _apply(text: str) -> None:
        programs.must("The rules of the ports could not be applied", "nft", "-f", "-", given=text.encode())

    def _remove_left_over(self) -> None:
        """Of guests that went while nobody looked, and of a call that was cut off."""
        held = self._held.values()
        bridges = {one.bridge for one in held}
        wanted = {one.device for one in held} | bridges | {self._service_of(bridge) for bridge in bridges}
        for name in self._links() - wanted:
            self._metadata.end(name)
            self._remove(name)
        for settings in self._folder.glob(f"{self._names.bridges}*.dnsmasq"):
            if settings.stem not in wanted:
                DhcpServer(self._folder, settings.stem).end()
        self._filter()

    def _links(self) -> set[str]:
        """Devices of ours."""
        said = programs.must("The devices could not be listed", "ip", "-json", "link", "show")
        found = {str(link["ifname"]) for link in json.loads(said or b"[]") if "ifname" in link}
        return {name for name in found if name.startswith(self._names.kinds)}

    def _remove(self, name: str) -> None:
        if name in self._links():
            programs.must("The port could not be unplugged", "ip", "link", "delete", name)

    def _read(self) -> dict[str, PortFilter]:
        """None where there are none, or their writing was cut off: they are told again."""
        try:
            told = json.loads((self._folder / FILTERS).read_text())
            return {uuid: PortFilter.from_json(found) for uuid, found in told.items()}
        except (OSError, ValueError, TypeError):
            return {}

    def _write(self) -> None:
        told = {uuid: found.to_json() for uuid, found in self._filters.items()}
        try:
            part = self._folder / f"{FILTERS}.part"
            part.write_text(json.dumps(told))
            part.replace(self._folder / FILTERS)
        except OSError as error:
            raise DriverError(f"The rules of the ports could not be kept: {error.strerror}.") from error


def _short(name: str) -> str:
    """Names of devices have fifteen characters at most."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _require_usable(port: NetworkPort) -> None:
    """Of further addresses an earlier release did not tell where they belong."""
    told = [one for one in port.addresses if one.cidr or one.ip_address == port.ip_address]
    if not told:
        raise BuildAborted(f"Port {port.port_uuid} has no address.")
    for one in told:
        try:
            is_in = ip_address(one.ip_address) in ip_network(one.cidr)
        except ValueError:
            is_in = False
        if not is_in:
            raise BuildAborted(f"Port {port.port_uuid} has the address {one.ip_address}, which is not in {one.cidr!r}.")


def _counted(mac_address: str, stats: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """What the host's end has sent, the guest has received."""
    found: dict[str, Any] = {"mac_address": mac_address}
    for ours, theirs in (("tx", "rx"), ("rx", "tx")):
        told = stats.get(ours, {})
        found |= {f"{theirs}_octets": told.get("bytes", 0), f"{theirs}_packets": told.get("packets", 0)}
        found |= {f"{theirs}_drop": told.get("dropped", 0), f"{theirs}_errors": told.get("errors", 0)}
    return found
