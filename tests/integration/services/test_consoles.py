"""Consoles from the browser's socket to a guest on a host in a process of its own: access, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from conductor.api_db.models import ConsoleToken
from conductor.cell_db.models import ComputeNode, ConsoleAddress, Instance
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import Conflict, Forbidden, NotFound, NotSupported, Unavailable
from conductor.db.transactions import database_now
from conductor.identity.models import RoleAssignment
from conductor.journal.models import AuditRecord
from conductor.rpc.codec import encode
from conductor.rpc.messages import ConsolesOffered, SpawnInstance, StepAnswered
from conductor.services.consoles import connections, consoles
from conductor.services.consoles.consoles import ConsoleEndpoint, OpenedConsole
from portal.live import consoles as sockets
from tests import factories
from tests.fixtures.agents import Agent
from tests.fixtures.consoles import RFB, Browser, ending, heard, talk
from tests.people import PASSWORD
from tests.tiny_driver import guest_json
from tests.waiting import wait_until_async

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

GUEST = str(uuid4())
VNC, SERIAL = ConsoleKind.VNC, ConsoleKind.SERIAL


@pytest.fixture(scope="module")
def announcement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsolesOffered]:
    """The console report of a host with one guest."""
    folder: Path = tmp_path_factory.mktemp("agent")
    agent = Agent(folder, "fake")
    reported = agent.hear(ConsolesOffered)
    spawn = SpawnInstance(
        step_key="k", run_uuid=str(uuid4()), fencing_token=1, host="host-1", cell="cell1",
        instance_uuid=GUEST, guest=guest_json(GUEST),
    )  # fmt: skip
    agent.send(encode(spawn))
    assert agent.hear(StepAnswered).ok
    yield reported
    agent.kill_9()


@pytest.fixture
def server(people: Any, announcement: ConsolesOffered) -> Instance:
    """Ana's server, which is that guest."""
    factories.cells()
    factories.host("host-1")
    connections.record("cell1", announcement)
    return factories.instance(people.ana.context(), "web-1", uuid=GUEST, host="host-1", node="host-1")


def granted(people: Any, kind: ConsoleKind, **options: Any) -> str:
    return consoles.grant(people.ana.context(), GUEST, kind, **options).token


def test_programs_open_a_console_by_a_query_once_and_hear_nothing_where_it_is_no_good(
    people: Any, server: Instance
) -> None:
    async def work(browser: Browser) -> bytes:
        return await browser.hears()

    token = granted(people, VNC)
    assert talk(f"?token=bad{token}", work) == sockets.REFUSED  # which ends the handshake
    assert talk("?other=1", work) == sockets.REFUSED
    assert talk(f"?token={token}", work) == RFB
    assert talk(f"?token={token}", work) == sockets.REFUSED


def test_input_reaches_the_guest_and_its_output_the_browser(people: Any, server: Instance) -> None:
    async def work(browser: Browser) -> None:
        await heard(browser, b"web-1# ")
        await browser.types("date\r")
        assert b"you typed date" in await heard(browser, b"typed date")

    talk(granted(people, SERIAL), work)
    rows = AuditRecord.objects.get(action="server.open_console")
    assert (str(rows.instance_uuid), rows.user_name) == (GUEST, "ana")
    assert rows.details == {"type": "serial", "host": "host-1"}


def test_the_screen_comes_as_it_is_and_changes_with_each_key(people: Any, server: Instance) -> None:
    async def work(browser: Browser) -> None:
        stream = b""

        async def read(amount: int) -> bytes:
            nonlocal stream
            while len(stream) < amount:
                stream += await browser.hears()
            found, stream = stream[:amount], stream[amount:]
            return found

        async def frame() -> tuple[int, bytes]:
            assert await read(4) == b"\0\0\0\1"
            where = await read(12)
            width, height = (int.from_bytes(where[at : at + 2], "big") for at in (4, 6))
            return height, await read(width * height * 4)

        assert await read(12) == RFB
        await browser.types(RFB)
        assert await read(2) == b"\1\1"
        await browser.types(b"\1")
        assert await read(4) == b"\0\0\0\0"
        await browser.types(b"\1")
        await read(24 + len("web-1"))
        await browser.types(b"\3\0" + b"\0" * 8)
        height, first = await frame()
        assert len(set(zip(*[iter(first)] * 4, strict=True))) == 2  # ink and paper
        await browser.types(b"\3\1" + b"\0" * 8)
        await browser.types(b"\4\1\0\0\0\0\0A")
        line, news = await frame()
        assert line < height
        assert news not in first

    talk(granted(people, VNC), work)


