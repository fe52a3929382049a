"""Gives each port a network of QEMU's own, in which the guest gets its address and name and reaches nothing else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import BuildAborted

MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9.-]")
# Cards come after the devices that libvirt places, which begin at slot 2.
FIRST_SLOT = 0x10
MOST_PORTS = 15


def arguments(ports: Sequence[NetworkPort], hostname: str) -> list[str]:
    """QEMU's words for the guest's network cards. Raises BuildAborted for ports that this cannot serve."""
    if len(ports) > MOST_PORTS:
        raise BuildAborted(f"A guest on this host has at most {MOST_PORTS} ports, not {len(ports)}.")
    words: list[str] = []
    for index, port in enumerate(ports):
        if not MAC.fullmatch(port.mac_address):
            raise BuildAborted(f"Port {port.port_uuid} has no usable MAC address.")
        card = f"virtio-net-pci,netdev=port{index},mac={port.mac_address},bus=pci.0,addr={FIRST_SLOT + index:#x}"
        words += ["-netdev", _backend(index, port, hostname), "-device", card]
    return words


def _backend(index: int, port: NetworkPort, hostname: str) -> str:
    if not port.ip_address:
        return f"hubport,id=port{index},hubid={index}"  # a cable that ends nowhere
    try:
        network = ipaddress.IPv4Network(port.cidr)
        address = ipaddress.IPv4Address(port.ip_address)
        gateway = ipaddress.IPv4Address(port.gateway_ip) if port.gateway_ip else None
    except ValueError:
        raise BuildAborted(
            f"Port {port.port_uuid} has the address {port.ip_address} in {port.cidr}; "
            "guests on this host have IPv4 only."
        ) from None
    if address not in network:
        raise BuildAborted(f"Port {port.port_uuid} has the address {port.ip_address} outside of {port.cidr}.")
    free = _free(network, {address, gateway})
    # QEMU answers as gateway and name server itself: neither may be the guest's own address.
    host = gateway if gateway is not None and gateway in network and gateway != address else next(free, None)
    names = next(free, None)
    if host is None or names is None:
        raise BuildAborted(f"Network {port.cidr} is too small for a guest on this host.")
    name = NOT_IN_HOST_NAMES.sub("", hostname)
    words = {"net": network, "host": host, "dhcpstart": address, "dns": names, "hostname": name or "guest"}
    shown = ",".join(f"{key}={value}" for key, value in words.items())
    return f"user,id=port{index},restrict=on,ipv6=off,{shown}"


def _free(network: ipaddress.IPv4Network, taken: set[ipaddress.IPv4Address | None]) -> Iterator[ipaddress.IPv4Address]:
    """Usable addresses from the highest down: the lowest are the ones that people see in use."""
    for number in range(int(network.broadcast_address) - 1, int(network.network_address), -1):
        if ipaddress.IPv4Address(number) not in taken:
            yield ipaddress.IPv4Address(number)
