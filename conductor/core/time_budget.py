"""How long a request that only reads may take: past that, its next statement or match ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from conductor.core.errors import OutOfTime

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What runs inside, in this thread, ends with OutOfTime after so many seconds."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def is_over() -> bool:
    """Whether there is a budget, and it is spent."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() > deadline


def check() -> None:
    """Raises OutOfTime when the budget is spent."""
    if is_over():
        raise OutOfTime
