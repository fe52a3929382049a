"""What this process is to a network on its host, at the end of a tap on its bridge: metadata and IPv6 addresses."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence

from compute_drivers import programs
from compute_drivers.host_net.dhcp import Client
from compute_drivers.host_net.ipv6 import AddressSegment
from compute_drivers.host_net.plugs import link_local
from compute_drivers.user_net import packets
from compute_drivers.user_net.metadata_segment import MetadataSegment, Reader
from compute_drivers.user_net.wires import LARGEST_FRAME, Wires
from conductor.core.errors import DriverError

WHAT = "The metadata service of the network could not be plugged"
TUN = "/dev/net/tun"
TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x0002 | 0x1000
KEY = "bridge"


class TapEnd:
    """Our end of a tap, which the kernel removes with it: a process that dies leaves none behind."""

    def __init__(self, device: str) -> None:
        """Raises OSError."""
        self.name = device
        self._tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self._tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), TAP_WITHOUT_HEADER))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._tap

    def receive(self) -> bytes:
        return os.read(self._tap, LARGEST_FRAME)

    def send(self, frame: bytes) -> None:
        os.write(self._tap, frame)

    def close(self) -> None:
        tap, self._tap = self._tap, -1
        os.close(tap)

    def remove(self) -> None:
        """It is gone with its end."""


class BridgeSegment:
    """All that is at that end, by what is asked."""

    def __init__(self) -> None:
        self.metadata = MetadataSegment()
        self.addresses = AddressSegment()

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        of_addresses = self.addresses.receive(frame) if frame is not None and frame.kind == packets.IPV6 else []
        return of_addresses or self.metadata.receive(data, now)

    def turn(self, now: float) -> list[bytes]:
        return [*self.metadata.turn(now), *self.addresses.turn(now)]


class MetadataService:
    """One tap per bridge, and one thread for all of them."""

    def __init__(self) -> None:
        self._wires = Wires()
        self._segments: dict[str, BridgeSegment] = {}

    def serve(self, bridge: str, device: str, clients: Sequence[Client]) -> None:
        """Answer these from now on. Raises DriverError."""
        if bridge not in self._segments:
            self._segments[bridge] = self._plugged(bridge, device)
        readers = {reader: one.pages for one in clients if one.pages is not None for reader in _readers(one)}
        self._segments[bridge].metadata.tell(readers)
        self._segments[bridge].addresses.tell({one.port.mac_address: one.port.addresses for one in clients})

    def end(self, bridge: str) -> None:
        """Nothing where there is none."""
        self._segments.pop(bridge, None)
        self._wires.close(bridge)

    def stop(self) -> None:
        self._segments.clear()
        self._wires.stop()

    def _plugged(self, bridge: str, device: str) -> BridgeSegment:
        # Of a process that has not ended yet; whoever came last has it.
        programs.run("ip", "link", "delete", device)
        segment = BridgeSegment()
        try:
            self._wires.join(bridge, KEY, lambda: TapEnd(device), segment)
        except OSError as error:
            raise DriverError(f"{WHAT}: {error.strerror}.") from error
        try:
            programs.must(WHAT, "ip", "link", "set", device, "master", bridge, "addrgenmode", "none", "up")
        except BaseException:
            self._wires.close(bridge)
            raise
        return segment


def _readers(client: Client) -> Iterator[Reader]:
    """By each of its addresses, and where it speaks IPv6 by what its card calls itself on the link."""
    mac, addresses = client.port.mac_address, [one.ip_address for one in client.port.addresses]
    if any(":" in address for address in addresses):
        addresses.append(str(link_local(mac).network_address))
    yield from (Reader(mac, address) for address in addresses)
