"""Console shares through the real proxy and console port: what a watcher sees, filtered input, and how it ends."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import ConsoleShare, ConsoleToken
from conductor.cell_db.models import Instance
from conductor.compute import console_relay
from conductor.compute.console_relay import ConsoleRelay, RelayAddress
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import database_now
from conductor.identity.models import RoleAssignment
from conductor.journal.models import AuditRecord
from conductor.rpc.messages import ConsolesOffered
from conductor.services.consoles import connections, shares
from portal.live import consoles as sockets
from tests import factories
from tests.fixtures.consoles import RFB, Browser, ending, granted_to, heard, talk
from tests.waiting import WAIT_SECONDS

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

VNC, SERIAL = ConsoleKind.VNC, ConsoleKind.SERIAL
FORMAT = b"\0" + bytes(19)
ENCODINGS = b"\2\0\0\2" + bytes(8)
WANT = b"\3\1" + bytes(8)
KEY, POINTER, PASTE, RESIZE = b"\4\1" + bytes(6), b"\5" + bytes(5), b"\6" + bytes(6) + b"\2hi", b"\xfb" + bytes(7)


class Guests:
    """The guests' ends of the consoles that were opened, in that order."""

    def __init__(self) -> None:
        self._ends: list[socket.socket] = []

    def open(self, host: str, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(WAIT_SECONDS)
        self._ends.append(ours)
        return theirs

    async def hears(self, amount: int, number: int = 0) -> bytes:
        """Return the next so many bytes that have arrived there."""
        heard = b""
        while len(heard) < amount and (piece := await asyncio.to_thread(self._ends[number].recv, amount - len(heard))):
            heard += piece
        return heard

    def says(self, words: bytes, number: int = 0) -> None:
        self._ends[number].sendall(words)

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.fixture
def guests() -> Iterator[Guests]:
    made = Guests()
    yield made
    made.close()


@pytest.fixture
def server(people: Any, guests: Guests) -> Iterator[Instance]:
    """Ana's server, on a host with a real console port."""
    relay = ConsoleRelay(RelayAddress("127.0.0.1", 0, "127.0.0.1"), guests.open)
    relay.start()
    factories.cells()
    factories.host("host-1")
    announcement = relay.announcement
    assert announcement is not None
    reported = ConsolesOffered(host="host-1", **asdict(announcement))
    connections.record("cell1", reported)
    yield factories.instance(people.ana.context(), "web-1", host="host-1", node="host-1")
    relay.stop()


def link(people: Any, server: Instance, kind: ConsoleKind = SERIAL) -> str:
    return shares.share(people.ana.context(), str(server.uuid), kind, 15)[0]


def watching(people: Any, token: str, who: str = "rea") -> str:
    """Return the token of a watcher's own socket."""
    return shares.watch(people[who].context(), token, session_key="")[0].token


def test_a_viewer_of_a_serial_console_sees_output_and_sends_no_input(
    people: Any, server: Instance, guests: Guests
) -> None:
    shared = link(people, server)
    first, second = watching(people, shared), watching(people, shared, "admin")
    again = granted_to(people, "ana", server, SERIAL)

    async def work(owner: Browser) -> None:
        guests.says(b"login: ")
        await heard(owner, b"login: ")
        watchers = [Browser(first), Browser(second)]
        for watcher in watchers:
            assert await watcher.opens() == 0
            await heard(watcher, b"login: ")  # what was written before
            await watcher.types(b"rm -rf\r")
            await watcher.types("as text")
        await owner.types("ana\r")
        assert await guests.hears(4) == b"ana\r"
        guests.says(b"welcome")
        for one in (owner, *watchers):
            await heard(one, b"welcome")
        other = Browser(again)  # a client that takes the session over is filtered as well
        assert await other.opens() == 0
        await other.types("id\r")
        assert await guests.hears(3, 1) == b"id\r"
        guests.says(b"uid=0", 1)
        for one in (other, *watchers):
            await heard(one, b"uid=0")
        for one in (other, *watchers):
            await one.hangs_up()

    talk(granted_to(people, "ana", server, SERIAL), work)
    rows = AuditRecord.objects.filter(action="server.watch_console").order_by("pk")
    assert [(one.user_name, one.project_id) for one in rows] == [(n, server.project_id) for n in ("rea", "admin")]


def test_a_screen_receives_from_a_viewer_only_what_drawing_needs(people: Any, server: Instance, guests: Guests) -> None:
    greeting, words = RFB + b"\1", FORMAT + KEY + ENCODINGS + POINTER + PASTE + WANT + RESIZE + KEY + WANT

    async def work(browser: Browser) -> None:
        for piece in (greeting, b"\0", words[:33], words[33:70], words[70:]):
            await browser.types(piece)

    async def watched(watcher: Browser) -> None:
        await work(watcher)
        shown = greeting + b"\1" + FORMAT + ENCODINGS + WANT + WANT  # shared, whatever the client asked for
        assert await guests.hears(len(shown)) == shown
        guests.says(b"picture")
        await heard(watcher, b"picture")
        await watcher.types(b"\x63 what is that?")
        assert (await ending(watcher))[0] == sockets.REFUSED
        assert await guests.hears(1) == b""

    async def owned(owner: Browser) -> None:
        await work(owner)
        reported = greeting + b"\0" + words
        assert await guests.hears(len(reported), 1) == reported

    talk(watching(people, link(people, server, VNC)), watched)
    talk(granted_to(people, "ana", server, VNC), owned)


def _is_revoked(people: Any, server: Instance) -> None:
    context = people.ana.context()
    one = shares.list_shares(context, str(server.uuid))[0]
    shares.revoke(context, str(server.uuid), one.uuid)


def _is_over(people: Any, server: Instance) -> None:
    ConsoleShare.objects.update(expires_at=database_now(-1))


def _maker_leaves(people: Any, server: Instance) -> None:
    RoleAssignment.objects.filter(user=people.ana.user).delete()


def _watcher_leaves(people: Any, server: Instance) -> None:
    RoleAssignment.objects.filter(user=people.rea.user).delete()


ENDS = {
    _is_revoked: "is no longer shared. Ask for another link",
    _is_over: "link has expired. Ask for another",
    _maker_leaves: "is no longer shared",
    _watcher_leaves: "no longer have access to this server",
}


@pytest.mark.parametrize("event", ENDS)
def test_a_viewer_is_disconnected_when_the_right_ends(
    people: Any, server: Instance, monkeypatch: pytest.MonkeyPatch, event: Callable[[Any, Instance], None]
) -> None:
    monkeypatch.setattr(sockets, "CHECK_SECONDS", 0.05)
    shared = link(people, server)
    unused = watching(people, shared)

    async def work(watcher: Browser) -> tuple[int, str]:
        await asyncio.to_thread(event, people, server)
        return await ending(watcher)

    code, why = talk(watching(people, shared), work)
    assert code == sockets.REFUSED
    assert ENDS[event] in why
    assert talk(unused, ending)[0] == sockets.REFUSED
    if event in (_is_revoked, _is_over):
        with pytest.raises(NotFound, match=ENDS[event]):
            watching(people, shared)


def test_a_link_is_for_its_project_and_for_operators_alone(people: Any, server: Instance) -> None:
    shared = link(people, server)
    for name, error in (("rea", Forbidden), ("chi", NotFound)):
        with pytest.raises(error):
            shares.share(people[name].context(), str(server.uuid), SERIAL, 15)
    for token in (shared, "no-such-token"):
        with pytest.raises(NotFound):
            watching(people, token, "chi")
    with pytest.raises(Invalid):
        shares.share(people.ana.context(), str(server.uuid), SERIAL, 1_000_000)
    one = shares.list_shares(people.ana.context(), str(server.uuid))[0]
    assert 0 < one.seconds_left <= 900
    kept = ConsoleShare.objects.get()
    assert kept.expires_at - kept.created_at == timedelta(minutes=15)
    assert shared not in str(ConsoleShare.objects.values_list().get())  # only its hash is kept
    for name in ("bo", "chi"):  # what others have shared is theirs to revoke
        assert shares.list_shares(people[name].context(), str(server.uuid)) == []
        with pytest.raises(NotFound):
            shares.revoke(people[name].context(), str(server.uuid), one.uuid)
    shares.revoke(people.admin.context(), str(server.uuid), one.uuid)
    with pytest.raises(NotFound):
        watching(people, shared)
    actions = AuditRecord.objects.filter(project_id=server.project_id).order_by("pk").values_list("action", "user_name")
    assert list(actions) == [("server.share_console", "ana"), ("server.unshare_console", "admin")]
    assert not ConsoleToken.objects.exists()


def test_the_number_of_links_is_limited(people: Any, server: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MOST_SHARES", 1)
    link(people, server)
    with pytest.raises(Conflict, match="Revoke one first"):
        link(people, server)
    _is_over(people, server)
    shared = link(people, server)
    _is_over(people, server)
    with pytest.raises(NotFound, match="link has expired"):
        watching(people, shared)
    ConsoleShare.objects.update(expires_at=database_now(-shares.KEPT_SECONDS - 1))
    link(people, server)
    assert ConsoleShare.objects.count() == 1, "in the end they are forgotten"


def test_a_viewer_that_falls_behind_delays_no_other(
    people: Any, server: Instance, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_relay, "MAX_BACKLOG_BYTES", -1)  # so every client counts as slow
    first = watching(people, link(people, server))

    async def work(owner: Browser) -> None:
        guests.says(b"login: ")
        await heard(owner, b"login: ")
        watcher = Browser(first)
        assert await watcher.opens() == 0
        await heard(watcher, b"login: ")
        guests.says(b"news")
        await heard(owner, b"news")
        assert (await ending(watcher))[0] == sockets.ENDED

    talk(granted_to(people, "ana", server, SERIAL), work)


def test_the_pages_make_open_and_revoke_a_link(people: Any, server: Instance) -> None:
    def browser(who: str) -> Client:
        client = Client()
        client.cookies["novella_session"] = people[who].session()
        return client

    ana, rea, chi = (browser(name) for name in ("ana", "rea", "chi"))
    shares_path = f"/servers/{server.uuid}/shares"
    made = ana.post(f"{shares_path}/new", {"kind": "serial", "minutes": "60"}).content.decode()
    path = re.search(r"http://testserver(/watch/[\w-]+)", made)
    assert path is not None, made
    page = rea.get(path[1])
    assert "shared by ana" in page.content.decode()
    assert page["Cache-Control"] == "no-store"
    ticket = rea.post(f"{path[1]}/serial").json()
    assert 1800 < ticket["seconds"] <= 3600
    assert ConsoleToken.objects.get().session_key == rea.cookies["novella_session"].value
    assert chi.get(path[1]).status_code == chi.get(shares_path).status_code == 404
    assert Client().get(path[1]).status_code == 302
    assert chi.post(f"{path[1]}/serial").status_code == 409
    assert ana.post(f"{shares_path}/new", {"kind": "serial", "minutes": "x"}).status_code == 404
    refused = ana.post(f"{shares_path}/new", {"kind": "serial", "minutes": "7"}).content.decode()
    assert "share the console: 15, 60" in refused
    share = ConsoleShare.objects.get()
    assert f"share-{share.uuid}" in ana.get(shares_path).content.decode()
    assert f"share-{share.uuid}" not in ana.post(f"{shares_path}/{share.uuid}/revoke").content.decode()
    assert "was already revoked" in ana.post(f"{shares_path}/{share.uuid}/revoke").content.decode()
    assert "is no longer shared" in rea.get(path[1]).content.decode()
    ConsoleShare.objects.update(expires_at=database_now(900))
    Instance.objects.using("cell1").update(power_state=4, vm_state="stopped")
    answer = rea.post(f"{path[1]}/serial").json()
    assert answer == {
        "error": ("The server is off. This page continues automatically when the console is available."),
        "waits": True,
    }
    Instance.objects.using("cell1").update(deleted_at=server.created_at)
    assert "The server was deleted" in rea.post(f"{path[1]}/serial").json()["error"]
    page = rea.get(path[1])
    assert page.status_code == 404
    assert "Console not shared" in page.content.decode()
