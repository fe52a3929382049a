"""Duration of an answer about one server, as a ratio to that of an empty view of the same web process.

    python benchmarks/api_show.py [requests] [rounds] [clients ...]

One web process serves like `manage.py web`, with an additional route whose view answers nothing. 5,000 servers of one
project are in ten cells. Clients keep their connections and send one request after the other, each for another server;
in turns with that they request the empty view. The processor time of the process is reported too, because load on the
machine does not affect it. The bar is for the 99th percentile at the same concurrency.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import processor_seconds
from benchmarks.results import Figure, record

ROOT = Path(__file__).resolve().parents[1]

SERVERS = 5_000
REQUESTS = 1_000
ROUNDS = 7
CLIENTS = (1, 8)
BAR_RATIO = 3.0
PATIENCE_SECONDS = 60.0
EMPTY = "/compute/empty"


# -- the web process ------------------------------------------------------------------------------------------


def serve(folder: Path, servers: int) -> None:
    """Print the address, a token, and the paths of servers; then serve until the process is ended."""
    import socket

    from benchmarks.bench_cloud import fill, set_up, uuid_of

    people = set_up(folder)
    fill(people.ana.context(), servers)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    from django.conf import settings
    from django.http import HttpResponse
    from django.urls import path

    from conductor.management import web_server
    from portal import urls

    urls.urlpatterns.insert(0, path(EMPTY.lstrip("/"), lambda request: HttpResponse(b"nothing")))
    paths = [f"/compute/v2.1/servers/{uuid_of(number)}" for number in range(0, servers, max(1, servers // 500))]
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": people.admin.session()}
    values = {"port": port, "token": people.ana.token(), "paths": paths, "cookie": cookie}
    config = web_server.config_of(settings.NOVELLA_WEB_APPLICATION, "127.0.0.1", port)
    web_server.serve(config, lambda: print(json.dumps(values), flush=True))


# -- the clients ----------------------------------------------------------------------------------------------


@dataclass
class Taken:
    """Milliseconds of each answer, and the web process's processor time per answer."""

    times: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        return sorted(self.times)[min(len(self.times) - 1, int(len(self.times) * share))]


class Web:
    """The web process, and persistent connections to it."""

    def __init__(self, folder: Path, servers: int) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "serve", str(folder), str(servers)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the web process has ended; its words are above")
        values = json.loads(line)
        self.port, self.token, self.paths = values["port"], values["token"], values["paths"]
        self.cookie = values["cookie"]  # of an operator, for pages

    def processor_seconds(self) -> float:
        """Processor time of the whole process, as Linux counts it."""
        return processor_seconds(self.process.pid)

    async def ask(self, clients: int, requests: int, path_of: Callable[[int], str], taken: Taken) -> None:
        """Send so many requests, by so many concurrent clients."""
        before = self.processor_seconds()
        shares = [range(number, requests, clients) for number in range(clients)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await asyncio.gather(*(self._client(share, path_of) for share in shares))
        taken.times += [one for times in found for one in times]
        taken.processor.append((self.processor_seconds() - before) / requests * 1000)

    async def _client(self, share: range, path_of: Callable[[int], str]) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        times = []
        head = f"Host: 127.0.0.1\r\nX-Auth-Token: {self.token}\r\nOpenStack-API-Version: compute 2.95\r\n\r\n"
        for number in share:
            began = time.perf_counter()
            writer.write(f"GET {path_of(number)} HTTP/1.1\r\n{head}".encode())
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            body = await _body(reader, lines)
            times.append((time.perf_counter() - began) * 1000)
            assert b" 200 " in lines[0], lines[0] + body
        writer.close()
        return times

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


async def _body(reader: asyncio.StreamReader, lines: list[bytes]) -> bytes:
    """Return the body that follows these headers."""
    for line in lines:
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line[15:]))
    pieces = []
    while length := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(length))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(pieces)


# -- measurements ---------------------------------------------------------------------------------------------


async def measure(web: Web, requests: int, rounds: int, clients: list[int]) -> int:
    missed = 0
    print("| clients | what | p50 | p99 | processor | p50 / empty | p99 / empty | processor / empty |")
    print("|---|---|---|---|---|---|---|---|")
    works: dict[str, Callable[[int], str]] = {
        "empty view": lambda _: EMPTY,
        "one server": lambda number: str(web.paths[number % len(web.paths)]),
    }
    for count in clients:
        found = await _in_turns(web, works, count, requests, rounds)
        least = found["empty view"]
        for name, taken in found.items():
            p50, p99, processor = taken.at(0.5), taken.at(0.99), statistics.median(taken.processor)
            ratios = (p50 / least.at(0.5), p99 / least.at(0.99), processor / statistics.median(least.processor))
            cells = [f"{value:.2f} ms" for value in (p50, p99, processor)] + [f"{value:.2f}" for value in ratios]
            print(f"| {count} | {name} | {' | '.join(cells)} |", flush=True)
            missed += ratios[1] > BAR_RATIO
            if name == "one server":
                figure = f"p99, {count} client{'s' * (count > 1)}"
                record("one_server", [Figure(figure, "", "empty view", round(ratios[1], 2), f"≤ {BAR_RATIO:g}")])
    print(f"load of the machine: {os.getloadavg()[0]:.0f}")
    return 1 if missed else 0


async def _in_turns(
    web: Web, works: dict[str, Callable[[int], str]], clients: int, requests: int, rounds: int
) -> dict[str, Taken]:
    found = {name: Taken() for name in works}
    for number in range(rounds + 1):
        for name, path_of in works.items():
            await web.ask(clients, requests, path_of, found[name] if number else Taken())  # the first warms up
    return found


def main(numbers: list[int]) -> int:
    requests, rounds = (numbers + [REQUESTS, ROUNDS][len(numbers) :])[:2]
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        web = Web(Path(name), SERVERS)
        try:
            return asyncio.run(measure(web, requests, rounds, numbers[2:] or list(CLIENTS)))
        finally:
            web.stop()


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        serve(Path(arguments[1]), int(arguments[2]))
    else:
        sys.exit(main([int(text) for text in arguments]))
