"""Runs every benchmark, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALL = (
    "workflow_steps.py",
    "workflow_peers.py",
    "builds.py",
    "schedule_hosts.py",
    "api_lists.py",
    "api_show.py",
    "takeover.py",
    "parked.py",
    "live_sockets.py",
    "first_paint.py",
    "busy_list.py",
    "noisy_neighbour.py",
)


def main() -> int:
    worst = 0
    for name in ALL:
        print(f"== {name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(HERE / name)], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
