"""Network cards of containers: veth pairs whose far ends are on OVN, or in an isolated network namespace."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from compute_drivers import programs, taps
from compute_drivers.container.options import OVN, ContainerOptions
from compute_drivers.container.paths import ContainerPaths
from compute_drivers.ovn_net.integration_bridge import IntegrationBridge
from compute_drivers.ovn_net.ovn_net import device_prefix
from compute_drivers.taps import PLUG_FAILED
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted, DriverError

MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
SAFE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}
# Words by which a program runs in a container's network.
Entry = tuple[str, ...]


class FarEnds(Protocol):
    """Place of the far ends of cards.

    Attributes:
        ip: The command `ip` for the namespace of the far ends.
        placement: Words of `ip link add` that make a far end there.
    """

    ip: tuple[str, ...]
    placement: tuple[str, ...]

    def prepare(self) -> None:
        """Get ready, and remove what containers left that have ended. Raises DriverError."""

    def name_of(self, port_uuid: str) -> str:
        """Return a name for the far end of a new card."""

    def connect(self, far: str, port_uuid: str, owner: str, near: str, entry: Entry) -> None:
        """Connect a far end whose card is `near` in the container of `entry`. Raises DriverError."""

    def disconnect(self, far: str) -> None:
        """Disconnect a far end, if it is connected. Raises DriverError."""

    def close(self, owner: str) -> None:
        """Disconnect the far ends of a container that has ended. Raises DriverError."""


class IsolatedEnds:
    """Far ends in a namespace that has no way out."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.ip: tuple[str, ...] = ("ip", "-n", namespace)
        self.placement: tuple[str, ...] = ("netns", namespace)

    def prepare(self) -> None:
        if self.namespace not in _namespaces():
            done = programs.run("ip", "netns", "add", self.namespace)
            if done.returncode and self.namespace not in _namespaces():
                cause = programs.last_line(done.stderr)
                raise DriverError(f"The namespace of the network cards could not be made: {cause}.")

    def name_of(self, port_uuid: str) -> str:
        return f"far{secrets.token_hex(5)}"

    def connect(self, far: str, port_uuid: str, owner: str, near: str, entry: Entry) -> None:
        pass

    def disconnect(self, far: str) -> None:
        pass

    def close(self, owner: str) -> None:
        pass


class OvnEnds:
    """Far ends in Open vSwitch's bridge. The kernel removes them with their container, but not their ports."""

    ip: tuple[str, ...] = ("ip",)
    placement: tuple[str, ...] = ()

    def __init__(self, bridge: IntegrationBridge, prefix: str, seconds: float, mtu: int) -> None:
        """Describe far ends whose names begin with `prefix`; OVN may take so many seconds to set up a port."""
        self._bridge = bridge
        self._prefix = prefix
        self._seconds = seconds
        self._mtu = mtu

    def prepare(self) -> None:
        if cause := self._bridge.missing():
            raise DriverError(f"Option container.guest_network: {OVN} cannot be had here: {cause}.")
        self._remove(self._bridge.ports() - taps.devices(self._prefix))

    def name_of(self, port_uuid: str) -> str:
        return f"{self._prefix}{taps.short(port_uuid)}"

    def connect(self, far: str, port_uuid: str, owner: str, near: str, entry: Entry) -> None:
        programs.check_output(PLUG_FAILED, *entry, "ip", "link", "set", near, "mtu", str(self._mtu))
        # Open vSwitch passes frames on as they are, so the card fills in checksums.
        programs.check_output(PLUG_FAILED, *entry, "ethtool", "-K", near, "tx", "off")
        self._bridge.add(far, port_uuid, owner)
        self._bridge.await_installed(far, port_uuid, self._seconds)

    def disconnect(self, far: str) -> None:
        self._bridge.remove(far)

    def close(self, owner: str) -> None:
        self._remove(self._bridge.ports(owner))

    def _remove(self, devices: Iterable[str]) -> None:
        for device in devices:
            self._bridge.remove(device)


def far_ends_of(host: str, paths: ContainerPaths, options: ContainerOptions) -> FarEnds:
    """Return the far ends that the option `guest_network` asks for."""
    if options.guest_network != OVN:
        return IsolatedEnds(f"novella-{paths.key}")
    bridge = IntegrationBridge(host, options.ovs_run_dir, options.ovn_run_dir)
    return OvnEnds(bridge, device_prefix(paths.state_dir), options.plug_seconds, options.network_mtu)


