"""The image `tiny-linux`, built once for all who need a real guest: it is fetched, unpacked and packed for seconds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.locks import locked

PROJECT = Path(__file__).resolve().parents[1]
KEPT = PROJECT / ".pytest_cache" / "tiny-linux"
BUILD_SECONDS = 280.0


def copy_image(folder: Path) -> Path:
    """Put the image's files into `folder`, where `manage.py up` finds them too. The builder says what is stale."""
    KEPT.parent.mkdir(exist_ok=True)
    with locked(KEPT.with_suffix(".lock")):
        build = [sys.executable, str(PROJECT / "tools" / "build_tiny_linux.py"), "--output", str(KEPT)]
        done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        assert done.returncode == 0, done.stderr
        shutil.copytree(KEPT, folder, dirs_exist_ok=True)
    return folder
