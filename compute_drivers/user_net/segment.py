"""The network of one port, played by the agent: address and routes by DHCP, the metadata service, and nothing else."""

from __future__ import annotations

import ipaddress
import re

from compute_drivers import guest_metadata
from compute_drivers.guest_metadata import GuestPages
from compute_drivers.user_net import dhcp, packets
from compute_drivers.user_net.http import Exchange
from compute_drivers.user_net.tcp import TcpServer, refusal
from conductor.core.compute_driver import NetworkPort

# Of the one neighbour that the guest has; locally administered.
NEIGHBOUR = b"\x02nvla\x01"
METADATA = ipaddress.IPv4Address(guest_metadata.ADDRESS).packed
UNSPECIFIED = bytes(4)
PROHIBITED = (3, 13)
ECHO, ECHO_ANSWER = 8, 0
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9.-]")


class GuestSegment:
    """Frame in, frames out. A guest that claims another card or address than its port's is not heard."""

    def __init__(self, port: NetworkPort, hostname: str, pages: GuestPages) -> None:
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
        self._tcp = TcpServer(guest_metadata.TCP_PORT, lambda: Exchange(pages))

    def receive(self, data: bytes, now: float) -> list[bytes]:
        frame = packets.frame_of(data)
        if frame is None or frame.source != self._mac:
            return []
        if frame.kind == packets.ARP:
            return self._arp(frame.payload)
        packet = packets.packet_of(frame.payload) if frame.kind == packets.IPV4 else None
        if packet is None:
            return []
        told = packets.udp_of(packet.payload) if packet.protocol == packets.UDP else None
        if told is not None and told[1] == dhcp.SERVER_PORT:
            return self._dhcp(told[2])
        if packet.source != self._address or frame.target[0] & 1 or packet.target == packets.EVERYBODY:
            return []
        return [self._framed(one) for one in self._packet(packet, now)]

    def turn(self, now: float) -> list[bytes]:
        """What is due by the clock."""
        return [self._framed(self._segment(METADATA, one)) for one in self._tcp.turn(now)]

    def _arp(self, data: bytes) -> list[bytes]:
        asked = packets.arp_of(data)
        if asked is None or asked.operation != 1 or asked.target not in (self._server, METADATA):
            return []
        if asked.source_mac != self._mac or asked.source not in (self._address, UNSPECIFIED):
            return []
        said = packets.arp_answer(NEIGHBOUR, asked.target, asked)
        return [packets.frame(self._mac, NEIGHBOUR, packets.ARP, said)]

    def _dhcp(self, asked: bytes) -> list[bytes]:
        said = dhcp.answer(asked, self._mac, self._lease)
        if not said:
            return []
        datagram = packets.udp(dhcp.SERVER_PORT, dhcp.CLIENT_PORT, said)
        packet = packets.packet(self._server, packets.EVERYBODY, packets.UDP, datagram)
        # Everybody on this segment is the guest, which may not know its address yet.
        return [packets.frame(packets.BROADCAST, NEIGHBOUR, packets.IPV4, packet)]

    def _packet(self, packet: packets.Packet, now: float) -> list[bytes]:
        if packet.target not in (self._server, METADATA):
            return self._prohibited(packet)
        if packet.protocol == packets.ICMP:
            return self._echo(packet)
        came = packets.segment_of(packet.payload) if packet.protocol == packets.TCP else None
        if came is None:
            return self._prohibited(packet)
        if packet.target != METADATA or came.target_port != guest_metadata.TCP_PORT:
            said = [] if came.flags & packets.RST else [refusal(came)]
        else:
            said = self._tcp.receive(came, now)
        return [self._segment(packet.target, one) for one in said]

    def _echo(self, packet: packets.Packet) -> list[bytes]:
        if len(packet.payload) < 8 or packet.payload[0] != ECHO:
            return []
        said = packets.icmp(ECHO_ANSWER, 0, packet.payload[4:])
        return [packets.packet(packet.target, self._address, packets.ICMP, said)]

    def _prohibited(self, packet: packets.Packet) -> list[bytes]:
        """Said at once, so that nobody inside waits for what cannot be reached."""
        if packet.protocol == packets.ICMP and packet.payload[:1] != bytes([ECHO]):
            return []
        if ipaddress.IPv4Address(packet.target).is_multicast:
            return []
        said = packets.icmp(*PROHIBITED, bytes(4) + packet.whole[:28])
        return [packets.packet(self._server, self._address, packets.ICMP, said)]

    def _segment(self, source: bytes, wanted: packets.Segment) -> bytes:
        said = packets.segment(source, self._address, wanted)
        return packets.packet(source, self._address, packets.TCP, said)

    def _framed(self, packet: bytes) -> bytes:
        return packets.frame(self._mac, NEIGHBOUR, packets.IPV4, packet)


def _highest_first(network: ipaddress.IPv4Network) -> list[ipaddress.IPv4Address]:
    """The two highest usable addresses: one of them is not the guest's."""
    last = int(network.broadcast_address) - 1
    return [ipaddress.IPv4Address(last), ipaddress.IPv4Address(last - 1)]
