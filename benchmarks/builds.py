"""Builds per second through the whole path on simulated hosts: API, conductors, scheduler, agents, back to ACTIVE.

    python benchmarks/builds.py [servers]

Starts `manage.py up` on a folder of its own with hypervisors that take no time, launches the servers in one request and
waits for the last to be ACTIVE. The machine's commit limit is measured in the same run, for the ratios: on one
connection, and on as many as the process has workers, which wait for each other as builds do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.commit_limit import commits_per_second, crowded_commits_per_second
from tests.acceptance.cloud import Cloud, wait_until

INSTANT = {"NOVELLA_SIMULATED_HOSTS": "8", "NOVELLA_SIMULATED_LATENCY_SECONDS": "0", "NOVELLA_LOG_LEVEL": "WARNING"}
WORKERS = 8  # of the process that serves all


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        cloud = Cloud(Path(name) / "var", **INSTANT).start()
        try:
            alone, crowded = _limits(Path(name))
            build_seconds, delete_seconds = _build_and_delete(cloud, count)
            limits = [(before + after) / 2 for before, after in zip((alone, crowded), _limits(Path(name)), strict=True)]
        finally:
            cloud.stop()
    rate = count / build_seconds
    print(f"{count} servers ACTIVE in {build_seconds:.2f} s: {rate:.1f} builds per second")
    print(f"{count} servers deleted in {delete_seconds:.2f} s: {count / delete_seconds:.1f} deletes per second")
    for connections, limit in zip((1, WORKERS), limits, strict=True):
        print(f"commit limit, {connections} at once: {limit:.0f} per second; builds / limit: {rate / limit:.4f}")


def _limits(folder: Path) -> tuple[float, float]:
    return commits_per_second(folder), crowded_commits_per_second(folder, WORKERS)


def _build_and_delete(cloud: Cloud, count: int) -> tuple[float, float]:
    warm = cloud.launch("warm").json["server"]["id"]
    cloud.wait_for_status(warm, "ACTIVE")
    began = time.perf_counter()
    answer = cloud.launch("many", min_count=count, max_count=count)
    assert answer.status == 202, answer.raw
    # Whoever waits must not take the time of those who work: one row is asked for, not all.
    wait_until("all active", lambda: not _is_any(cloud, "BUILD"), pause=0.1)
    assert all(server["status"] == "ACTIVE" for server in cloud.servers("many"))
    built = time.perf_counter()
    for server in cloud.servers("many"):
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("all deleted", lambda: not _is_any(cloud, "ACTIVE") and not cloud.servers("many"), pause=0.1)
    return built - began, time.perf_counter() - built


def _is_any(cloud: Cloud, status: str) -> bool:
    return bool(cloud.call("GET", f"/compute/v2.1/servers?name=many&status={status}&limit=1").json["servers"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
