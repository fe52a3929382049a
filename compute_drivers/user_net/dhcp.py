"""Answers DHCP requests of a guest with the address of its port."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

CLIENT_PORT, SERVER_PORT = 68, 67
LEASE_SECONDS = 86400
DISCOVER, OFFER, REQUEST, ACK, NAK, INFORM = 1, 2, 3, 5, 6, 8
MASK, ROUTER, NAME, WANTED, LEASE, KIND, SERVER, ROUTES, END = 1, 3, 12, 50, 51, 53, 54, 121, 255
ANSWERS = {DISCOVER: OFFER, REQUEST: ACK, INFORM: ACK}
NOWHERE = bytes(4)
_MAGIC = b"\x63\x82\x53\x63"
_HEAD = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")


@dataclass(frozen=True)
class Lease:
    """The values of a lease. Addresses are four bytes; `gateway` is empty where the network has none."""

    address: bytes
    mask: bytes
    server: bytes
    gateway: bytes
    metadata: bytes
    hostname: str


def answer(requested: bytes, mac: bytes, lease: Lease) -> bytes:
    """Return the reply to a DHCP message; b"" where there is none."""
    if len(requested) < _HEAD.size:
        return b""
    operation, _, _, _, transaction, _, flags, has, _, _, _, caller, _, _, magic = _HEAD.unpack_from(requested)
    if operation != 1 or magic != _MAGIC or caller[:6] != mac:
        return b""
    given = _options(requested[_HEAD.size :])
    kind = given.get(KIND, b"\0")[:1][0] if given.get(KIND) else 0
    if kind not in ANSWERS or given.get(SERVER, lease.server) != lease.server:
        return b""
    reply = ANSWERS[kind]
    if kind == REQUEST and given.get(WANTED, has) != lease.address:
        reply = NAK
    yours = lease.address if kind != INFORM and reply != NAK else NOWHERE
    head = _HEAD.pack(
        2,
        1,
        6,
        0,
        transaction,
        0,
        flags,
        has if kind == INFORM else NOWHERE,
        yours,
        lease.server,
        NOWHERE,
        caller,
        b"",
        b"",
        _MAGIC,
    )
    options = {KIND: bytes([reply]), SERVER: lease.server}
    if reply != NAK:
        options |= _facts(lease, is_leased=kind != INFORM)
    return (head + _packed(options)).ljust(300, b"\0")


def _facts(lease: Lease, *, is_leased: bool) -> dict[int, bytes]:
    # Clients that use the routes option ignore the router option, so the default route is in both.
    routes = b"\x20" + lease.metadata + lease.server + (b"\0" + lease.gateway if lease.gateway else b"")
    facts = {MASK: lease.mask, NAME: lease.hostname.encode("ascii", "ignore")[:255], ROUTES: routes}
    if lease.gateway:
        facts[ROUTER] = lease.gateway
    if is_leased:
        facts[LEASE] = struct.pack("!I", LEASE_SECONDS)
    return facts


def _options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    place = 0
    while place < len(data) and data[place] != END:
        if data[place] == 0:
            place += 1
            continue
        size = data[place + 1] if place + 1 < len(data) else 0
        found[data[place]] = data[place + 2 : place + 2 + size]
        place += 2 + size
    return found


def _packed(options: Mapping[int, bytes]) -> bytes:
    return b"".join(bytes([code, len(data)]) + data for code, data in options.items() if data) + bytes([END])
