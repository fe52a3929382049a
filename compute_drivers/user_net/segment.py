"""The network of one port, served by the agent: DHCP, the metadata service, and nothing else."""

from __future__ import annotations

import ipaddress
import re

from compute_drivers import metadata_pages
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.user_net import dhcp, packets
from compute_drivers.user_net.http import Exchange
from compute_drivers.user_net.tcp import TcpServer, refusal
from conductor.core.compute_driver import NetworkPort

# MAC address of the guest's only neighbor; locally administered.
NEIGHBOR_MAC = b"\x02nvla\x01"
METADATA = ipaddress.IPv4Address(metadata_pages.ADDRESS).packed
UNSPECIFIED = bytes(4)
ADMINISTRATIVELY_PROHIBITED = (3, 13)  # ICMP type and code
ECHO, ECHO_REPLY = 8, 0
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9.-]")


class GuestSegment:
    """Answers frames with frames; frames with another MAC or IP address than the port's are ignored."""

    def __init__(self, port: NetworkPort, hostname: str, pages: MetadataPages) -> None:
        self._mac = bytes.fromhex(port.mac_address.replace(":", ""))
        network = ipaddress.IPv4Network(port.cidr)
        address = ipaddress.IPv4Address(port.ip_address)
        gateway = ipaddress.IPv4Address(port.gateway_ip) if port.gateway_ip else None
        if gateway is not None and (gateway not in network or gateway == address):
            gateway = None
        server = gateway or next(one for one in _highest_first(network) if one != address)
        self._address, self._server = address.packed, server.packed
        self._lease = dhcp.Lease(
            address=address.packed,
            mask=network.netmask.packed,
            server=server.packed,
            gateway=gateway.packed if gateway else b"",
            metadata=METADATA,
            hostname=NOT_IN_HOST_NAMES.sub("", hostname) or "guest",
        )
        self._tcp = TcpServer(metadata_pages.TCP_PORT, lambda: Exchange(pages))

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        if frame is None or frame.source != self._mac:
            return []
        if frame.kind == packets.ARP:
            return self._arp(frame.payload)
        packet = packets.packet_of(frame.payload) if frame.kind == packets.IPV4 else None
        if packet is None:
            return []
        udp = packets.udp_of(packet.payload) if packet.protocol == packets.UDP else None
        if udp is not None and udp[1] == dhcp.SERVER_PORT:
            return self._dhcp(udp[2])
        if packet.source != self._address or frame.target[0] & 1 or packet.target == packets.BROADCAST_IP:
            return []
        return [self._framed(one) for one in self._packet(packet, now)]

    def tick(self, now: float) -> list[bytes]:
        """Return the frames that are due."""
        return [self._framed(self._segment(METADATA, one)) for one in self._tcp.tick(now)]

    def _arp(self, data: bytes) -> list[bytes]:
        requested = packets.arp_of(data)
        if requested is None or requested.operation != 1 or requested.target not in (self._server, METADATA):
            return []
        if requested.source_mac != self._mac or requested.source not in (self._address, UNSPECIFIED):
            return []
        reply = packets.arp_answer(NEIGHBOR_MAC, requested.target, requested)
        return [packets.frame(self._mac, NEIGHBOR_MAC, packets.ARP, reply)]

    def _dhcp(self, requested: bytes) -> list[bytes]:
        reply = dhcp.answer(requested, self._mac, self._lease)
        if not reply:
            return []
        datagram = packets.udp(dhcp.SERVER_PORT, dhcp.CLIENT_PORT, reply)
        packet = packets.packet(self._server, packets.BROADCAST_IP, packets.UDP, datagram)
        # Broadcast: the guest is alone on this segment and may not know its address yet.
        return [packets.frame(packets.BROADCAST, NEIGHBOR_MAC, packets.IPV4, packet)]

    def _packet(self, packet: packets.Packet, now: float) -> list[bytes]:
        if packet.target not in (self._server, METADATA):
            return self._prohibited(packet)
        if packet.protocol == packets.ICMP:
            return self._echo(packet)
        came = packets.segment_of(packet.payload) if packet.protocol == packets.TCP else None
        if came is None:
            return self._prohibited(packet)
        if packet.target != METADATA or came.target_port != metadata_pages.TCP_PORT:
            reply = [] if came.flags & packets.RST else [refusal(came)]
        else:
            reply = self._tcp.receive(came, now)
        return [self._segment(packet.target, one) for one in reply]

    def _echo(self, packet: packets.Packet) -> list[bytes]:
        if len(packet.payload) < 8 or packet.payload[0] != ECHO:
            return []
        reply = packets.icmp(ECHO_REPLY, 0, packet.payload[4:])
        return [packets.packet(packet.target, self._address, packets.ICMP, reply)]

    def _prohibited(self, packet: packets.Packet) -> list[bytes]:
        """Return an ICMP error, so that programs in the guest fail at once instead of waiting."""
        if packet.protocol == packets.ICMP and packet.payload[:1] != bytes([ECHO]):
            return []
        if ipaddress.IPv4Address(packet.target).is_multicast:
            return []
        reply = packets.icmp(*ADMINISTRATIVELY_PROHIBITED, bytes(4) + packet.whole[:28])
        return [packets.packet(self._server, self._address, packets.ICMP, reply)]

    def _segment(self, source: bytes, wanted: packets.Segment) -> bytes:
        reply = packets.segment(source, self._address, wanted)
        return packets.packet(source, self._address, packets.TCP, reply)

    def _framed(self, packet: bytes) -> bytes:
        return packets.frame(self._mac, NEIGHBOR_MAC, packets.IPV4, packet)


def _highest_first(network: ipaddress.IPv4Network) -> list[ipaddress.IPv4Address]:
    """Return the two highest usable addresses, of which at least one is not the guest's."""
    last = int(network.broadcast_address) - 1
    return [ipaddress.IPv4Address(last), ipaddress.IPv4Address(last - 1)]
