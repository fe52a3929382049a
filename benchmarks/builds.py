"""Builds per second through the whole path on simulated hosts: API, conductors, scheduler, agents, back to ACTIVE.

    python benchmarks/builds.py [servers]

Starts `manage.py up` on a folder of its own with hypervisors that take no time, launches the servers in one request and
waits for the last to be ACTIVE. The machine's commit limit is measured in the same run, for the ratio.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.commit_limit import commits_per_second
from tests.acceptance.cloud import Cloud, wait_until

INSTANT = {"NOVELLA_SIMULATED_HOSTS": "8", "NOVELLA_SIMULATED_LATENCY_SECONDS": "0", "NOVELLA_LOG_LEVEL": "WARNING"}


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        cloud = Cloud(Path(name) / "var", **INSTANT).start()
        try:
            limit = commits_per_second(Path(name))
            build_seconds, delete_seconds = _build_and_delete(cloud, count)
        finally:
            cloud.stop()
        limit = (limit + commits_per_second(Path(name))) / 2
    print(f"{count} servers ACTIVE in {build_seconds:.2f} s: {count / build_seconds:.1f} builds per second")
    print(f"{count} servers deleted in {delete_seconds:.2f} s: {count / delete_seconds:.1f} deletes per second")
    print(f"commit limit {limit:.0f} per second; builds per second / commit limit: {count / build_seconds / limit:.4f}")


def _build_and_delete(cloud: Cloud, count: int) -> tuple[float, float]:
    warm = cloud.launch("warm").json["server"]["id"]
    cloud.wait_for_status(warm, "ACTIVE")
    began = time.perf_counter()
    answer = cloud.launch("many", min_count=count, max_count=count)
    assert answer.status == 202, answer.raw
    wait_until("all active", lambda: all(s["status"] == "ACTIVE" for s in cloud.servers("many")))
    built = time.perf_counter()
    for server in cloud.servers("many"):
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("all deleted", lambda: not cloud.servers("many"))
    return built - began, time.perf_counter() - built


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
