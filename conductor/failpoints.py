"""Failpoints: named places at which a test may kill the process, before and after every effect and every commit."""

from __future__ import annotations

import os
import signal
import sys
from functools import cache
from pathlib import Path

from django.conf import settings

BY_FILE = "@"


def reach(name: str) -> None:
    """End this process as `kill -9` does if the option `crash_at` names this point. It costs one comparison when off.

    With `@<file>` the point is read from the file. The process that reaches it deletes the file first.
    """
    armed = _armed()
    if armed and (name == armed or (armed[0] == BY_FILE and _takes(Path(armed[1:]), name))):
        print(f"crash_at reached: {name}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


@cache
def _armed() -> str:
    """Return the option. It is cached, as every step reads it three times."""
    return settings.NOVELLA_CRASH_AT


def _takes(file: Path, name: str) -> bool:
    """Delete the file. Of several processes that reach the point at once, only one gets true and ends."""
    try:
        if file.read_text() != name:
            return False
        file.rename(file.with_name(f"{file.name}.{os.getpid()}"))
    except OSError:  # not armed, or another process deleted it
        return False
    return True
