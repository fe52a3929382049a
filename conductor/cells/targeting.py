"""`target_cell`: a context manager that directs queries to one cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from conductor.core.errors import NovellaError

_target: ContextVar[str | None] = ContextVar("cell", default=None)


class NoCellTargeted(NovellaError):
    """A cell's table was asked for outside of target_cell()."""


def current_cell(default: str | None = None) -> str:
    """Return the alias of the targeted cell. Outside of any block `default`, or raise NoCellTargeted."""
    alias = _target.get() or default
    if alias is None:
        raise NoCellTargeted()
    return alias


@contextmanager
def target_cell(alias: str) -> Iterator[str]:
    """Direct queries on cell tables and on the journal to the database `alias` inside this block."""
    token = _target.set(alias)
    try:
        yield alias
    finally:
        _target.reset(token)
