"""Network cards of containers: veth pairs whose far ends are in an isolated network namespace of the host."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from compute_drivers import programs
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted, DriverError

MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
SAFE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
PLUG_FAILED = "The port could not be plugged"
DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}


class NetworkCards:
    """Plugs ports into containers.

    `namespace` holds the far ends. No guest can see it, so it is the record of what is plugged.
    """

    def __init__(self, key: str) -> None:
        self.namespace = f"novella-{key}"

    def prepare(self) -> None:
        """Create the namespace. Raises DriverError."""
        if self.namespace not in self._namespaces():
            done = programs.run("ip", "netns", "add", self.namespace)
            if done.returncode and self.namespace not in self._namespaces():
                cause = programs.last_line(done.stderr)
                raise DriverError(f"The namespace of the network cards could not be made: {cause}.")

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
            programs.check_output("The port could not be unplugged", "ip", "-n", self.namespace, "link", "delete", far)

    def _plug(self, instance_uuid: str, pid: int, port: NetworkPort) -> None:
        ip_commands(port)  # raises before anything is made
        far, near = f"far{secrets.token_hex(5)}", self._free_name(pid)
        add_far_end = ("ip", "link", "add", "name", far, "netns", self.namespace, "type", "veth")
        programs.check_output(
            PLUG_FAILED, *add_far_end, "peer", "name", near, "address", port.mac_address, "netns", str(pid)
        )
        try:
            label = f"{instance_uuid} {port.port_uuid}"
            programs.check_output(PLUG_FAILED, "ip", "-n", self.namespace, "link", "set", far, "alias", label, "up")
            enter = ("nsenter", f"--net=/proc/{pid}/ns/net")
            commands = "\n".join(ip_commands(port)).replace("CARD", near)
            programs.check_output(PLUG_FAILED, *enter, "ip", "-batch", "-", given=commands.encode())
        except BaseException:
            programs.run("ip", "-n", self.namespace, "link", "delete", far)
            raise

    @staticmethod
    def _free_name(pid: int) -> str:
        enter = ("nsenter", f"--net=/proc/{pid}/ns/net")
        output = programs.check_output(PLUG_FAILED, *enter, "ip", "-json", "link", "show")
        taken = {link["ifname"] for link in json.loads(output)}
        return next(name for number in range(len(taken) + 1) if (name := f"eth{number}") not in taken)

    def _plugged(self, instance_uuid: str) -> dict[str, str]:
        """Return the names of a guest's far ends by port."""
        output = programs.check_output(PLUG_FAILED, "ip", "-n", self.namespace, "-json", "link", "show")
        links: list[dict[str, Any]] = json.loads(output or b"[]")
        found = ((*link.get("ifalias", "").partition(" "), link.get("ifname", "")) for link in links)
        return {port: name for owner, _, port, name in found if owner == instance_uuid}

    @staticmethod
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
