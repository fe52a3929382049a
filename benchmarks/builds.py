"""Server builds per second on simulated hosts: from the request to the API until the servers are ACTIVE.

    python benchmarks/builds.py [servers]

It measures two clouds: `manage.py up`, one process with SQLite, and separate processes with PostgreSQL and Redis (a web
process, a conductor of the API level, a conductor for each of two cells, and four hosts). The simulated hypervisors
take no time. One request launches all servers, and the benchmark waits until the last one is ACTIVE. The first phase,
in which one process prepares all servers, is short compared with the rest. Builds per second are divided by the commit
limit of SQLite files on this machine, measured before and after: on one connection, and on eight, which wait for each
other like builds.

Then the same number of servers is launched with a request for each, by one client and by eight. This measures the
processor time per server in all processes of the cloud, as a ratio to that of the single request, and the time until a
client gets its response.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import processor_seconds
from benchmarks.commit_limit import commits_per_second, crowded_commits_per_second
from benchmarks.results import Figure, record
from tests.acceptance.cloud import Client, Cloud
from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

QUIET = {"NOVELLA_LOG_LEVEL": "WARNING"}
ROUNDS = 3
PAUSE_SECONDS = 0.1
AT_ONCE = (1, 8)  # a process has eight workers
CLIENTS = (1, 8)  # that launch servers one by one
BAR_SINGLE = 1.5  # processor time per server, as a ratio to that of a single request for all


@dataclass(frozen=True)
class Running:
    """A cloud: a client of it, and its processes."""

    client: Client
    pids: Sequence[int]

    def cpu_seconds(self) -> float:
        """Return the processor time that all of its processes have used."""
        return sum(map(processor_seconds, self.pids))


@contextmanager
def in_one_process(folder: Path) -> Iterator[Running]:
    cloud = Cloud(folder / "var", NOVELLA_SIMULATED_HOSTS="8", NOVELLA_SIMULATED_LATENCY_SECONDS="0", **QUIET).start()
    try:
        assert cloud.process is not None
        yield Running(cloud, [cloud.process.pid])
    finally:
        cloud.stop()


FIGURES = {
    "one process": "builds, one process, {count} servers",
    "separate processes": "builds, separate processes, {count} servers",
}


@contextmanager
def in_many(folder: Path) -> Iterator[Running]:
    hosts = {"cell1": ("h1", "h2"), "cell2": ("h3", "h4")}
    default = {**QUIET, "NOVELLA_LEASE_SECONDS": "10", "NOVELLA_SWEEP_SECONDS": "2", "latency_seconds": "0"}
    cells = dict.fromkeys(hosts, 1)
    with Deployment(folder, broker="redis", webs=1, api_conductors=1, cells=cells, hosts=hosts, **default) as all_:
        yield Running(all_.api(0), [member.child.pid for member in all_.members if member.child])


def main(count: int) -> None:
    for title, running in (("one process", in_one_process), ("separate processes", in_many)):
        with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
            _measure(title, running, Path(name), count)


def _measure(title: str, start: Callable[[Path], AbstractContextManager[Running]], folder: Path, count: int) -> None:
    before = _limits(folder)
    with start(folder) as running:
        cloud = running.client
        warm = cloud.launch("warm").json["server"]["id"]
        _make_room(cloud, cloud.wait_for_status(warm, "ACTIVE")["tenant_id"], count)
        began, rounds = running.cpu_seconds(), []
        for _ in range(ROUNDS):
            rounds.append(_build_and_delete(cloud, count))
        together = (running.cpu_seconds() - began) / ROUNDS
        for clients in CLIENTS:
            _measure_singles(title, running, count, clients, together)
    built, deleted = (sorted(count / seconds for seconds in kind) for kind in zip(*rounds, strict=True))
    print(f"-- {title}, {count} servers, median of {ROUNDS} rounds (and their range)")
    for what, rates in (("ACTIVE", built), ("deleted", deleted)):
        print(f"{what:8s} per second: {statistics.median(rates):6.1f} ({rates[0]:.1f} to {rates[-1]:.1f})")
    for connections, *limits in zip(AT_ONCE, before, _limits(folder), strict=True):
        limit = statistics.mean(limits)
        share = statistics.median(built) / limit
        if connections == AT_ONCE[1]:
            rate, name = statistics.median(built), FIGURES[title].format(count=count)
            bound = f"commits of eight connections, {limit:,.0f} per second"
            record("builds", [Figure(name, f"{rate:.0f} per second", bound, round(share, 4), "≥ 0.03")])
        print(f"commit limit, {connections} at once: {limit:.0f} per second; builds / limit: {share:.4f}")


def _measure_singles(title: str, running: Running, count: int, clients: int, together: float) -> None:
    """Launch servers by a request each, and delete them; `together` is the processor time of one request for all."""
    cloud, began = running.client, running.cpu_seconds()

    def launch(number: int) -> float:
        requested = time.perf_counter()
        answer = cloud.launch(f"many-{number}")
        assert answer.status == 202, answer.raw
        return time.perf_counter() - requested

    with ThreadPoolExecutor(clients) as pool:
        waits = sorted(pool.map(launch, range(count)))
    wait_until("all active", lambda: not _is_any(cloud, "BUILD"), pause=PAUSE_SECONDS)
    _delete_all(cloud)
    used = running.cpu_seconds() - began
    ratio = round(used / together, 2)
    median, longest = (waits[int(part * (count - 1))] * 1000 for part in (0.5, 0.99))
    print(
        f"one request each, {clients} clients: {used / count * 1000:.1f} ms of processor time for a build and its end, "
        f"{ratio} x that of one request for all; answered after {median:.0f} ms, p99 {longest:.0f} ms"
    )
    name = f"processor time of builds by single requests, {title}, {clients} clients"
    record("builds", [Figure(name, f"{used / count * 1000:.1f} ms", "one request for all", ratio, f"≤ {BAR_SINGLE}")])


def _make_room(cloud: Client, project_id: str, count: int) -> None:
    quotas = {"instances": count + 1, "cores": count + 1, "ram": -1}
    answer = cloud.call("PUT", f"/compute/v2.1/os-quota-sets/{project_id}", {"quota_set": quotas}, user="admin")
    assert answer.status == 200, answer.raw


def _limits(folder: Path) -> tuple[float, float]:
    return commits_per_second(folder), crowded_commits_per_second(folder, AT_ONCE[1])


def _build_and_delete(cloud: Client, count: int) -> tuple[float, float]:
    began = time.perf_counter()
    answer = cloud.launch("many", min_count=count, max_count=count)
    assert answer.status == 202, answer.raw
    # Polling must not take time from the workers: it reads one row, not all.
    wait_until("all active", lambda: not _is_any(cloud, "BUILD"), pause=PAUSE_SECONDS)
    built = time.perf_counter()
    assert [server["status"] for server in cloud.servers("many")] == ["ACTIVE"] * count
    requested = time.perf_counter()
    _delete_all(cloud)
    return built - began, time.perf_counter() - requested


def _delete_all(cloud: Client) -> None:
    for server in cloud.servers("many"):
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("all deleted", lambda: not _is_any(cloud, "ACTIVE") and not cloud.servers("many"), pause=PAUSE_SECONDS)


def _is_any(cloud: Client, status: str) -> bool:
    return bool(cloud.call("GET", f"/compute/v2.1/servers?name=many&status={status}&limit=1").json["servers"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 360)