def test_a_token_opens_once_and_not_when_it_is_too_old(people: Any, server: Instance) -> None:
    token = granted(people, SERIAL)
    assert talk(token, lambda browser: heard(browser, b"web-1# "))
    code, why = talk(token, ending)
    assert (code, why) == (4403, "This console link was already used or has expired. Request a new one.")
    old = granted(people, SERIAL)
    ConsoleToken.objects.filter(used_at=None).update(expires_at=database_now(-1))
    assert talk(old, ending)[0] == 4403
    assert talk("no-such-token", ending)[0] == 4403
    assert AuditRecord.objects.filter(action="server.open_console").count() == 1
    assert not ConsoleToken.objects.filter(token_hash__in=[token, old]).exists()  # only its hash is kept


def test_a_page_of_another_user_opens_nothing_and_uses_nothing(people: Any, server: Instance) -> None:
    token = granted(people, SERIAL)
    foreign = [(b"host", b"localhost"), (b"origin", b"http://evil.example")]
    assert talk(token, ending, foreign) == 4403
    own = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    assert talk(token, lambda browser: heard(browser, b"web-1# "), own)


def test_opening_a_serial_line_takes_it_over(people: Any, server: Instance) -> None:
    others = [granted(people, SERIAL) for _ in range(2)]

    async def work(first: Browser) -> tuple[int, str]:
        await heard(first, b"web-1# ")
        other = Browser(others.pop())
        assert await other.opens() == 0
        await heard(other, b"web-1# ")
        ended = await ending(first)
        await other.hangs_up()
        return ended

    assert talk(granted(people, SERIAL), work) == (1000, "The server is off, or another person opened this console.")
    code, reported = talk(f"/{granted(people, SERIAL)}?language=de", work)
    assert (code, reported) == (1000, "Der Server ist aus, oder eine andere Person hat diese Konsole geöffnet.")


def _moves(people: Any) -> None:
    Instance.objects.using("cell1").update(host="host-2")


def _is_deleted(people: Any) -> None:
    Instance.objects.using("cell1").update(task_state="deleting")


def _is_gone(people: Any) -> None:
    Instance.objects.using("cell1").update(deleted_at=database_now())


def _loses_the_right(people: Any) -> None:
    RoleAssignment.objects.filter(user=people.ana.user).delete()


def _revoked(people: Any) -> None:
    ConsoleToken.objects.all().delete()


@pytest.mark.parametrize("event", [_moves, _is_deleted, _is_gone, _loses_the_right, _revoked])
def test_an_open_console_ends_with_what_it_was_opened_for(
    people: Any, server: Instance, monkeypatch: pytest.MonkeyPatch, event: Callable[[Any], None]
) -> None:
    monkeypatch.setattr(sockets, "CHECK_SECONDS", 0.05)
    before = granted(people, SERIAL)

    async def work(browser: Browser) -> tuple[int, str]:
        await heard(browser, b"web-1# ")
        await asyncio.to_thread(event, people)
        return await ending(browser)

    code, why = talk(granted(people, SERIAL), work)
    assert code == 4403
    assert why
    assert talk(before, ending)[0] == 4403  # nor does one open that was not used yet


