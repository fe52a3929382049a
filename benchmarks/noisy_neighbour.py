"""Slowdown of a project's requests while a hostile project keeps two requests in flight.

    python benchmarks/noisy_neighbour.py [--quick] [--rounds N] [--seconds S] [attack ...]

One `manage.py up` (SQLite, simulated hosts) serves two projects. Four clients of the first continuously send a fixed
mix of requests: list with details, one server, a page, a token, and now and then a launch and a delete. In turns they
are alone and beside one attack of the second project, in windows of equal length, so that load on the machine affects
both; the p99 of all windows beside the attack is divided by that of all windows alone. The attacker's clients are a
process of their own with a lower priority. A row fails above BAR_RATIO, and if a request of the first project fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

BAR_RATIO = 2.0
ROUNDS, SECONDS = 3, 6.0
CLIENTS = 4
SETTLE_SECONDS = 0.5  # after an attack began or ended, before the next window
CLEAN_UP_SECONDS = 180.0
ATTACKERS_SERVERS = 3000
VICTIMS_SERVERS = 20
AT_ONCE = 200  # servers in one launch of the attacker
COMPUTE, IDENTITY = "/compute/v2.1", "/identity/v3/auth/tokens"
CYCLE = ("create", *("detail", "show", "page", "show", "token") * 4, "delete", *("detail", "show", "page", "show") * 5)
VERSION = {"OpenStack-API-Version": "compute 2.90"}
EXPECTED = {"create": 202, "delete": 204, "token": 201}
QUICK = {"rounds": 1, "seconds": 0.5, "servers": 50, "at_once": 3}


# -- the rows of the cloud ------------------------------------------------------------------------------------


def seed(servers: int) -> None:
    """Print the two projects' tokens and sessions; the attacker's project gets rows of servers without a host."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    import django

    django.setup()
    from conductor.identity.models import Role
    from tests import factories
    from tests.people import PASSWORD, Person

    found: dict[str, Any] = {}
    for name in ("victim", "attacker"):
        user = factories.user(name, **{name: "member"})
        person = Person(name, user, factories.project(name), Role.objects.get(name="member"))
        found[name] = {
            "token": person.token(),
            "session": person.session(),
            "project": person.project.id,
            "password": PASSWORD,
        }
    _fill(factories.context("attacker", "attacker"), servers)
    print(json.dumps(found), flush=True)


def _fill(context: Any, servers: int) -> None:
    from benchmarks import bench_cloud
    from conductor.api_db.models import CellMapping, InstanceMapping
    from conductor.cell_db.models import Instance

    cell = CellMapping.objects.get(name="cell1")
    rows = [bench_cloud.server_row(context, "cell1", number) for number in range(servers)]
    for row in rows:  # no host has such a guest, so no host reports it as missing
        row.vm_state, row.power_state, row.host, row.node, row.addresses = "shelved_offloaded", 4, "", "", []
    Instance.objects.using("cell1").bulk_create(rows, batch_size=500)
    mappings = (bench_cloud.mapping_row(context, cell.pk, number) for number in range(servers))
    InstanceMapping.objects.bulk_create(mappings, batch_size=500)


# -- the attacker ---------------------------------------------------------------------------------------------


