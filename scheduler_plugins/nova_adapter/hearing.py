"""Hears what a class of Nova logs while it judges one host: the only reason that it gives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

_heard: ContextVar[list[logging.LogRecord] | None] = ContextVar("heard", default=None)
LONGEST = 200
SHORT = 8  # so many lines of one question are kept


class _Ear(logging.Handler):
    """Takes what is said meanwhile, and hands on what would have been logged without it."""

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
    """From now on what the modules of the class and of its bases log can be heard, also what nobody logs."""
    for module in {base.__module__ for base in kind.__mro__ if base is not object}:
        logger = logging.getLogger(module)
        if not any(isinstance(one, _Ear) for one in logger.handlers):
            logger.addHandler(_Ear(logger))
            logger.setLevel(logging.DEBUG)
            logger.propagate = False


@contextlib.contextmanager
def heard() -> Iterator[list[logging.LogRecord]]:
    """The lines that are logged in this block, in this thread."""
    lines: list[logging.LogRecord] = []
    token = _heard.set(lines)
    try:
        yield lines
    finally:
        _heard.reset(token)


def last_of(lines: list[logging.LogRecord]) -> str:
    """The last line as a text; empty where nothing was said, or it cannot be written."""
    try:
        return " ".join(lines[-1].getMessage().split())[:LONGEST] if lines else ""
    except Exception:  # a foreign line with too few values
        return ""
