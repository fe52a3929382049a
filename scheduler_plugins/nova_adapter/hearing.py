"""Captures what a class of Nova logs while it judges one host: the only reason that it gives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

_heard: ContextVar[list[logging.LogRecord] | None] = ContextVar("heard", default=None)
LONGEST = 200
SHORT = 8  # lines kept per call


class _LogCapture(logging.Handler):
    """Captures records, and passes on those that would have been logged without it."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._above, self._level = logger.parent, logger.getEffectiveLevel()

    def handle(self, record: logging.LogRecord) -> bool:
        heard = _heard.get()
        if heard is not None and len(heard) < SHORT:
            heard.append(record)
        if self._above is not None and record.levelno >= self._level:
            self._above.handle(record)
        return True


def listen_to(kind: type[object]) -> None:
    """Capture the log of the class's and its bases' modules from now on, even lines below the logged level."""
    for module in {base.__module__ for base in kind.__mro__ if base is not object}:
        logger = logging.getLogger(module)
        if not any(isinstance(one, _LogCapture) for one in logger.handlers):
            logger.addHandler(_LogCapture(logger))
            logger.setLevel(logging.DEBUG)
            logger.propagate = False


@contextlib.contextmanager
def heard() -> Iterator[list[logging.LogRecord]]:
    """Collect the lines that are logged in this block, in this thread."""
    lines: list[logging.LogRecord] = []
    token = _heard.set(lines)
    try:
        yield lines
    finally:
        _heard.reset(token)


def last_of(lines: list[logging.LogRecord]) -> str:
    """Return the last line as a text; empty where there is none, or it cannot be formatted."""
    try:
        return " ".join(lines[-1].getMessage().split())[:LONGEST] if lines else ""
    except Exception:  # a foreign line with too few values
        return ""
