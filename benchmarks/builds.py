"""Builds per second through the whole path on simulated hosts: API, conductors, scheduler, agents, back to ACTIVE.

    python benchmarks/builds.py [servers]

Twice: in `manage.py up`, one process for everything, and in processes of their own (a web, a conductor of the API level
and one for each of two cells, four hosts, Redis between them) that share the SQLite files. The hypervisors take no
time; the servers are launched by one request, and the last is waited for to be ACTIVE: so many that the beginning, in
which one process works for all, counts for little. The machine's commit limit is measured before and after each, for
the ratios: on one connection, and on eight, which wait for each other as builds do.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.commit_limit import commits_per_second, crowded_commits_per_second
from tests.acceptance.cloud import Client, Cloud, wait_until
from tests.acceptance.deployment import Deployment

QUIET = {"NOVELLA_LOG_LEVEL": "WARNING"}
ROUNDS = 3
PAUSE_SECONDS = 0.1
AT_ONCE = (1, 8)  # a process has eight workers


@contextmanager
def in_one_process(folder: Path) -> Iterator[Client]:
    cloud = Cloud(folder / "var", NOVELLA_SIMULATED_HOSTS="8", NOVELLA_SIMULATED_LATENCY_SECONDS="0", **QUIET).start()
    try:
        yield cloud
    finally:
        cloud.stop()


@contextmanager
def in_many(folder: Path) -> Iterator[Client]:
    hosts = {"cell1": ("h1", "h2"), "cell2": ("h3", "h4")}
    usual = {**QUIET, "NOVELLA_LEASE_SECONDS": "10", "NOVELLA_SWEEP_SECONDS": "2", "latency_seconds": "0"}
    cells = dict.fromkeys(hosts, 1)
    with Deployment(folder, broker="redis", webs=1, api_conductors=1, cells=cells, hosts=hosts, **usual) as all_:
        yield all_.api(0)


def main(count: int) -> None:
    for title, running in (("one process", in_one_process), ("processes of their own", in_many)):
        with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
            _measure(title, running, Path(name), count)


def _measure(title: str, running: Callable[[Path], AbstractContextManager[Client]], folder: Path, count: int) -> None:
    before = _limits(folder)
    with running(folder) as cloud:
        warm = cloud.launch("warm").json["server"]["id"]
        _make_room(cloud, cloud.wait_for_status(warm, "ACTIVE")["tenant_id"], count)
        rounds = [_build_and_delete(cloud, count) for _ in range(ROUNDS)]
    built, deleted = (sorted(count / seconds for seconds in kind) for kind in zip(*rounds, strict=True))
    print(f"-- {title}, {count} servers, median of {ROUNDS} rounds (and their range)")
    for what, rates in (("ACTIVE", built), ("deleted", deleted)):
        print(f"{what:8s} per second: {statistics.median(rates):6.1f} ({rates[0]:.1f} to {rates[-1]:.1f})")
    for connections, *limits in zip(AT_ONCE, before, _limits(folder), strict=True):
        limit = statistics.mean(limits)
        share = statistics.median(built) / limit
        print(f"commit limit, {connections} at once: {limit:.0f} per second; builds / limit: {share:.4f}")


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
    # Whoever waits must not take the time of those who work: one row is asked for, not all.
    wait_until("all active", lambda: not _is_any(cloud, "BUILD"), pause=PAUSE_SECONDS)
    built = time.perf_counter()
    assert [server["status"] for server in cloud.servers("many")] == ["ACTIVE"] * count
    asked = time.perf_counter()
    for server in cloud.servers("many"):
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("all deleted", lambda: not _is_any(cloud, "ACTIVE") and not cloud.servers("many"), pause=PAUSE_SECONDS)
    return built - began, time.perf_counter() - asked


def _is_any(cloud: Client, status: str) -> bool:
    return bool(cloud.call("GET", f"/compute/v2.1/servers?name=many&status={status}&limit=1").json["servers"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 360)
