"""Time budget of read-only requests: past that, the next statement or match ends the request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from conductor.core.errors import OutOfTime

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End the block, in this thread, with OutOfTime after this many seconds."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def is_over() -> bool:
    """Whether there is a budget, and it is used up."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() > deadline


def check() -> None:
    """Raise OutOfTime when the budget is used up."""
    if is_over():
        raise OutOfTime
