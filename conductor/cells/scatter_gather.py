"""Queries all cells at once, and reports those that did not answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from django.db import DatabaseError, InterfaceError, connections

from conductor.cells import quarantine
from conductor.cells.targeting import target_cell
from conductor.core import time_budget
from conductor.core.errors import CellUnavailable

log = logging.getLogger(__name__)

# The time of each cell's last answer to this process; an outage is logged once.
_lock = threading.Lock()
_answered_at: dict[str, datetime] = {}
_down: set[str] = set()

R = TypeVar("R")
CELL_IS_DOWN = (DatabaseError, InterfaceError, CellUnavailable, OSError)
_pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="scatter")


@dataclass
class GatherResult(Generic[R]):
    """Answers by cell alias, and the cells that failed, each with the reason."""

    answers: dict[str, R] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def scatter_gather(
    ask: Callable[[str], R], cells: Iterable[str], *, timeout_seconds: float = 5.0, asks_quarantined: bool = False
) -> GatherResult[R]:
    """Call `ask(alias)` inside each cell.

    A file database answers in this thread, one cell after another, as another thread would cost more than the query.
    Other databases are queried concurrently. A cell that is unresponsive after the timeout is left out and reported, as
    is one in quarantine, which gets no query.
    """
    gathered: GatherResult[R] = GatherResult()
    remote: dict[str, Future[R]] = {}
    cells = list(cells)
    gathered.failures |= {} if asks_quarantined else quarantine.failures(cells)
    for alias in cells:
        if alias in gathered.failures:
            continue
        if connections[alias].vendor == "sqlite":
            _collect(gathered, alias, lambda alias=alias: _ask_in_cell(ask, alias))  # type: ignore[misc]
        else:
            remote[alias] = _pool.submit(_ask_in_thread, ask, alias)
    wait(remote.values(), timeout=timeout_seconds)
    for alias, future in remote.items():
        if future.done():
            _collect(gathered, alias, future.result)
        else:
            _note_failure(alias)
            gathered.failures[alias] = f"no answer within {timeout_seconds} seconds"
    return gathered


def _collect(gathered: GatherResult[R], alias: str, answer: Callable[[], R]) -> None:
    try:
        gathered.answers[alias] = answer()
    except CELL_IS_DOWN as error:
        time_budget.check()  # a statement that exceeded its own budget proves nothing about the cell
        # One cell must not fail the others. A bug of ours is no outage, and is raised.
        _note_failure(alias, error)
        gathered.failures[alias] = f"{type(error).__name__}: {error}"
    else:
        _note_answer(alias)


def _ask_in_cell(ask: Callable[[str], R], alias: str) -> R:
    with target_cell(alias):
        return ask(alias)


def _ask_in_thread(ask: Callable[[str], R], alias: str) -> R:
    try:
        return _ask_in_cell(ask, alias)
    finally:
        connections[alias].close()


def _note_answer(alias: str) -> None:
    """Record that a cell has just answered."""
    _answered_at[alias] = datetime.now(UTC)
    if alias in _down:
        with _lock:
            _down.discard(alias)
        log.warning("cell answers again: cell=%s", alias)


def _note_failure(alias: str, error: Exception | None = None) -> None:
    """Record that a cell has not answered. It is logged once per outage, not for every query."""
    with _lock:
        is_new = alias not in _down
        _down.add(alias)
    if is_new:
        log.warning("cell does not answer: cell=%s", alias, exc_info=error)


def last_answered(alias: str) -> datetime | None:
    """Return when a cell last answered this process. None if it never did."""
    return _answered_at.get(alias)
