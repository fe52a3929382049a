"""Runs simulated schedules in a process of their own, as `make chaos` does."""

from __future__ import annotations

import subprocess
import sys

from tests.acceptance.cloud import PROJECT

LONGEST_SECONDS = 800.0


def simulate(seed: int = 1, **numbers: int) -> str:
    """Return the simulation's output. `numbers`: how many schedules of each kind; see `tests/chaos/simulate.py`."""
    words = [word for name, number in numbers.items() for word in (f"--{name}", str(number))]
    command = [sys.executable, "-m", "tests.chaos.simulate", "--seed", str(seed), *words]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    return ended.stdout
