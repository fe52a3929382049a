"""Calls of plugins that never come back leave the process as it was, but for a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conductor.core.scheduling.watching import LeftBehind
from conductor.scheduler import attendance

PROJECT = Path(__file__).resolve().parents[2]
SLEEPER = """
import sys, time
from conductor.core.scheduling.watching import LeftBehind
from conductor.scheduler import attendance
for _ in range(2):
    try:
        attendance.within(0.01, time.sleep, 600)
    except LeftBehind:
        pass
sys.setprofile(lambda *of: None)
print(sorted(str(number) for number in range(3)), attendance.num_left_behind())
"""


def test_while_one_sleeps_others_can_be_profiled() -> None:
    """An exception that waits for its thread would have the interpreter go round for ever in a profiled function."""
    done = subprocess.run([sys.executable, "-c", SLEEPER], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "['0', '1', '2'] 2\n", done.stderr


def test_one_that_comes_back_late_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    before, gate = attendance.num_left_behind(), threading.Event()
    with pytest.raises(LeftBehind):
        attendance.within(0.01, gate.wait, 600)
    gate.set()
    deadline = time.monotonic() + 30
    while attendance.num_left_behind() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert attendance.num_left_behind() == before
    assert "Stop" not in capsys.readouterr().err
