"""Network cards of containers: each a cable whose far end lies in a network namespace that leads nowhere."""

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
WHAT = "The port could not be plugged"
ANY = {4: "0.0.0.0/0", 6: "::/0"}


class Cards:
    """`nowhere` is the namespace with the far ends, which no guest sees: what is plugged is read there."""

    def __init__(self, key: str) -> None:
        self.nowhere = f"novella-{key}"

    def prepare(self) -> None:
        """Raises DriverError."""
        if self.nowhere not in self._namespaces():
            done = programs.run("ip", "netns", "add", self.nowhere)
            if done.returncode and self.nowhere not in self._namespaces():
                said = programs.last_line(done.stderr)
                raise DriverError(f"The namespace of the network cards could not be made: {said}.")

    def plug(self, instance_uuid: str, pid: int, ports: Sequence[NetworkPort]) -> None:
        """Into the container of that init. Raises BuildAborted, DriverError."""
        there = self._plugged(instance_uuid)
        for port in ports:
            if port.port_uuid not in there:
                self._plug(instance_uuid, pid, port)

    def unplug(self, instance_uuid: str, port_uuid: str) -> None:
        """With its far end a card is gone."""
        far = self._plugged(instance_uuid).get(port_uuid)
        if far is not None:
            programs.must("The port could not be unplugged", "ip", "-n", self.nowhere, "link", "delete", far)

    def _plug(self, instance_uuid: str, pid: int, port: NetworkPort) -> None:
        settings = "\n".join(words(port))
        far, near = f"far{secrets.token_hex(5)}", self._free_name(pid)
        far_words = ("ip", "link", "add", "name", far, "netns", self.nowhere, "type", "veth")
        programs.must(WHAT, *far_words, "peer", "name", near, "address", port.mac_address, "netns", str(pid))
        try:
            label = f"{instance_uuid} {port.port_uuid}"
            programs.must(WHAT, "ip", "-n", self.nowhere, "link", "set", far, "alias", label, "up")
            enter = ("nsenter", f"--net=/proc/{pid}/ns/net")
            programs.must(WHAT, *enter, "ip", "-batch", "-", given=settings.replace("CARD", near).encode())
        except BaseException:
            programs.run("ip", "-n", self.nowhere, "link", "delete", far)
            raise

    @staticmethod
    def _free_name(pid: int) -> str:
        said = programs.must(WHAT, "nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-json", "link", "show")
        taken = {link["ifname"] for link in json.loads(said)}
        return next(name for number in range(len(taken) + 1) if (name := f"eth{number}") not in taken)

    def _plugged(self, instance_uuid: str) -> dict[str, str]:
        """The far ends of a guest's ports, by port."""
        said = programs.must(WHAT, "ip", "-n", self.nowhere, "-json", "link", "show")
        links: list[dict[str, Any]] = json.loads(said or b"[]")
        found = ((*link.get("ifalias", "").partition(" "), link.get("ifname", "")) for link in links)
        return {port: name for owner, _, port, name in found if owner == instance_uuid}

    @staticmethod
    def _namespaces() -> set[str]:
        said = programs.must("The network namespaces could not be listed", "ip", "netns", "list").decode()
        return {line.split()[0] for line in said.splitlines() if line.strip()}


def words(port: NetworkPort) -> list[str]:
    """What `ip` does for a port's card. Raises BuildAborted for a port that no host can make sense of."""
    if not SAFE_ID.fullmatch(port.port_uuid):
        raise BuildAborted("A port has no usable id.")
    if not MAC.fullmatch(port.mac_address):
        raise BuildAborted(f"Port {port.port_uuid} has no usable MAC address.")
    said = ["link set CARD up"]
    for one in port.addresses:
        if one.cidr:  # an earlier release does not tell where further ones belong
            said += _addressed(port.port_uuid, one)
    return said


def _addressed(port_uuid: str, told: PortAddress) -> list[str]:
    try:
        length = ipaddress.ip_network(told.cidr).prefixlen
        address = ipaddress.ip_interface(f"{told.ip_address}/{length}")
        gateway = ipaddress.ip_address(told.gateway_ip) if told.gateway_ip else None
    except ValueError:
        raise BuildAborted(f"Port {port_uuid} has no usable address: {told.ip_address} in {told.cidr}.") from None
    said = [f"address add {address} dev CARD{' nodad' if address.version == 6 else ''}"]
    if gateway is not None and gateway in address.network and gateway != address.ip:
        # The first card's way out stays the first.
        said.append(f"route append {ANY[address.version]} via {gateway} dev CARD")
    return said
