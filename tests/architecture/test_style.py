"""The gates that tools know how to check: lint, formatting, types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PROJECT_DIR

GATES = {
    "lint": ("ruff", "check", "--output-format=concise", "."),
    "formatting": ("ruff", "format", "--check", "."),
    "types": ("mypy", "--cache-dir={tmp}"),  # a cache that two runs share may be half of each
}


@pytest.mark.parametrize("gate", GATES)
def test_gate(gate: str, tmp_path: Path) -> None:
    command = [word.format(tmp=tmp_path) for word in GATES[gate]]
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=PROJECT_DIR, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
