"""Gives each port a network of QEMU's own, in which the guest gets its address and name and reaches nothing else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compute_drivers.libvirt.wishes import CARD_MODELS, PLAIN, SECURE
from compute_drivers.user_net.wires import WirePaths
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import BuildAborted

MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
SAFE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9.-]")
# Cards come after the devices that libvirt places, which begin at slot 2.
FIRST_SLOT = 0x10
MOST_PORTS = 15


@dataclass(frozen=True)
class Tap:
    """A device of the host's that a port is plugged into."""

    name: str


# The sockets or the device of a port; None where QEMU plays its network itself.
WiresOf = Callable[[NetworkPort], WirePaths | Tap | None]


def arguments(
    ports: Sequence[NetworkPort],
    hostname: str,
    model: str = "virtio",
    wires: WiresOf | None = None,
    machine: str = PLAIN,
) -> list[str]:
    """QEMU's words for the guest's network cards; `wires` lead to who plays their networks.

    Raises BuildAborted for ports that this cannot serve.
    """
    if len(ports) > MOST_PORTS:
        raise BuildAborted(f"A guest on this host has at most {MOST_PORTS} ports, not {len(ports)}.")
    words: list[str] = []
    for index, port in enumerate(ports):
        words += [
            "-netdev",
            _words(cable(index, port, hostname, wires)),
            "-device",
            _words(card(FIRST_SLOT + index, port, model, machine)),
        ]
    return words


def plugged(slot: int, port: NetworkPort, wires: WiresOf | None = None) -> list[str]:
    """The words for a card that was plugged while the guest ran."""
    return ["-netdev", _words(cable(slot, port, "", wires)), "-device", _words(card(slot, port))]


def by_card(words: Sequence[str]) -> dict[str, list[str]]:
    """The words of `arguments`, those of each card by its id."""
    found: dict[str, list[str]] = {}
    for start in range(0, len(words), 4):
        of_card = list(words[start : start + 4])
        identity = next(part for part in of_card[3].split(",") if part.startswith("id="))
        found[identity.removeprefix("id=")] = of_card
    return found


def card_id(port_uuid: str) -> str:
    """By this name QEMU knows the card of a port."""
    return f"card-{_safe(port_uuid)}"


def cable_id(port_uuid: str) -> str:
    return f"port-{_safe(port_uuid)}"


def card(slot: int, port: NetworkPort, model: str = "virtio", machine: str = PLAIN) -> dict[str, Any]:
    """The card in a slot of the guest's first PCI bus, as QEMU describes devices."""
    if not MAC.fullmatch(port.mac_address):
        raise BuildAborted(f"Port {port.port_uuid} has no usable MAC address.")
    return {
        "driver": CARD_MODELS[model],
        "netdev": cable_id(port.port_uuid),
        "id": card_id(port.port_uuid),
        "mac": port.mac_address,
        "bus": "pcie.0" if SECURE in machine else "pci.0",
        "addr": f"{slot:#x}",
    }


def cable(number: int, port: NetworkPort, hostname: str, wires: WiresOf | None = None) -> dict[str, Any]:
    """What the card is plugged into; `number` is its own within the guest."""
    name = cable_id(port.port_uuid)
    if not port.ip_address:
        return {"type": "hubport", "id": name, "hubid": number}  # a cable that ends nowhere
    paths = wires(port) if wires else None
    if isinstance(paths, Tap):
        return {"type": "tap", "id": name, "ifname": paths.name, "script": "no", "downscript": "no"}
    try:
        network = ipaddress.IPv4Network(port.cidr)
        address = ipaddress.IPv4Address(port.ip_address)
        gateway = ipaddress.IPv4Address(port.gateway_ip) if port.gateway_ip else None
    except ValueError:
        raise BuildAborted(
            f"Port {port.port_uuid} has the address {port.ip_address} in {port.cidr}; "
            "guests on this host have IPv4 only: its guest_network is not bridge."
        ) from None
    if address not in network:
        raise BuildAborted(f"Port {port.port_uuid} has the address {port.ip_address} outside of {port.cidr}.")
    free = _free(network, {address, gateway})
    # QEMU answers as gateway and name server itself: neither may be the guest's own address.
    host = gateway if gateway is not None and gateway in network and gateway != address else next(free, None)
    names = next(free, None)
    if host is None or names is None:
        raise BuildAborted(f"Network {port.cidr} is too small for a guest on this host.")
    if paths is not None:
        ends = {"local": paths.theirs, "remote": paths.ours}
        return {"type": "dgram", "id": name, **{end: {"type": "unix", "path": str(at)} for end, at in ends.items()}}
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


def _words(described: Mapping[str, Any]) -> str:
    """As the command line has it: the kind first, without its name."""
    (_, kind), *rest = described.items()
    return ",".join([str(kind), *_pairs(dict(rest))])


def _pairs(described: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in described.items():
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
    """Usable addresses from the highest down: the lowest are the ones that people see in use."""
    for number in range(int(network.broadcast_address) - 1, int(network.network_address), -1):
        if ipaddress.IPv4Address(number) not in taken:
            yield ipaddress.IPv4Address(number)