class NetworkCards:
    """Plugs ports into containers.

    A far end is labelled with its container and port. No guest can see it, so it is the record of what is plugged.
    """

    def __init__(self, far_ends: FarEnds) -> None:
        self.far_ends = far_ends

    def prepare(self) -> None:
        """Raises DriverError where this machine lacks what the cards need."""
        self.far_ends.prepare()

    def plug(self, instance_uuid: str, pid: int, ports: Sequence[NetworkPort]) -> None:
        """Plug ports into the container with init process `pid`. Raises BuildAborted, DriverError."""
        plugged = self._plugged(instance_uuid)
        for port in ports:
            if port.port_uuid not in plugged:
                self._plug(instance_uuid, pid, port)

    def unplug(self, instance_uuid: str, port_uuid: str) -> None:
        """Remove a card by deleting its far end."""
        far = self._plugged(instance_uuid).get(port_uuid)
        if far is not None:
            self.far_ends.disconnect(far)
            programs.check_output("The port could not be unplugged", *self.far_ends.ip, "link", "delete", far)

    def close(self, instance_uuid: str) -> None:
        """Unplug the ports of a container that has ended: its cards are gone with it. Raises DriverError."""
        self.far_ends.close(instance_uuid)

    def _plug(self, instance_uuid: str, pid: int, port: NetworkPort) -> None:
        ip_commands(port)  # raises before anything is made
        ends, entry = self.far_ends, ("nsenter", f"--net=/proc/{pid}/ns/net")
        far, near = ends.name_of(port.port_uuid), _free_name(entry)
        ends.disconnect(far)  # a port whose device was replaced passes nothing
        add_far_end = ("ip", "link", "add", "name", far, *ends.placement, "type", "veth")
        programs.check_output(
            PLUG_FAILED, *add_far_end, "peer", "name", near, "address", port.mac_address, "netns", str(pid)
        )
        try:
            label = f"{instance_uuid} {port.port_uuid}"
            programs.check_output(
                PLUG_FAILED, *ends.ip, "link", "set", far, "alias", label, "addrgenmode", "none", "up"
            )
            commands = "\n".join(ip_commands(port)).replace("CARD", near)
            programs.check_output(PLUG_FAILED, *entry, "ip", "-batch", "-", given=commands.encode())
            ends.connect(far, port.port_uuid, instance_uuid, near, entry)
        except BaseException:
            ends.disconnect(far)
            programs.run(*ends.ip, "link", "delete", far)
            raise

    def _plugged(self, instance_uuid: str) -> dict[str, str]:
        """Return the names of a guest's far ends by port."""
        output = programs.check_output(PLUG_FAILED, *self.far_ends.ip, "-json", "link", "show")
        links: list[dict[str, Any]] = json.loads(output or b"[]")
        found = ((*link.get("ifalias", "").partition(" "), link.get("ifname", "")) for link in links)
        return {port: name for owner, _, port, name in found if owner == instance_uuid}


def _free_name(entry: Entry) -> str:
    output = programs.check_output(PLUG_FAILED, *entry, "ip", "-json", "link", "show")
    taken = {link["ifname"] for link in json.loads(output)}
    return next(name for number in range(len(taken) + 1) if (name := f"eth{number}") not in taken)


def _namespaces() -> set[str]:
    output = programs.check_output("The network namespaces could not be listed", "ip", "netns", "list").decode()
    return {line.split()[0] for line in output.splitlines() if line.strip()}


def ip_commands(port: NetworkPort) -> list[str]:
    """Return the commands for `ip -batch` that configure a card. Raises BuildAborted for an invalid port."""
    if not SAFE_ID.fullmatch(port.port_uuid):
        raise BuildAborted("A port has no usable id.")
    if not MAC.fullmatch(port.mac_address):
        raise BuildAborted(f"Port {port.port_uuid} has no usable MAC address.")
    commands = ["link set CARD up"]
    for one in port.addresses:
        if one.cidr:  # an earlier release sends further addresses without their subnet
            commands += _address_commands(port.port_uuid, one)
    return commands


def _address_commands(port_uuid: str, given: PortAddress) -> list[str]:
    try:
        length = ipaddress.ip_network(given.cidr).prefixlen
        address = ipaddress.ip_interface(f"{given.ip_address}/{length}")
        gateway = ipaddress.ip_address(given.gateway_ip) if given.gateway_ip else None
    except ValueError:
        raise BuildAborted(f"Port {port_uuid} has no usable address: {given.ip_address} in {given.cidr}.") from None
    commands = [f"address add {address} dev CARD{' nodad' if address.version == 6 else ''}"]
    if gateway is not None and gateway in address.network and gateway != address.ip:
        # append: the default route of the first card keeps precedence.
        commands.append(f"route append {DEFAULT_ROUTES[address.version]} via {gateway} dev CARD")
    return commands
