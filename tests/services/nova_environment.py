"""An environment with Nova in it, beside the one of the tests: made from its lock where it is missing or older."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.locks import locked

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "nova-adapter.lock"


def python() -> Path:
    """Return the environment's interpreter. Takes a few seconds the first time, and none afterwards."""
    here = Path(sys.prefix)
    place = here / "nova-adapter"
    stamp, wanted = place / ".made-from", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with locked(here / ".nova-adapter.lock"):
        if not (stamp.is_file() and stamp.read_text() == wanted):
            uv = here / "bin" / "uv"
            run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, place)
            run(uv, "pip", "sync", "--quiet", "--require-hashes", "--python", place / "bin" / "python", LOCK)
            stamp.write_text(wanted)
    return place / "bin" / "python"


def run(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
