"""Checks by tools: lint, formatting, types."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture.tree import PROJECT_DIR

CHECKS = {
    "lint": ("ruff", "check", "--output-format=concise", "."),
    "formatting": ("ruff", "format", "--check", "."),
    "types": ("mypy", f"--cache-dir={os.devnull}"),  # a cache that two runs share may be half of each
}


@pytest.mark.parametrize("name", CHECKS)
def test_passes(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *CHECKS[name]], cwd=PROJECT_DIR, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
