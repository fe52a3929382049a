"""SIGTERM and SIGINT end a process cleanly: they are taken as a wish, which the main thread waits for."""

from __future__ import annotations

import signal
import threading


def stop_wish() -> threading.Event:
    """An event that is set once somebody asks this process to end. Call it in the main thread."""
    wished = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: wished.set())
    return wished