@dataclass
class Attacker:
    """The hostile project's clients. Each attack is a function that a client repeats until it is cancelled."""

    port: int
    tokens: dict[str, Any]
    launch: dict[str, Any]
    image_ids: Sequence[str]
    at_once: int
    statuses: Counter[int] = field(default_factory=Counter)
    numbers: Any = field(default_factory=itertools.count)

    async def call(self, method: str, path: str, body: Any = None, *, source: str = "127.0.0.1", **more: str) -> bytes:
        """Send a request on a connection of its own; returns the response's body."""
        data = json.dumps(body).encode() if body is not None else b""
        reader, writer = await self.send_head(method, path, len(data), source=source, **more)
        writer.write(data)
        return await self.answer(reader, writer)

    async def send_head(self, method: str, path: str, size: int, *, source: str = "127.0.0.1", **more: str) -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Connection": "close",
            "Content-Type": "application/json",
            "Content-Length": str(size),
            **VERSION,
            **({"X-Auth-Token": self.tokens["token"]} if not more else {}),
            **more,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        return reader, writer

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.statuses[int(head.split(b" ", 2)[1])] += 1
            return await reader.read(-1)
        finally:
            writer.close()

    async def drip_upload(self, number: int) -> None:
        path = f"/image/v2/images/{self.image_ids[number % len(self.image_ids)]}/file"
        reader, writer = await self.send_head(
            "PUT", path, 1 << 20, **{"X-Auth-Token": self.tokens["token"], "Content-Type": "application/octet-stream"}
        )
        await self._drip(reader, writer)

    async def half_poll(self, number: int) -> None:
        """Resume a page's session again and again, without ever sending which topics to follow."""
        cookie = f"novella_session={self.tokens['session']}"
        origin = f"http://127.0.0.1:{self.port}"
        reader, writer = await self.send_head("POST", "/live/poll", 400, Cookie=cookie, Origin=origin)
        writer.write(b'{"follow": [')
        await self._drip(reader, writer)

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a byte now and then until there is a response; after a refusal, retry a second later."""
        answering = asyncio.ensure_future(self.answer(reader, writer))
        try:
            while not answering.done():
                writer.write(b" ")
                await asyncio.wait({answering}, timeout=0.5)
            await asyncio.sleep(1.0)
        finally:
            answering.cancel()
            writer.close()

    async def sign_in(self, number: int) -> None:
        """Send a wrong password for a new name from a new address, so that no limit on failures applies."""
        source = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        body = _sign_in(f"unknown-{random.randrange(1 << 40)}", "not-the-password", None)
        await self.call("POST", IDENTITY, body, source=source, Accept="application/json")

    async def stream(self, number: int) -> None:
        reader, writer = await self.send_head("GET", "/api/events/stream", 0)
        with contextlib.suppress(asyncio.IncompleteReadError):
            await self.answer(reader, writer)
        await asyncio.sleep(1.0)

    async def long_list(self, number: int) -> None:
        await self.call("GET", f"{COMPUTE}/servers/detail?limit=1000")

    async def pattern(self, number: int) -> None:
        pattern = ("a%3F" * 30 + "a" * 30, "(a|aa)%2B%24")[number % 2]
        await self.call("GET", f"{COMPUTE}/servers/detail?name={pattern}")

    async def launch_many(self, number: int) -> None:
        name = f"many-{next(self.numbers)}"
        server = self.launch | {"name": name, "min_count": self.at_once, "max_count": self.at_once}
        await self.call("POST", f"{COMPUTE}/servers", {"server": server})
        await self.delete_all(name)

    async def delete_all(self, name: str) -> int:
        answer = await self.call("GET", f"{COMPUTE}/servers?name={name}&limit=1000")
        found = json.loads(answer)["servers"] if answer.startswith(b"{") else []
        for server in found:
            await self.call("DELETE", f"{COMPUTE}/servers/{server['id']}")
        return len(found)

    async def clean_up(self) -> None:
        """Wait until nothing that was launched is left."""
        ends_at = time.monotonic() + CLEAN_UP_SECONDS
        while await self.delete_all("many-") and time.monotonic() < ends_at:
            await asyncio.sleep(0.5)

    async def run(self, work: Callable[[int], Awaitable[None]], count: int, until: asyncio.Event) -> None:
        async def repeat(number: int) -> None:
            while True:
                try:
                    await work(number)
                except (OSError, asyncio.IncompleteReadError):
                    await asyncio.sleep(0.2)

        tasks = [asyncio.create_task(repeat(number)) for number in range(count)]
        await until.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if work == self.launch_many:
            await self.clean_up()


@dataclass(frozen=True)
class Attack:
    title: str
    method: str
    count: int = 2


ATTACKS = {
    "uploads": Attack("two uploads that drip", "drip_upload"),
    "logins": Attack("two sign-ins with wrong passwords", "sign_in"),
    "logins-48": Attack("48 such sign-ins", "sign_in", 48),
    "streams": Attack("two event streams", "stream"),
    "streams-500": Attack("500 event streams", "stream", 500),
    "polls": Attack("two half-sent polls", "half_poll"),
    "polls-505": Attack("505 half-sent polls", "half_poll", 505),
    "lists": Attack("two lists of 1,000 with details", "long_list"),
    "patterns": Attack("two filters by name pattern", "pattern"),
    "launches": Attack(f"two launches of {AT_ONCE}, deleted again", "launch_many"),
}


async def attack() -> None:
    """Read commands from the input: the cloud's details first, then "begin <attack>" and "end" in turns."""
    os.nice(10)  # an attacker's own machine would not take the cloud's processor time
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line.strip())

    threading.Thread(target=read, daemon=True).start()
    attacker = Attacker(**json.loads(await lines.get()))
    while True:
        _, _, name = (await lines.get()).partition(" ")
        chosen, until = ATTACKS[name], asyncio.Event()
        attacker.statuses.clear()
        running = asyncio.create_task(attacker.run(getattr(attacker, chosen.method), chosen.count, until))
        await lines.get()
        statuses = dict(attacker.statuses)
        until.set()
        await running
        print(json.dumps(statuses), flush=True)


