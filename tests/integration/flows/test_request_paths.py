"""The count of files that a request passes through, in a process in which no other test has run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.acceptance.nursery import PROJECT, inherited_environment

COUNT = Path(__file__).with_name("paths_of_requests.py")


def test_a_request_passes_through_few_files() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(COUNT)]
    ended = subprocess.run(
        command, cwd=PROJECT, env=inherited_environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert "1 passed" in ended.stdout
