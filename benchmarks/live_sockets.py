"""Time from a commit to the last of many open pages, compared with a bare broadcast to as many sockets.

    python benchmarks/live_sockets.py [rounds] [clients ...]

One web process serves the portal's WebSocket and, beside it, a server that only broadcasts. The clients are real
sockets of this process, each with a session of its own, of two users of one project. In turns the process commits an
event, and broadcasts a message as long as that event's; a round ends when the last client has received it. There are
two kinds of pages: one that is notified to reload its list (the bell), and one for which a row is rendered, with the
viewers' rights (the list of workflows). Then, with the most clients, half of them with each page, events are committed
for some seconds while clients are disconnected and reconnect with their last position: at the end all must have the
last event, and none may have received a position twice, or an earlier one after a later one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import Figure, record

ROOT = Path(__file__).resolve().parents[1]

ROUNDS = 20
CLIENTS = (100, 500)
BAR_RATIO, BAR_P99_MS = 3.0, 250.0
REST_SECONDS = 0.3  # a page is updated at most four times a second
STORM_SECONDS = 10.0
STORM_EVENTS_PER_SECOND = 20
CUT_SHARE = 0.1  # of the clients, each second
PATIENCE_SECONDS = 60.0
PAGES = {"bell": ("me", "tray"), "rows": ("workflows", "list")}
RECORDED = {"bell": "notifications", "rows": "list of workflows"}


# -- the web process ------------------------------------------------------------------------------------------


def serve(folder: Path, clients: int) -> None:
    """Print the addresses and the accepted sessions; then execute the command in each line of input."""
    os.environ |= {
        "NOVELLA_DATA": str(folder),
        "NOVELLA_CELLS": "cell1",
        "NOVELLA_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    import django

    django.setup()
    from django.core.management import call_command

    for alias in ("default", "cell0", "cell1"):
        call_command("migrate", database=alias, verbosity=0)
    from tests import factories
    from tests.people import create_people

    people = create_people()
    factories.cells()
    run, _ = factories.build(people.ana.context(), "web-1")
    loop, bare = asyncio.new_event_loop(), set[Any]()
    ports = _listen(loop, bare)
    sessions = [(people.ana, people.bo)[number % 2].session() for number in range(clients)]
    print(json.dumps({"ports": ports, "sessions": sessions}), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "commit":
            print(_commit(people.ana, run), flush=True)
        elif word == "broadcast":
            loop.call_soon_threadsafe(_broadcast, bare, rest)


def _listen(loop: asyncio.AbstractEventLoop, bare: set[Any]) -> list[int]:
    """Start both servers on one loop; returns their ports."""
    import socket

    import uvicorn
    from websockets.asyncio.server import serve as serve_bare

    from portal.asgi import application

    listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2)]
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)

    async def keep(connection: Any) -> None:
        bare.add(connection)
        try:
            await connection.wait_closed()
        finally:
            bare.discard(connection)

    async def both() -> None:
        async with serve_bare(keep, sock=listeners[1]):
            await server.serve(sockets=[listeners[0]])

    threading.Thread(target=lambda: loop.run_until_complete(both()), daemon=True).start()
    while not server.started:
        time.sleep(0.02)
    return [listener.getsockname()[1] for listener in listeners]


def _commit(person: Any, run: Any) -> str:
    """Commit one event about a workflow, in a minimal transaction; returns its number and the time of the commit."""
    from conductor import events
    from conductor.db.transactions import write_tx

    if not lines:
        events.subscribe(lines.append)
    with write_tx("default"):
        events.append("default", events.EventSubject(f"wf:{run.uuid}", person.project.id, run.uuid), "run.progress")
    at = time.monotonic()
    del lines[:-1]
    return f"{at!r} {lines[0].cursor}"


lines: list[Any] = []  # the newest event: reading its number would delay the sockets


def _broadcast(bare: set[Any], text: str) -> None:
    from websockets.asyncio.server import broadcast

    stamp = json.dumps({"at": time.monotonic()})
    broadcast(list(bare), stamp + " " * max(0, int(text) - len(stamp)))


# -- the clients ----------------------------------------------------------------------------------------------


@dataclass
class Page:
    """An open page: its last position, the time of that, and errors in the order."""

    reached: int = 0
    heard_at: float = 0.0
    length: int = 0
    messages: int = 0
    twice: int = 0
    backwards: int = 0
    session: str = ""
    socket: Any = None
    reader: asyncio.Task[None] | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, text: str | bytes, at: float) -> None:
        message = json.loads(text)
        if "at" in message:  # from the bare server
            self.heard_at = at
            self.news.set()
            return
        if message["kind"] == "behind":
            return
        if "seq" not in message:
            raise AssertionError(f"the page was refused: {message}")
        place = dict(part.split(":") for part in message["seq"].split(","))
        number = int(place.get("default", 0))
        if message["kind"] != "current":
            self.messages += 1
            self.twice += number == self.reached
        self.backwards += number < self.reached
        self.reached, self.heard_at, self.length = max(number, self.reached), at, len(text)
        self.news.set()


class Web:
    """The web process, and ways to open pages on it."""

    def __init__(self, folder: Path, clients: int) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "serve", str(folder), str(clients)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lines = json.loads(self._line())
        self.portal, self.bare = lines["ports"]
        self.sessions = lines["sessions"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the web process has ended; its words are above")
        return line

    def pages(self, count: int) -> list[Page]:
        return [Page(session=session) for session in self.sessions[:count]]

    def ask(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    async def commit(self) -> tuple[float, int]:
        self.ask("commit")
        at, number = (await asyncio.to_thread(self._line)).split()
        return float(at), int(number)

    async def open(self, page: Page, topic: tuple[str, str]) -> None:
        """Open or resume a page; returns once the server has confirmed its position."""
        from websockets.asyncio.client import connect

        origin = f"http://127.0.0.1:{self.portal}"
        page.socket = await connect(
            f"ws://127.0.0.1:{self.portal}/live",
            origin=origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": f"novella_session={page.session}"},
            open_timeout=PATIENCE_SECONDS,
            compression=None,
        )
        page.news.clear()
        page.reader = asyncio.create_task(_read(page))
        since = f"default:{page.reached}" if page.reached else ""
        await page.socket.send(json.dumps({"subscribe": topic[0], "view": topic[1], "since": since}))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await page.news.wait()

    async def open_bare(self, page: Page) -> None:
        from websockets.asyncio.client import connect

        page.socket = await connect(f"ws://127.0.0.1:{self.bare}/", compression=None, open_timeout=PATIENCE_SECONDS)
        page.reader = asyncio.create_task(_read(page))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


async def _read(page: Page) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed):
        while True:
            page.take(await page.socket.recv(), time.monotonic())


async def _cut(page: Page) -> None:
    """Disconnect without closing, as a network failure does."""
    page.socket.transport.abort()
    assert page.reader is not None
    await page.reader


# -- measurements ---------------------------------------------------------------------------------------------


async def _round(pages: Sequence[Page], begin: Any) -> float:
    """Return milliseconds from the time that `begin` returns until the last page has the event."""
    for page in pages:
        page.news.clear()
    began = await begin()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(page.news.wait() for page in pages))
    return (max(page.heard_at for page in pages) - began) * 1000.0


async def _in_turns(web: Web, topic: tuple[str, str], clients: int, rounds: int) -> dict[str, list[float]]:
    pages, bare = web.pages(clients), web.pages(clients)
    for page, other in zip(pages, bare, strict=True):
        await web.open(page, topic)
        await web.open_bare(other)

    async def commit() -> float:
        return (await web.commit())[0]

    async def broadcast() -> float:
        at = time.monotonic()
        web.ask(f"broadcast {pages[0].length}")
        return at

    times: dict[str, list[float]] = {"portal": [], "bare": []}
    for number in range(rounds + 2):
        took = {"portal": await _round(pages, commit), "bare": await _round(bare, broadcast)}
        await asyncio.sleep(REST_SECONDS)
        if number >= 2:  # the first two warm up
            for name, milliseconds in took.items():
                times[name].append(milliseconds)
    for page in (*pages, *bare):
        await page.socket.close()
    return times


async def _storm(web: Web, clients: int) -> dict[str, int]:
    """Commit events continuously, while clients are disconnected and reconnect."""
    chance, pages = random.Random(7), web.pages(clients)
    topics = {id(page): list(PAGES.values())[number % len(PAGES)] for number, page in enumerate(pages)}
    for page in pages:
        await web.open(page, topics[id(page)])
    last, cuts, ended = 0, 0, time.monotonic() + STORM_SECONDS

    async def cut_some() -> int:
        done = 0
        while time.monotonic() < ended:
            for page in chance.sample(pages, max(1, int(clients * CUT_SHARE))):
                await _cut(page)
                await web.open(page, topics[id(page)])
                done += 1
            await asyncio.sleep(0.2)
        return done

    cutting = asyncio.create_task(cut_some())
    committed = 0
    while time.monotonic() < ended:
        _, last = await web.commit()
        committed += 1
        await asyncio.sleep(1 / STORM_EVENTS_PER_SECOND)
    cuts = await cutting
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(page.reached < last for page in pages) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    found = {
        "events": committed,
        "cuts": cuts,
        "messages": sum(page.messages for page in pages),
        "behind": sum(page.reached < last for page in pages),
        "notified twice": sum(page.twice for page in pages),
        "out of order": sum(page.backwards for page in pages),
    }
    for page in pages:
        await page.socket.close()
    return found


async def measure(web: Web, rounds: int, clients: Sequence[int]) -> int:
    missed = 0
    print("| page | clients | p50 | p99 | bare p50 | bare p99 | ratio of p50 |\n|---|---|---|---|---|---|---|")
    for name, topic in PAGES.items():
        for count in clients:
            times = await _in_turns(web, topic, count, rounds)
            ours, bare = times["portal"], times["bare"]
            ratio = statistics.median(ours) / statistics.median(bare)
            cells = [f"{value:.1f} ms" for one in (ours, bare) for value in (statistics.median(one), _p99(one))]
            print(f"| {name} | {count} | {' | '.join(cells)} | {ratio:.1f} |", flush=True)
            middle, bound = statistics.median(ours), f"bare broadcast, {statistics.median(bare):.1f} ms"
            figure = Figure(f"{RECORDED[name]}, {count} clients, p50", f"{middle:.1f} ms", bound, round(ratio, 1))
            record("open_pages", [replace(figure, bar=f"≤ {BAR_RATIO:g}")])
            missed += ratio > BAR_RATIO if count < max(CLIENTS) else _p99(ours) > BAR_P99_MS
    found = await _storm(web, max(clients))
    print(f"load of the machine: {os.getloadavg()[0]:.0f}")
    print(f"storm with {max(clients)} clients: " + ", ".join(f"{words} {count}" for words, count in found.items()))
    missed += any(found[words] for words in ("behind", "notified twice", "out of order"))
    return 1 if missed else 0


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def main(rounds: int, clients: Sequence[int]) -> int:
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        web = Web(Path(name), max(clients))
        try:
            return asyncio.run(measure(web, rounds, clients))
        finally:
            web.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        numbers = [int(text) for text in sys.argv[1:]]
        sys.exit(main(numbers[0] if numbers else ROUNDS, numbers[1:] or CLIENTS))
