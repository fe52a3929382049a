"""Simulated schedules by fixed seeds, and bugs that they must find: a share of what `make chaos` runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.acceptance.cloud import PROJECT
from tests.chaos.planted import PLANTED

CROWDED, SCHEDULES, REAL, PLANTED_IN = 20000, 50, 115, 1000
KILLS, STOPS = 300, 20  # of real processes, at the least


@pytest.mark.timeout(900)  # the children have the processors to themselves only where nothing else runs
def test_the_engine_keeps_its_promises_in_every_schedule_and_each_planted_bug_is_found() -> None:
    numbers = {"--crowded": CROWDED, "--schedules": SCHEDULES, "--real": REAL, "--planted": PLANTED_IN}
    words = [word for name, number in numbers.items() for word in (name, str(number))]
    command = [sys.executable, "-m", "tests.chaos.simulate", "--seed", "1", *words]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=800)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    assert re.search(rf"^{CROWDED} schedules in \d+ crowds, .*, 0 with violations", ended.stdout, re.MULTILINE)
    assert f"{SCHEDULES} schedules, 0 with violations" in ended.stdout
    real = re.search(rf"{REAL} schedules, (\d+) SIGKILL, (\d+) SIGSTOP, 0 with violations", ended.stdout)
    assert real is not None, ended.stdout[-4000:]
    assert int(real[1]) >= KILLS
    assert int(real[2]) >= STOPS
    assert f"{len(PLANTED)} of {len(PLANTED)} planted bugs found" in ended.stdout
