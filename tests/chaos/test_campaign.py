"""A part of the fault campaign, by fixed seeds: all of it is `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cloud import PROJECT
from tests.chaos import points, scenes
from tests.chaos.campaign import Campaign, at_random

SEED = 20
ACTIONS, KILLS, PLACES = 100, 10, 8
SCHEDULES = 300


def simulate(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.chaos.simulate", *arguments]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]


@pytest.mark.timeout(900)
def test_the_engine_keeps_its_promises_in_every_schedule() -> None:
    simulate("--seed", "1", "--schedules", str(SCHEDULES))


@pytest.mark.timeout(900)  # the children have the processors to themselves only where nothing else runs
def test_every_planted_bug_is_found() -> None:
    simulate("--planted", "--seed", "1", "--schedules", "1000")


@pytest.mark.timeout(900)
def test_a_cloud_of_processes_comes_to_rest_and_is_right(tmp_path: Path) -> None:
    told: list[str] = []
    armed = {"NOVELLA_CRASH_AT": f"@{tmp_path / points.ARMED}"}
    with Campaign(tmp_path, SEED, **armed) as campaign:
        wrong = at_random(campaign, actions=ACTIONS, kills=KILLS, tell=told.append)
        assert wrong == [], f"python -m tests.chaos --seed {SEED} --actions {ACTIONS} --kills {KILLS}"
        found = points.places(scenes.WITHOUT_RECLAIM, PLACES, SEED)
        assert points.walk(campaign, found, told.append) == [], told
        assert "not reached: none" in told[-1]
