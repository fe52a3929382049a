"""Simulated schedules by fixed seeds: a share of what `make chaos` runs."""

from __future__ import annotations

import re

import pytest

from tests.chaos.simulated import simulate

# Three times as many crowded ones as each planted bug is found in; `make chaos` plays 20000.
CROWDED, SCHEDULES, REAL = 3000, 50, 115
KILLS, STOPS = 300, 20  # of real processes, at the least
LIMIT = pytest.mark.timeout(900)  # the children have the processors to themselves only where nothing else runs


@LIMIT
def test_the_engine_keeps_its_promises_in_every_contended_schedule() -> None:
    output = simulate(crowded=CROWDED)
    assert re.search(rf"^{CROWDED} schedules in \d+ crowds, .*, 0 with violations", output, re.MULTILINE)


@LIMIT
def test_the_engine_keeps_its_promises_alone_and_in_real_processes() -> None:
    output = simulate(schedules=SCHEDULES, real=REAL)
    assert f"{SCHEDULES} schedules, 0 with violations" in output
    real = re.search(rf"{REAL} schedules, (\d+) SIGKILL, (\d+) SIGSTOP, 0 with violations", output)
    assert real is not None, output[-4000:]
    assert int(real[1]) >= KILLS
    assert int(real[2]) >= STOPS
