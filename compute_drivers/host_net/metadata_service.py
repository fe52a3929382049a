"""The agent's services for a network, behind a tap of their own: metadata and IPv6 addresses."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence

from compute_drivers import programs, taps
from compute_drivers.host_net.dhcp import Client
from compute_drivers.host_net.host_ports import link_local
from compute_drivers.host_net.ipv6_addresses import AddressSegment
from compute_drivers.user_net import packets
from compute_drivers.user_net.shared_metadata import MetadataReader, MetadataSegment
from compute_drivers.user_net.wires import MAX_FRAME_BYTES, Wires
from conductor.core.errors import DriverError

SERVICE_FAILED = "The metadata service of the network could not be plugged"
TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x0002 | 0x1000
KEY = "bridge"


class TapEnd:
    """This process's end of a tap. The kernel removes the tap with it, so a process that dies leaves none behind."""

    def __init__(self, device: str) -> None:
        """Raises OSError."""
        self.name = device
        self._tap = os.open(taps.TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self._tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), TAP_WITHOUT_HEADER))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._tap

    def receive(self) -> bytes:
        return os.read(self._tap, MAX_FRAME_BYTES)

    def send(self, frame: bytes) -> None:
        os.write(self._tap, frame)

    def close(self) -> None:
        tap, self._tap = self._tap, -1
        os.close(tap)

    def remove(self) -> None:
        """Do nothing: the tap is gone with its end."""


class BridgeSegment:
    """The services of one bridge."""

    def __init__(self) -> None:
        self.metadata = MetadataSegment()
        self.addresses = AddressSegment()

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        of_addresses = self.addresses.receive(frame) if frame is not None and frame.kind == packets.IPV6 else []
        return of_addresses or self.metadata.receive(data, now)

    def tick(self, now: float) -> list[bytes]:
        return [*self.metadata.tick(now), *self.addresses.tick(now)]


class MetadataService:
    """Serves bridges: one tap for each, and one thread for all."""

    def __init__(self, attach: Callable[[str, str], None], *, gives_addresses: bool = True) -> None:
        """`attach` connects a bridge and the device of its service, both given by name. Raises DriverError."""
        self._attach = attach
        self._gives_addresses = gives_addresses
        self._wires = Wires()
        self._segments: dict[str, BridgeSegment] = {}

    def serve(self, bridge: str, device: str, clients: Sequence[Client]) -> None:
        """Serve these clients. Raises DriverError."""
        if bridge not in self._segments:
            self._segments[bridge] = self._plugged(bridge, device)
        readers = {reader: one.pages for one in clients if one.pages is not None for reader in _readers(one)}
        self._segments[bridge].metadata.configure(readers)
        if self._gives_addresses:
            self._segments[bridge].addresses.configure({one.port.mac_address: one.port.addresses for one in clients})

    def end(self, bridge: str) -> None:
        """Stop serving a bridge."""
        self._segments.pop(bridge, None)
        self._wires.close(bridge)

    def stop(self) -> None:
        self._segments.clear()
        self._wires.stop()

    def _plugged(self, bridge: str, device: str) -> BridgeSegment:
        # Remove the tap of an earlier process that has not ended yet.
        programs.run("ip", "link", "delete", device)
        segment = BridgeSegment()
        try:
            self._wires.join(bridge, KEY, lambda: TapEnd(device), segment)
        except OSError as error:
            raise DriverError(f"{SERVICE_FAILED}: {error.strerror}.") from error
        try:
            self._attach(bridge, device)
        except BaseException:
            self._wires.close(bridge)
            raise
        return segment


def _readers(client: Client) -> Iterator[MetadataReader]:
    """Yield a reader for each address of the client, and for its link-local one where it has IPv6."""
    mac, addresses = client.port.mac_address, [one.ip_address for one in client.port.addresses]
    if any(":" in address for address in addresses):
        addresses.append(str(link_local(mac).network_address))
    yield from (MetadataReader(mac, address) for address in addresses)