# -- the other project ----------------------------------------------------------------------------------------


@dataclass
class Victim:
    """A client that sends its next request as soon as the last is answered."""

    port: int
    tokens: dict[str, Any]
    launch: dict[str, Any]
    servers: Sequence[str]
    place: int
    taken: list[tuple[str, float]] = field(default_factory=list)  # kind, seconds
    failures: Counter[str] = field(default_factory=Counter)
    own: str = ""

    def run(self, seconds: float) -> None:
        """Continue the mix where the last window ended."""
        ends_at = time.perf_counter() + seconds
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while time.perf_counter() < ends_at:
            kind = CYCLE[self.place % len(CYCLE)]
            kind = "show" if kind == "delete" and not self.own else kind
            method, path, body, headers = self._request(kind)
            began = time.perf_counter()
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            content = answer.read()
            self.taken.append((kind, time.perf_counter() - began))
            self.place += 1
            if answer.status != EXPECTED.get(kind, 200):
                self.failures[f"{kind} {answer.status}"] += 1
            elif kind == "create":
                self.own = json.loads(content)["server"]["id"]
        connection.close()

    def _request(self, kind: str) -> tuple[str, str, Any, dict[str, str]]:
        headers = {"Content-Type": "application/json", "X-Auth-Token": self.tokens["token"], **VERSION}
        server = self.servers[self.place % len(self.servers)]
        if kind == "create":
            return "POST", f"{COMPUTE}/servers", {"server": self.launch | {"name": "now-and-then"}}, headers
        if kind == "delete":
            return "DELETE", f"{COMPUTE}/servers/{self.own}", None, headers
        if kind == "token":
            body = _sign_in("victim", self.tokens["password"], "victim")
            return "POST", IDENTITY, body, {"Content-Type": "application/json"}
        if kind == "page":
            return "GET", "/servers", None, {"Cookie": f"novella_session={self.tokens['session']}"}
        return "GET", f"{COMPUTE}/servers/{'detail' if kind == 'detail' else server}", None, headers


def _sign_in(name: str, password: str, project: str | None) -> dict[str, Any]:
    domain = {"name": "Default"}
    user = {"name": name, "domain": domain, "password": password}
    auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": user}}}
    if project:
        auth["scope"] = {"project": {"name": project, "domain": domain}}
    return {"auth": auth}


@dataclass
class Window:
    """Results of the victim's clients in the windows of one kind: kind and seconds of requests, and errors."""

    taken: list[tuple[str, float]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def measure(self, victims: Sequence[Victim], seconds: float) -> None:
        for victim in victims:
            victim.taken.clear()
            victim.failures.clear()
        threads = [threading.Thread(target=victim.run, args=(seconds,)) for victim in victims]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for victim in victims:
            self.taken += victim.taken
            self.failures += victim.failures

    def quantile(self, part: float, kind: str = "") -> float:
        """Return a quantile in seconds, of the requests of one kind or of all."""
        taken = sorted(seconds for one, seconds in self.taken if kind in ("", one))
        return taken[min(len(taken) - 1, int(len(taken) * part))] if taken else 0.0


# -- measurements ---------------------------------------------------------------------------------------------


class Hostile:
    """The process of the attacker's clients."""

    def __init__(self, facts: dict[str, Any]) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "attack"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.send(json.dumps(facts))

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> Counter[str]:
        """End the attack and delete its servers; returns the number of responses by status."""
        assert self.process.stdout is not None
        self.send("end")
        return Counter(json.loads(self.process.stdout.readline()))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(name: str, victims: Sequence[Victim], hostile: Hostile, rounds: int, seconds: float) -> bool:
    """Print a row of the table; returns whether it is within the bar."""
    alone, beside, statuses = Window(), Window(), Counter[str]()
    for _ in range(rounds):
        alone.measure(victims, seconds)
        hostile.send(f"begin {name}")
        time.sleep(SETTLE_SECONDS)
        beside.measure(victims, seconds)
        statuses += hostile.end()
        time.sleep(SETTLE_SECONDS)
    ratio = beside.quantile(0.99) / alone.quantile(0.99)
    failed = sum((alone.failures + beside.failures).values())
    is_met = ratio <= BAR_RATIO and not failed
    times = " | ".join(f"{one.quantile(part) * 1000:.0f} ms" for part in (0.5, 0.99) for one in (alone, beside))
    counts = f"{len(alone.taken)}, {len(beside.taken)} | {failed}"
    answers = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items())) or "–"
    verdict = f"{ratio:.1f} | {BAR_RATIO:g} | {'ok' if is_met else 'missed'}"
    print(f"| {ATTACKS[name].title} | {answers} | {counts} | {times} | {verdict} |", flush=True)
    if failed:
        print(f"  failed: {dict(alone.failures + beside.failures)}", file=sys.stderr)
    for kind in sorted(set(CYCLE)):  # the kinds of requests in the p99 of all
        spans = ", ".join(f"{one.quantile(part, kind) * 1000:.0f}" for part in (0.5, 0.95) for one in (alone, beside))
        print(f"  {kind}: p50 alone, beside, p95 alone, beside: {spans} ms", file=sys.stderr)
    return is_met


