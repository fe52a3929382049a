"""Named places at which a test may kill the process: before and after every effect and every commit."""

from __future__ import annotations

import os
import signal
import sys

from django.conf import settings


def reach(name: str) -> None:
    """End this process as `kill -9` does when the option `crash_at` names this place. One comparison when off."""
    if name == settings.NOVELLA_CRASH_AT:
        print(f"crash_at reached: {name}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