def test_signing_out_ends_the_consoles_of_that_session_alone(
    people: Any, server: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "CHECK_SECONDS", 0.05)
    checked: list[str] = []
    check = consoles.check

    def noted(token_hash: str, caller_of: consoles.CallerOf) -> None:
        checked.append(token_hash)
        check(token_hash, caller_of)

    monkeypatch.setattr(consoles, "check", noted)
    client = Client()
    client.post("/sign-in", {"username": "ana", "password": PASSWORD})
    token = granted(people, SERIAL, session_key=str(client.session.session_key))

    async def work(browser: Browser) -> tuple[int, str]:
        await heard(browser, b"web-1# ")
        checked.clear()
        await wait_until_async("it is checked some times", lambda: len(checked) > 3)
        await browser.types("still\r")
        await heard(browser, b"typed still")
        await asyncio.to_thread(client.post, "/sign-out")
        return await ending(browser)

    other = granted(people, SERIAL)
    assert talk(token, work)[0] == 4403
    assert not SessionStore(client.session.session_key).exists(str(client.session.session_key))
    assert talk(other, lambda browser: heard(browser, b"web-1# "))


def test_a_console_is_disconnected_when_its_time_is_over(
    people: Any, server: Instance, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOVELLA_CONSOLE_SESSION_SECONDS = 0.3
    assert talk(granted(people, SERIAL), ending) == (4408, "This console session has expired.")


def test_the_key_is_sent_to_the_host_alone(people: Any, server: Instance, announcement: ConsolesOffered) -> None:
    endpoint = ConsoleEndpoint(announcement.address, announcement.tcp_port, announcement.fingerprint, announcement.key)
    console = OpenedConsole("", GUEST, "host-1", SERIAL, endpoint, 0)

    def refused(changed: OpenedConsole) -> str:
        with pytest.raises(Unavailable) as caught:
            asyncio.run(connections.dial(changed))
        return caught.value.message

    impostor = replace(console, endpoint=replace(endpoint, fingerprint="0" * 64))
    assert refused(impostor) == "The program at the address of host host-1 is not that host's agent."
    assert refused(replace(console, endpoint=replace(endpoint, key="guessed"))) == "The host gave no answer."
    assert refused(replace(console, host="host-9")) == "Host host-9 is not served here."
    assert refused(replace(console, instance_uuid=str(uuid4()))) != ""
    assert refused(replace(console, endpoint=replace(endpoint, port=1))) == "Host host-1 can't be reached for consoles."


REFUSED: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
    ({"host": None}, Conflict),
    ({"power_state": 4}, Conflict),
    ({"task_state": "deleting"}, Conflict),
    ({"task_state": "migrating"}, Conflict),
    ({"host": "host-2"}, NotSupported),
)


@pytest.mark.parametrize(("values", "error"), REFUSED)
def test_a_server_that_has_no_console_now_gives_no_token(
    people: Any, server: Instance, values: dict[str, Any], error: type[Exception]
) -> None:
    Instance.objects.using("cell1").update(**values)
    with pytest.raises(error):
        granted(people, SERIAL)
    assert not ConsoleToken.objects.exists()


def test_callers_without_the_right_get_no_console_token(people: Any, server: Instance) -> None:
    for name, error in (("rea", Forbidden), ("chi", NotFound)):
        with pytest.raises(error):
            consoles.grant(people[name].context(), GUEST, SERIAL)
    ConsoleAddress.objects.using("cell1").all().delete()
    with pytest.raises(Unavailable, match="has not reported its console address"):
        granted(people, SERIAL)
    report = {"capabilities": {"actions": ["serial_console"]}}
    ComputeNode.objects.using("cell1").update(report=report)
    with pytest.raises(NotSupported, match="no console of type vnc"):
        granted(people, VNC)
    assert not ConsoleToken.objects.exists()


def test_the_last_announcement_of_a_console_address_is_kept(server: Instance, announcement: ConsolesOffered) -> None:
    kept = ConsoleAddress.objects.using("cell1").get()
    connections.record("cell1", announcement)
    assert ConsoleAddress.objects.using("cell1").get().updated_at == kept.updated_at
    connections.record("cell1", replace(announcement, tcp_port=4444))
    connections.record("cell1", replace(announcement, tcp_port=0))
    assert ConsoleAddress.objects.using("cell1").get().tcp_port == 4444
