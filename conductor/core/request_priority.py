"""Marks threads that work for a request, which a client waits for, as opposed to background work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def for_request() -> Iterator[None]:
    """Mark this thread as working for a request until the end of the block."""
    _thread.is_request = True
    try:
        yield
    finally:
        _thread.is_request = False


def is_for_request() -> bool:
    """Whether this thread works for a request now."""
    return getattr(_thread, "is_request", False)
