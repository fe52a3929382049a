"""IPv6 addresses of a bridge's guests: the agent's answer to each frame."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from ipaddress import IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_drivers.host_net import ipv6_addresses as ipv6
from compute_drivers.host_net.host_ports import link_local
from compute_drivers.host_net.ipv6_addresses import AddressSegment
from compute_drivers.user_net import packets
from conductor.core.compute_driver import PortAddress

MAC = "fa:16:3e:00:00:01"
CARD = bytes.fromhex(MAC.replace(":", ""))
LINK_LOCAL = link_local(MAC).network_address
ALL_ROUTERS, ALL_SERVERS = IPv6Address("ff02::2"), IPv6Address("ff02::1:2")
OWN_ID = (1, b"\0\1guest")
IDENTITY = b"\0\0\0\7"
STATEFUL = PortAddress("fd00:2::7", "fd00:2::/64", "", ("fd00:2::53", "9.9.9.9"), "dhcpv6-stateful")
MADE = PortAddress("fd00:1::f816:3eff:fe00:1", "fd00:1::/64", "fd00:1::1", ("fd00:1::53",), "slaac")
STATIC = PortAddress("fd00:3::7", "fd00:3::/64")


def serving(*addresses: PortAddress) -> AddressSegment:
    segment = AddressSegment()
    segment.configure({MAC: addresses})
    return segment


def frame(target: IPv6Address, protocol: int, payload: bytes, *, mac: bytes = CARD, hops: int = 255) -> packets.Frame:
    head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, hops) + LINK_LOCAL.packed + target.packed
    return packets.Frame(b"\x33\x33" + target.packed[-4:], mac, packets.IPV6, head + payload)


def solicits(**options: object) -> packets.Frame:
    return frame(ALL_ROUTERS, 58, bytes((133, 0, 0, 0, 0, 0, 0, 0)), **options)  # type: ignore[arg-type]


def says(kind: int, *options: tuple[int, bytes], mac: bytes = CARD) -> packets.Frame:
    packed = b"".join(struct.pack("!HH", code, len(data)) + data for code, data in options)
    return frame(ALL_SERVERS, packets.UDP, packets.udp(546, 547, bytes((kind, 1, 2, 3)) + packed), mac=mac)


def checked(body: bytes) -> tuple[bytes, bytes]:
    """Return the recipient, and the payload with its checksum verified."""
    assert body[:6] == CARD
    packet = body[14:]
    length, protocol = struct.unpack_from("!HB", packet, 4)
    source, target, payload = packet[8:24], packet[24:40], packet[40:]
    assert length == len(payload)
    assert source == ipv6.ROUTER_ADDRESS.packed
    assert packets.checksum(source + target + struct.pack("!IHBB", length, 0, 0, protocol) + payload) == 0
    return target, payload


def answered(segment: AddressSegment, requested: packets.Frame) -> tuple[int, Mapping[int, bytes]]:
    """Return the kind of a DHCPv6 answer, and its options."""
    (body,) = segment.receive(requested)
    target, payload = checked(body)
    assert target == LINK_LOCAL.packed
    assert struct.unpack_from("!HH", payload) == (547, 546)
    assert payload[9:12] == bytes((1, 2, 3)), "whose question it answers"
    return payload[8], ipv6._options(payload[12:])


def test_prefixes_are_advertised_as_the_subnets_say_and_no_port_is_a_router() -> None:
    (body,) = serving(MADE, STATEFUL, STATIC).receive(solicits())
    target, payload = checked(body)
    assert target == IPv6Address("ff02::1").packed
    kind, _, _, _, flags, lifetime = struct.unpack_from("!BBHBBH", payload)
    assert (kind, flags, lifetime) == (134, 0xC0, 0)
    options, place = [], 16
    while place < len(payload):
        options.append(payload[place : place + 8 * payload[place + 1]])
        place += 8 * payload[place + 1]
    prefixes = {one[16:32]: (one[2], one[3]) for one in options if one[0] == 3}
    assert prefixes == {
        IPv6Address("fd00:1::").packed: (64, 0xC0),
        IPv6Address("fd00:2::").packed: (64, 0x80),
    }, "from the first one addresses are made; the third is not reported"
    (names,) = [one for one in options if one[0] == 25]
    assert names[8:] == IPv6Address("fd00:1::53").packed + IPv6Address("fd00:2::53").packed


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("slaac", 0),
        ("dhcpv6-stateless", ipv6.OTHER),
        ("dhcpv6-stateful", ipv6.OTHER | ipv6.MANAGED),
    ],
)
def test_advertisement_flags_follow_the_address_mode(mode: str, flags: int) -> None:
    (body,) = serving(PortAddress("fd00::7", "fd00::/64", ipv6_mode=mode)).receive(solicits())
    assert checked(body)[1][5] == flags


def test_every_host_with_filters_gets_them_soon_after_a_start_and_again() -> None:
    segment = serving(MADE)
    assert len(segment.tick(10.0)) == 1
    assert segment.tick(11.0) == []
    assert len(segment.tick(10.0 + ipv6.ADVERTISEMENT_INTERVAL_SECONDS)) == 1
    segment.configure({MAC: (MADE,)})
    assert segment.tick(300.0) == [], "nothing new"
    segment.configure({MAC: (MADE, STATEFUL)})
    assert len(segment.tick(301.0)) == 1
    assert serving(STATIC).tick(10.0) == []
    assert serving(STATIC).receive(solicits()) == []


def test_unsigned_and_remote_messages_are_not_accepted() -> None:
    segment = serving(MADE, STATEFUL)
    assert segment.receive(solicits(mac=b"\2stran")) == []
    assert segment.receive(solicits(hops=64)) == []
    assert segment.receive(says(ipv6.SOLICIT, OWN_ID, mac=b"\2stran")) == []


def test_an_address_is_offered_requested_renewed_and_released() -> None:
    segment = serving(MADE, STATEFUL)
    wants, server = (ipv6.IA_NA, IDENTITY + bytes(8)), (ipv6.SERVER_ID, ipv6.DUID)
    kind, offered = answered(segment, says(ipv6.SOLICIT, OWN_ID, wants))
    assert kind == ipv6.ADVERTISE
    assert offered[ipv6.CLIENT_ID] == OWN_ID[1]
    assert offered[ipv6.SERVER_ID] == ipv6.DUID
    assert offered[ipv6.IA_NA][:4] == IDENTITY
    first = ipv6._options(offered[ipv6.IA_NA][12:])[ipv6.IA_ADDRESS]
    assert first[:16] == IPv6Address("fd00:2::7").packed
    assert struct.unpack("!II", first[16:]) == (86400, 86400)
    assert IPv6Address("fd00:2::53").packed in offered[ipv6.DNS_SERVERS]
    for wanted in (ipv6.REQUEST, ipv6.RENEW):
        assert answered(segment, says(wanted, OWN_ID, server, wants))[0] == ipv6.REPLY
        assert segment.receive(says(wanted, OWN_ID, wants)) == [], "no server was chosen"
        assert segment.receive(says(wanted, OWN_ID, (ipv6.SERVER_ID, b"another"), wants)) == []
    kind, quick = answered(segment, says(ipv6.SOLICIT, OWN_ID, wants, (ipv6.RAPID_COMMIT, b"")))
    assert kind == ipv6.REPLY
    assert ipv6.RAPID_COMMIT in quick
    for address, status in (("fd00:2::7", ipv6.SUCCESS), ("fd00:2::8", ipv6.NOT_ON_LINK)):
        held = struct.pack("!HH", ipv6.IA_ADDRESS, 24) + IPv6Address(address).packed + bytes(8)
        _, received = answered(segment, says(ipv6.CONFIRM, OWN_ID, (ipv6.IA_NA, IDENTITY + bytes(8) + held)))
        assert received[ipv6.STATUS] == struct.pack("!H", status)
    assert answered(segment, says(ipv6.RELEASE, OWN_ID, server))[0] == ipv6.REPLY


def test_a_guest_with_slaac_gets_only_dns_names() -> None:
    segment = serving(PortAddress("fd00::7", "fd00::/64", "", ("fd00::53",), "dhcpv6-stateless"))
    kind, received = answered(segment, says(ipv6.INFORM))
    assert kind == ipv6.REPLY
    assert received == {ipv6.SERVER_ID: ipv6.DUID, ipv6.DNS_SERVERS: IPv6Address("fd00::53").packed}
    _, refused = answered(segment, says(ipv6.SOLICIT, OWN_ID, (ipv6.IA_NA, IDENTITY + bytes(8))))
    assert ipv6._options(refused[ipv6.IA_NA][12:]) == {ipv6.STATUS: struct.pack("!H", ipv6.NO_ADDRESS)}


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=90), st.sampled_from([17, 58]))
def test_no_frame_of_a_guest_raises_an_error(data: bytes, protocol: int) -> None:
    segment = serving(MADE, STATEFUL)
    for requested in (
        frame(ALL_SERVERS, protocol, data),
        frame(ALL_SERVERS, 17, packets.udp(546, 547, data)),
        packets.Frame(b"", CARD, packets.IPV6, data),
    ):
        for body in segment.receive(requested):
            checked(body)
