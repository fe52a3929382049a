"""The order of test files, and how many of those that start processes or a browser run at the same time.

A cloud of processes needs a processor or more: five of them on two processors miss the times that their tests wait for.
So their files are spread among the others, and each waits for a slot before its first test and its time limit begin.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO

import pytest

TESTS_DIR = Path(__file__).parent
# By folder: whose slots its files share, and how many there are.
SLOTS = {"chaos": ("processes", 2), "acceptance": ("processes", 2), "browser": ("browser", 1)}
SPREAD_OVER = 0.6  # of the other files, so that none with a slot begins last
PAUSE_SECONDS = 0.2

_held: dict[Path, IO[str]] = {}  # the slot of the file that this process is at


def folder_of(item: pytest.Item) -> str:
    """Return the folder below `tests` that a test is in, which is its kind."""
    return item.path.relative_to(TESTS_DIR).parts[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that need a slot among the others, those of SLOTS' first folder first."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    by_folder = [[found for found in files.values() if folder_of(found[0]) == folder] for folder in SLOTS]
    slow = list(chain.from_iterable(by_folder))
    quick = [found for found in files.values() if folder_of(found[0]) not in SLOTS]
    step = math.ceil(len(quick) * SPREAD_OVER / max(1, len(slow)))
    spread = []
    for number, found in enumerate(slow):
        spread += [found, *quick[number * step : (number + 1) * step]]
    spread += quick[len(slow) * step :]
    items[:] = chain.from_iterable(spread)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Hold a slot from a file's first test to its last; outside of the tests' time limits."""
    folder, is_one_of_several = folder_of(item), hasattr(item.config, "workerinput")
    if is_one_of_several and folder in SLOTS and item.path not in _held:
        _held[item.path] = _take(Path(item.config.option.basetemp).parent, *SLOTS[folder])
    yield
    if item.path in _held and (nextitem is None or nextitem.path != item.path):
        _held.pop(item.path).close()


def _take(folder: Path, kind: str, count: int) -> IO[str]:
    """Return the locked file of a free slot, in a folder that all processes of this run share."""
    while True:
        for number in range(count):
            slot = (folder / f"slot-{kind}-{number}").open("w")
            with suppress(BlockingIOError):
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return slot
            slot.close()
        time.sleep(PAUSE_SECONDS)
