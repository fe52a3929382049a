"""Handling of SIGTERM and SIGINT: they request a clean end, which the main thread waits for."""

from __future__ import annotations

import signal
import threading


def stop_requested() -> threading.Event:
    """Return an event that is set once the process is asked to end. Call it in the main thread."""
    requested = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: requested.set())
    return requested
