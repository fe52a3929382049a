"""QEMU's arguments for network cards and their backends."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compute_drivers.libvirt.machine_spec import NIC_MODELS, PLAIN, SECURE
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import BuildAborted

MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
SAFE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9.-]")
# PCI slots of cards, behind those that libvirt uses, which begin at slot 2.
FIRST_SLOT = 0x10
MAX_PORTS = 15


class OwnNetwork(enum.Enum):
    """A network of QEMU's own, in which a port is alone."""

    USER = enum.auto()  # gives the guest its address and name by DHCP; the guest reaches nothing else
    NONE = enum.auto()


@dataclass(frozen=True)
class Tap:
    """A tap device of the host, in a bridge of Open vSwitch.

    The guest's card fills in checksums, because Open vSwitch passes frames on as they are.
    """

    name: str


Backend = Tap | OwnNetwork
BackendOf = Callable[[NetworkPort], Backend]


def arguments(
    ports: Sequence[NetworkPort],
    hostname: str,
    model: str = "virtio",
    backends: BackendOf | None = None,
    machine: str = PLAIN,
) -> list[str]:
    """Return QEMU's arguments for the guest's network cards. Raises BuildAborted for ports that it cannot have."""
    if len(ports) > MAX_PORTS:
        raise BuildAborted(f"A guest on this host has at most {MAX_PORTS} ports, not {len(ports)}.")
    found: list[str] = []
    for index, port in enumerate(ports):
        found += [
            "-netdev",
            _argument(netdev(index, port, hostname, backends)),
            "-device",
            _argument(nic(FIRST_SLOT + index, port, model, machine)),
        ]
    return found


def attached_arguments(slot: int, port: NetworkPort, backends: BackendOf | None = None) -> list[str]:
    """Return the arguments for a card that was attached while the guest ran."""
    return ["-netdev", _argument(netdev(slot, port, "", backends)), "-device", _argument(nic(slot, port))]


def arguments_by_nic(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Group the arguments of the cards by the id of each card."""
    found: dict[str, list[str]] = {}
    for start in range(0, len(arguments), 4):
        of_nic = list(arguments[start : start + 4])
        identity = next(part for part in of_nic[3].split(",") if part.startswith("id="))
        found[identity.removeprefix("id=")] = of_nic
    return found


def nic_id(port_uuid: str) -> str:
    """Return QEMU's id for the card of a port."""
    return f"card-{_safe(port_uuid)}"


def netdev_id(port_uuid: str) -> str:
    """Return QEMU's id for the network backend of a port."""
    return f"port-{_safe(port_uuid)}"


def nic(slot: int, port: NetworkPort, model: str = "virtio", machine: str = PLAIN) -> dict[str, Any]:
    """Return the card in a slot of the guest's first PCI bus, as properties of a QEMU device."""
    if not MAC.fullmatch(port.mac_address):
        raise BuildAborted(f"Port {port.port_uuid} has no usable MAC address.")
    return {
        "driver": NIC_MODELS[model],
        "netdev": netdev_id(port.port_uuid),
        "id": nic_id(port.port_uuid),
        "mac": port.mac_address,
        "bus": "pcie.0" if SECURE in machine else "pci.0",
        "addr": f"{slot:#x}",
    }


def netdev(number: int, port: NetworkPort, hostname: str, backends: BackendOf | None = None) -> dict[str, Any]:
    """Return the backend of a card, as properties of a QEMU netdev; `number` is unique within the guest."""
    name = netdev_id(port.port_uuid)
    backend = backends(port) if backends else OwnNetwork.USER
    if backend is OwnNetwork.NONE or not port.ip_address:
        return {"type": "hubport", "id": name, "hubid": number}  # a hub without other ports
    if isinstance(backend, Tap):
        words = {"script": "no", "downscript": "no", "vnet_hdr": False}
        return {"type": "tap", "id": name, "ifname": backend.name, **words}
    return _user_network(name, port, hostname)


def _user_network(name: str, port: NetworkPort, hostname: str) -> dict[str, Any]:
    """Return a network that QEMU serves. It is restricted: otherwise the guest could reach the host's loopback."""
    try:
        network = ipaddress.IPv4Network(port.cidr)
        address = ipaddress.IPv4Address(port.ip_address)
        gateway = ipaddress.IPv4Address(port.gateway_ip) if port.gateway_ip else None
    except ValueError:
        raise BuildAborted(
            f"Port {port.port_uuid} has the address {port.ip_address} in {port.cidr}; "
            "guests on this host have IPv4 only: its guest_network is qemu."
        ) from None
    if address not in network:
        raise BuildAborted(f"Port {port.port_uuid} has the address {port.ip_address} outside of {port.cidr}.")
    free = _free(network, {address, gateway})
    # QEMU acts as gateway and name server: neither may be the guest's own address.
    host = gateway if gateway is not None and gateway in network and gateway != address else next(free, None)
    names = next(free, None)
    if host is None or names is None:
        raise BuildAborted(f"Network {port.cidr} is too small for a guest on this host.")
    return {
        "type": "user",
        "id": name,
        "restrict": True,
        "ipv6": False,
        "net": str(network),
        "host": str(host),
        "dhcpstart": str(address),
        "dns": str(names),
        "hostname": NOT_IN_HOST_NAMES.sub("", hostname) or "guest",
    }


def _argument(properties: Mapping[str, Any]) -> str:
    """Return properties as an argument: the first one's value, then name=value of the others."""
    (_, kind), *rest = properties.items()
    return ",".join([str(kind), *_pairs(dict(rest))])


def _pairs(properties: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{name}.")
        else:
            shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
            yield f"{prefix}{name}={shown.replace(',', ',,')}"


def _safe(port_uuid: str) -> str:
    if not SAFE_ID.fullmatch(port_uuid):
        raise BuildAborted("A port has no usable id.")
    return port_uuid


def _free(network: ipaddress.IPv4Network, taken: set[ipaddress.IPv4Address | None]) -> Iterator[ipaddress.IPv4Address]:
    """Yield free addresses from the highest down: the lowest are usually in use."""
    for number in range(int(network.broadcast_address) - 1, int(network.network_address), -1):
        if ipaddress.IPv4Address(number) not in taken:
            yield ipaddress.IPv4Address(number)
