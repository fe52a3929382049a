"""A link to watch, made over HTTP, on a real guest: its serial line and its screen are seen, and no key arrives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.compute.console_relay import ConsoleRelay, RelayAddress
from conductor.conformance.driver import RecordedProgress
from conductor.core.consoles import ConsoleKind
from conductor.rpc.messages import ConsolesOffered
from conductor.services.consoles import connections, consoles, shares
from tests import factories
from tests.compute_drivers.real_guests import SHELF, wait_for
from tests.fixtures.consoles import Browser, heard, talk
from tests.guests import boot_disk, guest_of, image_of

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

# cli; stack; say !; then for ever: wait for a byte on the serial port, and send the next one of the alphabet
ECHO = bytes.fromhex("fa 31c0 8ed8 8ed0 bc007c ba f803 b0 21 ee ba fd03 ec a801 74fb ba f803 ec fec0 ee ebef")
RFB = b"RFB 003.008\n"
FORMAT = b"\0" + bytes(19)
ENCODINGS = b"\2\0\0\1" + bytes(4)  # raw pixels
WANT = b"\3\0" + bytes(4)


def echo_disk() -> bytes:
    return (ECHO.ljust(510, b"\0") + b"\x55\xaa").ljust(len(boot_disk()), b"\0")


@pytest.fixture
def server(people: Any, driver: LibvirtDriver) -> Iterator[Any]:
    disk = echo_disk()
    image = image_of(str(uuid4()), disk)
    SHELF.images[image.image_id] = disk
    relay = ConsoleRelay(
        RelayAddress("127.0.0.1", 0, "127.0.0.1"), lambda host, uuid, kind: driver.open_console(uuid, kind)
    )
    relay.start()
    factories.cells()
    factories.host("real-1")
    assert relay.announcement is not None
    connections.record("cell1", ConsolesOffered(host="real-1", **asdict(relay.announcement)))
    made = factories.instance(people.ana.context(), "web-1", host="real-1", node="real-1")
    driver.spawn(guest_of(str(made.uuid), image), RecordedProgress())
    wait_for(driver, str(made.uuid), b"!")
    yield made
    relay.stop()


async def look(screen: Browser) -> int:
    """Return how many bytes of the whole screen are not black."""
    await heard(screen, RFB)
    await screen.types(RFB)
    await heard(screen, b"\1")
    await screen.types(b"\1")
    await heard(screen, b"\0\0\0\0")
    await screen.types(b"\1")
    first = await screen.hears()
    while len(first) < 24:
        first += await screen.hears()
    width, height = int.from_bytes(first[:2]), int.from_bytes(first[2:4])
    await screen.types(ENCODINGS)
    await screen.types(WANT + width.to_bytes(2) + height.to_bytes(2))
    frame = b""
    while len(frame) < width * height * 4:
        frame += await screen.hears()
    return sum(map(bool, frame[16:]))


def test_a_viewer_of_a_real_guest_sees_output_and_sends_no_input(server: Any, people: Any, api_client: Any) -> None:
    path = f"/api/servers/{server.uuid}/console-shares"
    tokens = {}
    for kind in ("serial", "vnc"):
        answer = api_client("ana").post(path, {"kind": kind, "minutes": 15})
        assert answer.status_code == 201, answer.content
        shared = answer.json()["console_share"]["url"].rpartition("/")[2]
        tokens[kind] = shares.watch(people.rea.context(), shared, session_key="")[0].token
    mine = consoles.grant(people.ana.context(), str(server.uuid), ConsoleKind.SERIAL).token

    async def work(owner: Browser) -> None:
        watcher = Browser(tokens["serial"])
        assert await watcher.opens() == 0
        await owner.types("a")
        await heard(owner, b"b")
        await heard(watcher, b"b")
        await watcher.types("m")
        await owner.types("x")
        seen = await heard(owner, b"y")
        await owner.types("c")
        assert b"n" not in seen + await heard(owner, b"d")
        await watcher.hangs_up()

    talk(mine, work)

    assert talk(tokens["vnc"], look) > 100, "the screen of the firmware has letters"
