"""Named places at which a test may kill the process: before and after every effect and every commit."""

from __future__ import annotations

import os
import signal
import sys
from functools import cache
from pathlib import Path

from django.conf import settings

BY_FILE = "@"


def reach(name: str) -> None:
    """End this process as `kill -9` does when the option `crash_at` names this place. One comparison when off.

    With `@<file>` the place is what the file says; whoever reaches it takes the file away, and only then dies.
    """
    armed = _armed()
    if armed and (name == armed or (armed[0] == BY_FILE and _takes(Path(armed[1:]), name))):
        print(f"crash_at reached: {name}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


@cache
def _armed() -> str:
    """A process begins with it, and every step asks three times."""
    return settings.NOVELLA_CRASH_AT


def _takes(file: Path, name: str) -> bool:
    """Of several processes that come to the armed place at once, one dies."""
    try:
        if file.read_text() != name:
            return False
        file.rename(file.with_name(f"{file.name}.{os.getpid()}"))
    except OSError:  # not armed, or another took it
        return False
    return True
