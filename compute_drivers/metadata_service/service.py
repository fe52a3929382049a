"""Metadata service of networks: a tap for each, where the agent answers at 169.254.169.254 and fe80::a9fe:a9fe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from compute_drivers import programs
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.metadata_service.frame_loop import FrameLoop
from compute_drivers.metadata_service.segment import MetadataReader, MetadataSegment
from conductor.core.compute_driver import NetworkPort
from conductor.core.errors import DriverError

SERVICE_FAILED = "The metadata service of the network could not be plugged"
LINK_LOCAL = int.from_bytes(b"\xfe\x80", "big") << 112


@dataclass(frozen=True)
class MetadataClient:
    """A port, and the metadata pages of its guest."""

    port: NetworkPort
    pages: MetadataPages


class MetadataService:
    """Serves networks: one tap for each, and one thread for all."""

    def __init__(self, attach: Callable[[str, str], None]) -> None:
        """`attach` connects a network and the device of its service, both given by name. Raises DriverError."""
        self._attach = attach
        self._loop = FrameLoop()
        self._segments: dict[str, MetadataSegment] = {}

    def serve(self, network: str, device: str, clients: Sequence[MetadataClient]) -> None:
        """Serve these clients of a network. Raises DriverError."""
        if device not in self._segments:
            self._segments[device] = self._plugged(network, device)
        self._segments[device].configure({reader: one.pages for one in clients for reader in _readers(one.port)})

    def end(self, device: str) -> None:
        """Stop serving at a device, and remove it."""
        self._segments.pop(device, None)
        self._loop.close(device)

    def stop(self) -> None:
        self._segments.clear()
        self._loop.stop()

    def _plugged(self, network: str, device: str) -> MetadataSegment:
        # Remove the tap of an earlier process that has not ended yet.
        programs.run("ip", "link", "delete", device)
        segment = MetadataSegment()
        try:
            self._loop.open(device, segment)
        except OSError as error:
            raise DriverError(f"{SERVICE_FAILED}: {error.strerror}.") from error
        try:
            self._attach(network, device)
        except BaseException:
            self._loop.close(device)
            raise
        return segment


def link_local(mac_address: str) -> IPv6Address:
    """Return the link-local address of a card: the EUI-64 of RFC 4291."""
    octets = bytes.fromhex(mac_address.replace(":", ""))
    made = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return IPv6Address(LINK_LOCAL | int.from_bytes(made, "big"))


def _readers(port: NetworkPort) -> Iterator[MetadataReader]:
    """Yield a reader for each address of the port, and for its link-local one where it has IPv6."""
    addresses = [one.ip_address for one in port.addresses]
    if any(":" in address for address in addresses):
        addresses.append(str(link_local(port.mac_address)))
    yield from (MetadataReader(port.mac_address, address) for address in addresses)