def prepare(cloud: Any, servers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create the projects, their quotas and the victim's servers; returns both sides' tokens, and what both launch."""
    command = [sys.executable, str(Path(__file__).resolve()), "seed", str(servers)]
    environment = {**cloud.environment(), "PYTHONPATH": str(ROOT)}
    seeded = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    found = json.loads(seeded.stdout.splitlines()[-1])
    quotas = dict.fromkeys(("instances", "cores", "ram"), -1)
    for side in found.values():
        path = f"{COMPUTE}/os-quota-sets/{side['project']}"
        answer = cloud.call("PUT", path, {"quota_set": quotas}, user="admin")
        assert answer.status == 200, answer.raw
    image = cloud.call("GET", "/image/v2/images?name=simulated-linux").json["images"][0]["id"]
    flavors = cloud.call("GET", f"{COMPUTE}/flavors").json["flavors"]
    flavor = next(one["id"] for one in flavors if one["name"] == "tiny")
    return found, {"imageRef": image, "flavorRef": flavor, "networks": "none"}


def _call_as(cloud: Any, side: dict[str, Any], path: str, body: Any) -> Any:
    cloud._tokens["side"] = side["token"]
    answer = cloud.call("POST", path, body, user="side")
    assert answer.status < 300, answer.raw
    return answer.json


def main(names: Sequence[str], rounds: int, seconds: float, servers: int, at_once: int) -> int:
    from tests.acceptance.cloud import Cloud

    variables = {
        "NOVELLA_SIMULATED_HOSTS": "8",
        "NOVELLA_SIMULATED_LATENCY_SECONDS": "0",
        "NOVELLA_RECONCILE_SECONDS": "0",
        "NOVELLA_LOG_LEVEL": "ERROR",
    }
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as folder:
        cloud = Cloud(Path(folder) / "var", **variables).start()
        hostile = None
        try:
            sides, launch = prepare(cloud, servers)
            victim, attacker = sides["victim"], sides["attacker"]
            body = {"server": launch | {"name": "mine", "min_count": VICTIMS_SERVERS}}
            _call_as(cloud, victim, f"{COMPUTE}/servers", body)
            mine = [row["id"] for row in cloud.call("GET", f"{COMPUTE}/servers", user="side").json["servers"]]
            form = {"name": "drip", "disk_format": "raw", "container_format": "bare"}
            images = [_call_as(cloud, attacker, "/image/v2/images", form)["id"] for _ in range(2)]
            facts = {"port": cloud.port, "tokens": attacker, "launch": launch, "image_ids": images, "at_once": at_once}
            hostile = Hostile(facts)
            victims = [
                Victim(cloud.port, victim, launch, mine, place=number * len(CYCLE) // CLIENTS)
                for number in range(CLIENTS)
            ]
            Window().measure(victims, max(1.0, seconds / 2))  # warms up caches
            print("| attack | answers to it | requests alone, beside | failed | p50 alone | p50 beside ", end="")
            print("| p99 alone | p99 beside | ratio | bar | |\n|---|---|---|---|---|---|---|---|---|---|---|")
            met = [measure(name, victims, hostile, rounds, seconds) for name in names]
        finally:
            if hostile is not None:
                hostile.stop()
            cloud.stop()
    print(f"load of the machine: {os.getloadavg()[0]:.0f}")
    return 0 if all(met) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each window")
    parser.add_argument("--quick", action="store_true", help="small and short: whether it works, not how fast it is")
    given = parser.parse_args()
    if unknown := set(given.attacks) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    return given


if __name__ == "__main__":
    if sys.argv[1:2] == ["seed"]:
        seed(int(sys.argv[2]))
    elif sys.argv[1:2] == ["attack"]:
        asyncio.run(attack())
    else:
        given = _arguments()
        amounts = {"rounds": given.rounds, "seconds": given.seconds, "servers": ATTACKERS_SERVERS, "at_once": AT_ONCE}
        sys.exit(main(given.attacks or list(ATTACKS), **(QUICK if given.quick else amounts)))
