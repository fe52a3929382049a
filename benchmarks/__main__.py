"""Runs every benchmark, one after another, and writes RESULTS.md from the stored figures: `make bench`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import results

HERE = Path(__file__).resolve().parent
ALL = (
    "workflow_steps.py",
    "workflow_peers.py",
    "builds.py",
    "host_reports.py",
    "schedule_hosts.py",
    "api_lists.py",
    "api_show.py",
    "takeover.py",
    "parked.py",
    "live_sockets.py",
    "first_paint.py",
    "busy_list.py",
    "noisy_neighbour.py",
    "network_projection.py",
)


def main() -> int:
    worst, environment = 0, {**os.environ, results.RECORDING: "1"}
    for name in ALL:
        print(f"== {name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(HERE / name)], env=environment, check=False).returncode)
    results.write()
    return worst


if __name__ == "__main__":
    sys.exit(main())
